"""What the records of a journal hold, one class for each kind, in the order in which they are written; and a run's result.

A course may write records of its own beside these, as entries with a "kind" and an "update".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

Entries = dict[str, Any]
INLINED = ("status", "report", "frozen", "outcome", "times")  # their entries stand among those of the record


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
    """What was learned since the last such record.

    status: of the course; report: the loss and what the task reports; frozen: the same of windows before they were learned
    moves:  of each level, where levels move by themselves
    times:  seconds and cpu_seconds, spent on the run so far
    """

    kind: ClassVar[str] = "update"
    sequences: int
    status: Entries
    report: dict[str, float]
    local_losses: list[float | None]
    frozen: dict[str, float]
    moves: list[int] | None
    learning_rate: float
    times: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Validated(Written):
    """best: better than all before it."""

    kind: ClassVar[str] = "validation"
    sequences: int
    report: dict[str, float]
    best: bool
    times: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Tested(Written):
    """The test at the end. update: that of the weights."""

    kind: ClassVar[str] = "test"
    report: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class DataChanged(Written):
    """The run goes on with other data, or found the same elsewhere. changed: in words; moved: new paths by the old ones."""

    kind: ClassVar[str] = "data"
    changed: list[str]
    moved: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Ended(Written):
    """The run is over. outcome: of the course; validation: the best score, and the update it had it at."""

    kind: ClassVar[str] = "end"
    reason: str
    updates: int
    sequences: int
    outcome: Entries
    validation: Entries | None
    times: dict[str, float]

    def result(self, test: dict[str, float] | None) -> Entries:
        """What result.json holds."""
        entries = {name: value for name, value in self.entries().items() if name not in ("kind", "update")}
        return entries if test is None else {**entries, "test": test}
