"""From arguments to a dataclass of options, for every command alike."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import tyro
from rich.console import Console

from hrnn.errors import DONE, ECHO, FAILED, MISTAKE, UserError, shortened
from hrnn.limits import fitted
from hrnn.torchrun import is_first_process

if TYPE_CHECKING:  # it takes torch
    from hrnn.launching.units import Ending

T = TypeVar("T")
RULES = tyro.constructors.ConstructorRegistry()
_BEING_READ: list[type] = []


def parse(kind: type[T], command: str, arguments: Sequence[str], description: str | None = None) -> T:
    """Options by their own names, without those of the dataclasses around them, checked; a mistake is a UserError."""
    options, said = _parsed(kind, command, arguments, description)
    if options is None:
        if any(len(word) > ECHO for word in arguments):  # it is repeated, and broken into lines: once more with less of it
            said = _parsed(kind, command, [shortened(word) for word in arguments], description)[1] or said
        raise UserError(f"{in_one_line(said)} (hrnn {command} --help lists all options)")
    return fitted(options)


def _parsed(kind: type[T], command: str, arguments: Sequence[str], description: str | None) -> tuple[T | None, str]:
    """The options, or None and what tyro says of the mistake."""
    said = io.StringIO()
    # Help after other arguments would leave those out that are given already.
    arguments = ["--help"] if {"-h", "--help"} & set(arguments) else list(arguments)
    try:
        with RULES, contextlib.redirect_stderr(said), contextlib.ExitStack() as silence:
            if not is_first_process():
                silence.enter_context(contextlib.redirect_stdout(said))
            found = tyro.cli(
                kind,
                prog=f"hrnn {command}",
                args=arguments,
                description=description or inspect.cleandoc(kind.__doc__ or ""),
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as stopped:
        if stopped.code == MISTAKE:
            return None, said.getvalue()
        raise
    return found, ""


@RULES.struct_rule
def _as_shown(info: tyro.constructors.StructTypeInfo) -> tyro.constructors.StructConstructorSpec | None:
    """A dataclass as tyro takes it, without the fields that are no options; help breaks into lines where the terminal does."""
    if not dataclasses.is_dataclass(info.type) or info.type in _BEING_READ:
        return None
    names = [field.name for field in dataclasses.fields(info.type) if field.metadata.get("hidden")]
    _BEING_READ.append(info.type)
    try:
        found = RULES.get_struct_spec(info)  # by tyro's own rule: this one stands back
    finally:
        _BEING_READ.pop()
    assert isinstance(found, tyro.constructors.StructConstructorSpec)
    return dataclasses.replace(found, fields=tuple(_flowing(field) for field in found.fields if field.name not in names))


def _flowing(field: tyro.constructors.StructFieldSpec) -> tyro.constructors.StructFieldSpec:
    """Its help without the line breaks of the source, which tyro keeps where a docstring's next line is indented."""

    def flowing() -> str | None:
        text = field.helptext() if callable(field.helptext) else field.helptext  # tyro may not have read it yet
        return " ".join(text.split()) if text else None

    return dataclasses.replace(field, helptext=flowing)


def in_one_line(text: str) -> str:
    """What tyro says in a box, without the box and without what every such box ends with."""
    sections = [""]
    for line in text.splitlines()[1:-1]:  # without the box's head and foot
        content = line.strip().strip("|│").strip()
        if content and not content.strip("-─"):
            sections.append("")
        else:
            sections[-1] = f"{sections[-1]} {content}".strip()
    what = " ".join(one for one in sections if one and not one.startswith(("For full helptext", "Argument helptext")))
    what = re.sub(r"no type matching (.*) could be instantiated from (.*?)\. Got errors:.*", r"\2 is not \1", what)
    what = re.sub(r"\.? ?Perhaps you meant: (--\S+).*", r"; perhaps you meant \1", what)
    return shortened(what.replace("{None}|", "").removesuffix("."), 3 * ECHO) or "the arguments cannot be read"


def require_folder(path: Path, option: str) -> None:
    """Refuse a path where no folder can be, before anything else is done."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):  # what cannot be looked at is found when it is written
            if place.exists() and not place.is_dir():
                raise UserError(f"{option} {path}: {place} is not a folder; give another {option}")


def ended(ending: Ending, folder: Path) -> int:
    """Say how the runs of a command ended that did not end well; returns the exit code."""
    for name, sentence in ending.failures.items():
        print(f"hrnn: {name} failed: {sentence}", file=sys.stderr)
    if ending.interrupted:
        why = "time limit" if ending.late else "interrupted"
        print(f"{why}; the same command goes on from here: {folder}", file=sys.stderr)
        return ending.code
    return FAILED if ending.failures else DONE


class Output(Console):
    """Where tables go."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # cli.py knows what to do; rich would end the process with 1, and say nothing


def console() -> Output:
    """A pipe has no width of its own, and 80 columns would break the rows of a table."""
    return Output(width=None if sys.stdout.isatty() else 160)
