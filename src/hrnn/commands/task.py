"""What hrnn train and hrnn sweep share: which task a command is about, and what its help says."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import sys
import textwrap
from collections.abc import Sequence

from hrnn.errors import UserError
from hrnn.tasks import TASKS, Task
from hrnn.training.config import SUGGESTED

USAGE = """\
usage: hrnn {command} TASK [OPTIONS]
       hrnn {command} --task module:Name [OPTIONS]    for a task of your own

tasks:
{tasks}

hrnn {command} TASK --help lists the options."""


def task_and_rest(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name of the task, first or after --task anywhere, and the other arguments; no name where help is asked for."""
    rest = list(arguments)
    for place, argument in enumerate(rest):
        if argument == "--task":
            if place + 1 == len(rest):
                raise UserError("--task needs a name: --task module:Name")
            return rest[place + 1], rest[:place] + rest[place + 2 :]
        if argument.startswith("--task="):
            return argument.removeprefix("--task="), rest[:place] + rest[place + 1 :]
    if not rest:
        raise UserError(f"which task? There are {', '.join(TASKS)}, and your own as --task module:Name")
    return (None, []) if rest[0] in ("-h", "--help") else (rest[0], rest[1:])


def with_names(kind: type[Task], rest: list[str]) -> list[str]:
    """Words right behind the name of a task that has data are those of --data."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every task is a dataclass
    named = not rest or rest[0].startswith("-")
    return rest if named or "data" not in {one.name for one in fields} else ["--data", *rest]


def usage(command: str) -> str:
    """What a command says that is asked for help before a task is named."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160
    said = [f"  {name:8}{(task.__doc__ or '').splitlines()[0]}" for name, task in TASKS.items()]
    lines = [textwrap.fill(line, width, subsequent_indent=" " * 10) for line in said]
    return USAGE.format(command=command, tasks="\n".join(lines))


def full_command(command: str, name: str) -> str:
    return f"{command} {name}" if name in TASKS else f"{command} --task {name}"


def help_text(kind: type[Task]) -> str:
    """The task's docstring with its examples, and what it takes for options of the run that are not given."""
    known = kind.suggestions is Task.suggestions or kind.decided_by_data  # what is taken, but for what the data decide
    values = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in {**(SUGGESTED if known else {}), **kind.suggested}.items()
        if name not in kind.decided_by_data
    }
    taken = " ".join(f"{_option(name)} {value}".rstrip() for name, value in values.items())
    decided = " ".join(map(_option, kind.decided_by_data))
    rest = f", and by its data {decided}" if decided else ""
    return f"{inspect.cleandoc(kind.__doc__ or '')}\n\nWhat this task takes where not given: {taken}{rest}"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
