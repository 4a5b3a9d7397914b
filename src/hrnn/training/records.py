"""What the records of a journal hold, one class for each kind, in the order in which they are written; and a run's result.

A course may write records of its own beside these, as entries with a "kind" and an "update".
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

LONGEST = 100_000  # characters of a test's details
Entries = dict[str, Any]
Numbers = dict[str, float]
INLINED = ("status", "report", "frozen", "outcome", "times", "details")  # their entries stand among those of the record


@dataclass(frozen=True, kw_only=True)
class Written:
    """Base of all. update: how many there had been."""

    kind: ClassVar[str]
    update: int

    def entries(self) -> Entries:
        """As JSON has it; None is left out."""
        found: Entries = {"kind": self.kind}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                found |= value if field.name in INLINED else {field.name: value}
        return found


@dataclass(frozen=True, kw_only=True)
class Updates(Written):
    """What was learned since the last such record. report: the loss and what the task reports; frozen: the same of windows
    before they were learned; moves: of each level, where levels move by themselves."""

    kind: ClassVar[str] = "update"
    sequences: int
    status: Entries  # of the course
    report: Numbers
    local_losses: list[float | None]
    frozen: Numbers
    moves: list[int] | None
    learning_rate: float
    times: Numbers  # seconds and cpu_seconds that the run has taken so far


@dataclass(frozen=True, kw_only=True)
class Validated(Written):
    """recovered: by level below the top and index, what its decoder loses of the input so many ticks back, of 1 by guessing."""

    kind: ClassVar[str] = "validation"
    sequences: int
    report: Numbers
    best: bool  # as good as any before it, or better
    recovered: list[list[float | None]] | None
    times: Numbers  # as those of updates, and how they were shared out, by part: data_seconds and others


@dataclass(frozen=True, kw_only=True)
class Tested(Written):
    """details: what is no single number, such as a confusion matrix with the names of its classes."""

    kind: ClassVar[str] = "test"
    report: Numbers
    details: Entries | None = None


def recordable(details: Entries) -> Entries | None:
    """What a test's record may hold of details: all, or nothing where they would be too much for a line."""
    return details if details and len(json.dumps(details)) <= LONGEST else None


@dataclass(frozen=True, kw_only=True)
class Began(Written):
    """A process begins or resumes the run, or has just run its first window. engine: what it computes with, by name, level and
    threads, and in the latter case the executor, as a `Result` has it; before: what computed so far, in words, where that was
    another one, so that last bits may differ from here on."""

    kind: ClassVar[str] = "engine"
    engine: Entries
    before: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataChanged(Written):
    """The run goes on with other data (in words), or found the same elsewhere (by the old path)."""

    kind: ClassVar[str] = "data"
    changed: list[str]
    moved: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Ended(Written):
    kind: ClassVar[str] = "end"
    reason: str
    updates: int
    sequences: int
    outcome: Entries  # of the course
    validation: Entries | None  # the best score, and its update
    times: Numbers  # as those of a validation

    def result(self, test: Numbers | None, peak_bytes: int | None) -> Entries:
        """What result.json holds. peak_bytes: the most that the process had that ended the run, libraries and all."""
        entries = {name: value for name, value in self.entries().items() if name not in ("kind", "update")}
        more = {"peak_bytes": peak_bytes, "test": test}
        return {**entries, **{name: value for name, value in more.items() if value is not None}}
