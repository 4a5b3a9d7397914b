"""What every source of sequences gives: its files, and one pass over its steps, block by block.

A block holds steps of one or several sequences. Sequences are numbered as they are met; what is known of a whole sequence (its
target, part and group) stands in the pass's register. Nothing here depends on how many steps there are.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hrnn.errors import UserError, shortened

Numbers = NDArray[np.int64]
Paths = str | Path | Sequence[str | Path] | Mapping[str, Any]  # one, several, or those of each part by its name

PARTS = {  # what the parts of a split are called elsewhere
    "training": "training", "train": "training", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation", "test": "test", "testing": "test",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What a step is.

    channels:    names of the values of a step; one for tokens
    tokens:      are steps tokens, i.e. codes of one vocabulary, rather than vectors?
    complete:    does the vocabulary of tokens hold whatever may ever come, as that of bytes?
    categorical: channels whose values are codes of a vocabulary of their own
    time:        None, "number", or the type of a timestamp as Arrow writes it
    target:      None; one for each sequence; one for each step
    target_name: of the column or file that it comes from
    rate:        samples per second, of audio
    """

    channels: tuple[str, ...]
    tokens: bool = False
    complete: bool = False
    categorical: tuple[str, ...] = ()
    time: str | None = None
    target: Literal["sequence", "step"] | None = None
    target_name: str | None = None
    rate: int | None = None


class Vocabulary:
    """Texts as small numbers, numbered as they come."""

    def __init__(self, entries: Iterable[str] = ()):
        self.codes: dict[str, int] = {}
        for entry in entries:
            self.code(entry)

    def code(self, entry: str) -> int:
        return self.codes.setdefault(entry, len(self.codes))

    def several(self, entries: Iterable[str]) -> Numbers:
        return np.array([self.code(entry) for entry in entries], np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def entries(self) -> list[str]:
        return list(self.codes)


class Fact:
    """One number for each sequence; nan where none is known yet. With labels they are its codes."""

    def __init__(self, labels: Vocabulary | None):
        self.labels = labels
        self.values = np.full(1024, np.nan)

    def note(self, numbers: Numbers, values: NDArray[Any]) -> int | None:
        """What is said of some sequences; returns the place of the first that contradicts what is known, or None."""
        while numbers.size and numbers.max() >= len(self.values):
            self.values = np.concatenate([self.values, np.full(len(self.values), np.nan)])
        new = np.isnan(self.values[numbers])
        self.values[numbers[new]] = values[new]
        wrong = np.flatnonzero(self.values[numbers] != values)
        return int(wrong[0]) if wrong.size else None


class Register:
    """The sequences that were met: their ids in order, and facts by name ("target", "part", "group")."""

    def __init__(self) -> None:
        self.ids = Vocabulary()
        self.facts: dict[str, Fact] = {}

    def fact(self, name: str, labels: bool = True) -> Fact:
        if name not in self.facts:
            self.facts[name] = Fact(Vocabulary() if labels else None)
        return self.facts[name]

    def add(self, name: str, **facts: str | float | None) -> int:
        """A new sequence with what is known of it; returns its number."""
        if name in self.ids.codes:
            raise UserError(f"two sequences have the id {shortened(name)!r}; give each its own")
        number = self.ids.code(name)
        for key, value in facts.items():
            if value is not None:
                fact = self.fact(key, labels=isinstance(value, str))
                if isinstance(value, str) != (fact.labels is not None):
                    raise UserError(
                        f"the {key} of sequence {shortened(name)!r} is {shortened(value)!r}, and others are of another type "
                        f"(numbers and texts are mixed); make them alike"
                    )
                code = fact.labels.code(value) if fact.labels is not None and isinstance(value, str) else value
                fact.note(np.array([number]), np.array([code], np.float64))
        return number


@dataclass(frozen=True)
class Block:
    """Some steps.

    values:  (steps, channels) floats, nan where missing; or (steps,) tokens
    starts:  (runs,) places at which another sequence takes over; the first is 0
    numbers: (runs,) which sequence that is
    times:   (steps,) whole numbers or floats
    targets: (steps,) numbers, or codes of the stream's labels
    """

    values: NDArray[Any]
    starts: Numbers
    numbers: Numbers
    times: NDArray[Any] | None = None
    targets: NDArray[Any] | None = None

    @property
    def steps(self) -> int:
        return len(self.values)


def block_of(number: int, values: NDArray[Any], targets: NDArray[Any] | None = None) -> Block:
    """Steps of one sequence."""
    return Block(values, np.zeros(1, np.int64), np.array([number]), None, targets)


@dataclass
class Stream:
    """One pass over a source. Register and vocabularies are complete when the last block has been read.

    vocabularies: by channel, for categorical ones and tokens
    labels:       of targets that are one for each step; None if these are numbers
    """

    layout: Layout
    register: Register
    blocks: Iterator[Block]
    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    labels: Vocabulary | None = None


class Source(ABC):
    """Where sequences come from."""

    @abstractmethod
    def files(self) -> list[Path]:
        """Every file that is read, in a fixed order; none for arrays in memory."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """All that decides what is made of the files, as JSON."""

    @abstractmethod
    def open(self) -> Stream:
        """Begin a pass. Whatever is wrong with the data is a UserError, now or while blocks are read."""


def part_named(name: str, where: str) -> str:
    """The part that such a name means."""
    if (part := PARTS.get(name.strip().lower())) is None:
        raise UserError(
            f"{where} names the part {shortened(name)!r}; parts are training (train), validation (valid, val), test"
        )
    return part


def listed(paths: Paths) -> list[tuple[Path, str | None]]:
    """Paths with the part that each is for, if any."""
    if isinstance(paths, Mapping):
        return [(path, part_named(part, "the mapping")) for part, some in paths.items() for path, _ in listed(some)]
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several or not all(isinstance(path, str | Path) for path in several):
        raise UserError(f"the data are {shortened(paths)!r}; give a path, several, or those of each part by its name")
    return [(Path(path).expanduser().absolute(), None) for path in several]


def paths_in(data: Any) -> tuple[Path, ...]:
    """The paths that are meant; none where something else is."""
    several = [data] if isinstance(data, str | os.PathLike) else data
    if isinstance(several, list | tuple) and several and all(isinstance(one, str | os.PathLike) for one in several):
        return tuple(Path(one) for one in several)
    return ()


def existing(path: Path) -> Path:
    if not path.exists():
        raise UserError(f"{path} does not exist; give the path of a file or folder with data")
    return path
