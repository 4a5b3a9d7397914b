"""Writes docs/command_line.md from the commands' own parsers: `python docs/write_command_line.py`; `make docs` does it, too."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import tyro

from hrnn.cli import COMMANDS
from hrnn.commands.options import RULES
from hrnn.tasks import TASKS

PAGE = Path(__file__).resolve().parent / "command_line.md"
HEAD = """\
# Command line

<!-- Written by docs/write_command_line.py; do not edit. -->

```text
hrnn COMMAND [OPTIONS]
hrnn COMMAND --help
hrnn --version
```

Exit codes: 0 done, 1 failed (the loss became NaN, a process was lost), 2 something for you to fix, 130 interrupted (Ctrl-C),
143 terminated. What nobody foresaw is one line, too; `HRNN_TRACEBACK=1` in the environment shows where it came from. Lists are
written with spaces between their entries, the lowest level first: `--hidden-sizes 64 128`.
`hrnn --version` also says [what computes](architecture.md#native-code); `HRNN_NATIVE=0` and `HRNN_LEVEL` in the environment
change that.

| command | what it does |
| --- | --- |
"""


class Asked(Exception):  # noqa: N818, it is no error
    """What a command would have had parsed."""


def parser_of(command: str, *arguments: str) -> Any:
    """The parser behind `hrnn command arguments --help`."""

    def stop(kind: Any, **options: Any) -> None:
        raise Asked(kind, options)

    with mock.patch("tyro.cli", stop):
        try:
            importlib.import_module(f"hrnn.commands.{command}").main([*arguments, "--help"])
        except Asked as asked:
            kind, options = asked.args
    with warnings.catch_warnings(), RULES:
        warnings.simplefilter("ignore", DeprecationWarning)
        return tyro.extras.get_parser(kind, prog=options["prog"], description=options["description"], config=options["config"])


def groups(parser: Any) -> dict[str, tuple[str, list[str]]]:
    """For each group of options: what it is about, and a row of a table for each option."""
    found = {}
    for group in parser._action_groups:
        rows = [row(action) for action in group._group_actions if "--help" not in action.option_strings]
        if rows:
            found[group.title] = (" ".join((group.description or "").split("\n\n")[0].split()), rows)
    return found


def row(action: Any) -> str:
    """One option: how it is written, what it is, and what it is where not given."""
    text = " ".join((action.help or "").split())
    ending = re.search(r" ?\((?:default: ?(.*)|required)\)$", text)
    default = "" if ending is None else "required" if ending[1] is None else ending[1]
    kind = (action.metavar or "").replace("{None}|", "").strip("{}[]")
    several = re.fullmatch(r"([\w,]+)\}? \[\{?\1\}? \.\.\.", kind)
    kind = several[1] if several else kind
    kind = (f"{{{kind}}}" if "," in kind else kind) + (" ..." if several else "")
    name = " ".join([", ".join(action.option_strings) or action.dest, kind]).strip()
    if name.endswith(no := f", --no-{action.dest.replace('_', '-').rpartition('.')[2]}"):
        name, default = name.removesuffix(no), "" if default == "False" else f"True`; off with `{no.removeprefix(', ')}"
    shown = "" if default in ("", "None", "[]") else default if default == "required" else f"`{default}`"
    what = text[: ending.start()] if ending else text
    return f"| `{name}` | {what.replace('|', chr(92) + '|')} | {shown} |"


def heading(title: str) -> str:
    return {"positional arguments": "Arguments"}.get(title, title.removesuffix(" options").capitalize())


def table(title: str, about: str, rows: list[str]) -> Iterator[str]:
    yield f"**{title}.** {about}".rstrip(". ") + ("." if about else "")
    yield ""
    yield "| option | what | default |"
    yield "| --- | --- | --- |"
    yield from rows
    yield ""


def examples(parser: Any) -> Iterator[str]:
    """The description of a command: its text, and its examples as commands."""
    text, _, after = (parser.description or "").partition("Examples:\n")
    yield re.sub(r"(--[a-z][\w-]*)", r"`\1`", text.strip())
    yield ""
    if lines := [line.strip() for line in after.splitlines() if line.startswith("    ")]:
        yield from ("```sh", *lines, "```", "")
    if taken := re.search(r"(What this task takes.*?): (.*)", after):
        yield f"{taken[1]}: `{taken[2]}`."
        yield ""


def section(command: str) -> Iterator[str]:
    yield f"## hrnn {command}"
    if command in ("train", "sweep"):
        yield from tasks(command)
        return
    parser = parser_of(command)
    yield from examples(parser)
    for title, (about, rows) in groups(parser).items():
        yield from table(heading(title), about, rows)


def tasks(command: str) -> Iterator[str]:
    """A command that begins with a task: what all tasks share, then each task's own."""
    of = {name: groups(parser_of(command, name)) for name in TASKS}
    if command == "sweep":
        yield "`hrnn sweep TASK --over OPTION=VALUE,VALUE,... [OPTIONS]`: [many runs](sweeps.md)."
        yield "Options of the run as in `hrnn train`, and these:"
        yield ""
        train = groups(parser_of("train", next(iter(TASKS))))
        for title, (about, rows) in of[next(iter(TASKS))].items():
            if title != "task options" and train.get(title, (None, None))[1] != rows:
                yield from table(heading(title), about, rows)
        return
    yield "`hrnn train TASK [OPTIONS]`, or `hrnn train --task module:Name [OPTIONS]` for [a task of your own](own_task.md)."
    yield ""
    for title, (about, rows) in of[next(iter(TASKS))].items():
        if title != "task options":
            yield from table(heading(title), about, rows)
    for name, found in of.items():
        yield f"### hrnn train {name}"
        yield from examples(parser_of(command, name))
        yield from table("Its own options", "", found["task options"][1])


def page() -> str:
    lines = [f"| [`hrnn {name}`](#hrnn-{name}) | {what} |" for name, what in COMMANDS.items()]
    for command in COMMANDS:
        lines += ["", *section(command)]
    text = HEAD + "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
