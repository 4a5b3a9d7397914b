"""Calls of the command line: every option of every command, taken from the dataclasses that the commands themselves are made
of, with values that belong there and values that do not."""

from __future__ import annotations

import dataclasses
import importlib
import random
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from hrnn.cli import COMMANDS
from hrnn.commands.sweep import Sweep
from hrnn.commands.train import Train
from hrnn.tasks import TASKS

NUMBERS = (
    *("nan", "inf", "-inf", "-1", "0", "-0.0", "1e400", "1e308", "5e-324", "1.5", "1e3", "0x10", "1_000", "٣", "true", "None"),
    *(str(2**31), str(2**63 - 1), str(2**63), str(2**64), "1" + "0" * 400, "-" + "9" * 400, "1e-400", "2", "7"),
)
TEXTS = (
    *("", " ", "x" * 5000, "é" * 300, "a\0b", "\x1b[31mred", "\n", "🦊", "\udcff", "%s", "{}", "../../x", "-", "--", "-h"),
    *("[/bold]", "[red]", "a=b", "=", ",", "--over", "os:system", "hrnn.tasks:Copy", "nosuch:Thing", ":", "a:b:c", "\\", "("),
    "*",
)
NETWORK = "http://127.0.0.1:9/"  # where nobody listens: no call of a campaign leaves the machine
LEFT_OUT = {"engine", "address"}  # a Ray cluster takes half a minute to start
Words = list[list[str]]  # a call in groups: an option and its values


@dataclass(frozen=True)
class Option:
    """hint: what a value must be. flag: --name or --no-name."""

    name: str
    hint: Any
    several: bool
    positional: bool

    @property
    def flag(self) -> bool:
        return self.hint is bool

    def hostile(self, chance: random.Random, paths: list[str]) -> list[str]:
        """The option with a value that does not belong there, or hardly."""
        if self.flag:
            return [chance.choice((f"--{self.name}", f"--no-{self.name}", f"--{self.name}=1"))]
        pools: list[Any] = [NUMBERS, NUMBERS, TEXTS, paths]
        if self.hint in (int, float):
            pools = [NUMBERS, NUMBERS, NUMBERS, TEXTS]
        elif self.name in ("data", "run", "runs", "output", "folder", "validation", "test"):
            pools = [paths, paths, TEXTS]
        elif typing.get_origin(self.hint) is Literal:
            pools = [typing.get_args(self.hint), typing.get_args(self.hint), TEXTS]
        count = chance.choice((0, 1, 1, 2, 3)) if self.several else 1
        values = [str(chance.choice(chance.choice(pools))) for _ in range(count)]
        if self.positional:
            return values
        return [f"--{self.name}={values[0]}"] if count == 1 and chance.random() < 0.3 else [f"--{self.name}", *values]


def options_of(kind: type) -> list[Option]:
    """Every option of a command, those of the dataclasses inside it, too."""
    found = []
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint, marks = unwrapped(hints[field.name])
        if field.metadata.get("hidden") or field.name in LEFT_OUT or not field.init:
            continue
        if dataclasses.is_dataclass(hint):
            found += options_of(typing.cast(type, hint))
            continue
        several = typing.get_origin(hint) is tuple
        inner, _ = unwrapped(typing.get_args(hint)[0]) if several else (hint, ())
        found.append(Option(field.name.replace("_", "-"), inner, several, tyro.conf.Positional in marks))
    return found


def unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its annotations and without None, and the annotations."""
    marks: tuple[Any, ...] = ()
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            hint, *more = typing.get_args(hint)
            marks += tuple(more)
        elif typing.get_origin(hint) in (typing.Union, types.UnionType):
            hint = next(one for one in typing.get_args(hint) if one is not type(None))
        else:
            return hint, marks


def all_options() -> dict[str, list[Option]]:
    """By command, and by task where the task has a say: "train copy", "resume", ..."""
    found: dict[str, list[Option]] = {}
    for command in COMMANDS:
        if command in ("train", "sweep"):
            rest = [option for field in sections(Train if command == "train" else Sweep) for option in options_of(field)]
            for name, task in TASKS.items():
                found[f"{command} {name}"] = [*options_of(task), *rest]
        else:
            module = importlib.import_module(f"hrnn.commands.{command}")
            found[command] = options_of(getattr(module, command.capitalize()))
    return found


def sections(kind: type) -> list[type]:
    """The dataclasses that a command is made of, but for the task, which it is given."""
    hints = typing.get_type_hints(kind)
    return [hints[field.name] for field in dataclasses.fields(kind) if dataclasses.is_dataclass(hints[field.name])]
