"""From arguments to a dataclass of options, for every command alike."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import tyro
from rich.console import Console

from hrnn.errors import ECHO, MISTAKE, UserError, shortened
from hrnn.launch import is_first_process
from hrnn.limits import fitted

T = TypeVar("T")


def parse(kind: type[T], command: str, arguments: Sequence[str], description: str | None = None) -> T:
    """Options by their own names, without those of the dataclasses around them, checked; a mistake is a UserError."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.ExitStack() as silence:
            if not is_first_process():
                silence.enter_context(contextlib.redirect_stdout(said))
            options = tyro.cli(
                kind,
                prog=f"hrnn {command}",
                args=list(arguments),
                description=description or inspect.cleandoc(kind.__doc__ or ""),
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as stopped:
        if stopped.code == MISTAKE:
            raise UserError(f"{in_one_line(said.getvalue())} (hrnn {command} --help lists all options)") from None
        raise
    return fitted(options)


def in_one_line(text: str) -> str:
    """What tyro says in a box, without the box and what follows from the rest."""
    paragraphs = [" ".join(re.sub(r"[│╭╮╰╯]", " ", part).split()) for part in re.split(r"──+|─ ─|╌╌+", text)]
    sentences = [part for part in paragraphs if part and not part.startswith(("For full helptext", "Argument helptext"))]
    title, *rest = sentences or ["the arguments cannot be read"]
    title = title.removesuffix(" ─").removeprefix("─ ")
    what = " ".join(rest) or title
    what = re.sub(r"no type matching (.*) could be instantiated from (.*?)\. Got errors:.*", r"\2 is no \1", what)
    what = re.sub(r"Perhaps you meant: (--\S+).*", r"perhaps you meant \1", what)
    return shortened(what.replace("{None}|", "").removesuffix(".").strip(), 2 * ECHO)


def require_folder(path: Path, option: str) -> None:
    """Refuse a path where no folder can be, before anything else is done."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):  # what cannot be looked at is found when it is written
            if place.exists() and not place.is_dir():
                raise UserError(f"{option} {path}: {place} is not a folder; give another {option}")


def console() -> Console:
    """Where tables go. A pipe has no width of its own, and 80 columns would break the rows of a table."""
    return Console(width=None if sys.stdout.isatty() else 160)
