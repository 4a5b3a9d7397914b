"""What a run is measured by and how it reads: tables, plots and displays ask here, and know no metric by its name.

A task says it, and config.json holds it, so that a run can be shown without importing whatever code it names.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from hrnn.errors import UserError
from hrnn.limits import built, typed


@dataclass(frozen=True)
class Metric:
    """One number of a run's records.

    name:       of the entry in records of updates, validations and tests
    label:      in words; by default the name
    short:      the same where there is little room; by default the label
    unit:       behind the label on an axis
    digits:     after the point; counts are whole whatever it says
    least, most: where an axis begins and ends, where that is known beforehand
    levels:     values that are worth a line on a plot, and what to call each, as (0.15, "solved")
    in_result:  the name of the entry in the run's result; by default the same
    none:       what to say instead of 0
    """

    name: str
    label: str = ""
    short: str = ""
    unit: str = ""
    higher_is_better: bool = False
    digits: int = 4
    least: float | None = None
    most: float | None = None
    levels: tuple[tuple[float, str], ...] = ()
    in_result: str = ""
    none: str = ""

    def __post_init__(self) -> None:
        label = self.label or self.name.replace("_", " ")
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "short", self.short or label)
        object.__setattr__(self, "in_result", self.in_result or self.name)

    @property
    def axis(self) -> str:
        """What stands along an axis."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def text(self, value: Any) -> str:
        """A value as tables and lines have it, without its label; several of a list are set side by side."""
        if isinstance(value, list | tuple):
            return " ".join(map(self.text, value))
        return "-" if value is None else f"{value:.{self.digits}f}" if isinstance(value, float) else str(value)

    def reached(self, value: Any, at_least: bool = False) -> str:
        """How far a run came, in words."""
        return self.none if self.none and not value else f"{self.label} {'at least ' if at_least else ''}{self.text(value)}"

    def better(self, value: float, other: float) -> bool:
        return value > other if self.higher_is_better else value < other


LOSS = Metric("loss", unit="nats")
LOCAL_LOSSES = Metric("local_losses", label="local loss", short="local losses")  # of all levels below the top


@dataclass(frozen=True)
class Metrics:
    """All that a run is measured by.

    task:     what its task reports, the score first
    progress: what its course counts (the longest solved length of a curriculum), an entry of its records of updates
    judged_by_progress: progress, and not the score, says which of two runs is better
    local:    the local losses, in the unit of what the lowest level decodes
    """

    task: tuple[Metric, ...] = ()
    progress: Metric | None = None
    judged_by_progress: bool = False
    local: Metric = LOCAL_LOSSES

    @property
    def score(self) -> Metric:
        return self.task[0] if self.task else LOSS

    @property
    def judged_by(self) -> Metric:
        return self.progress if self.judged_by_progress and self.progress else self.score

    @property
    def all(self) -> tuple[Metric, ...]:
        """What one looks for first at the front."""
        first = () if self.progress is None else (self.progress,)
        return (*first, *self.task, *(() if LOSS.name in {metric.name for metric in self.task} else (LOSS,)), self.local)

    def named(self, name: str) -> Metric:
        """The metric of an entry; one that nobody has described reads as it is called."""
        return next((metric for metric in self.all if metric.name == name), Metric(name))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(entries: Any) -> Metrics:
        """The reverse of `to_json`; a file may hold anything, and whatever is wrong is a UserError."""
        where = "metrics"
        if not isinstance(entries, dict) or not isinstance(entries.get("task"), list):
            raise UserError(f"{where} are not described as a run does it")
        progress, by_progress = entries.get("progress"), entries.get("judged_by_progress", False)
        return Metrics(
            tuple(built(Metric, metric, where) for metric in entries["task"]),
            None if progress is None else built(Metric, progress, where),
            typed(bool, by_progress, where),
            built(Metric, entries["local"], where) if "local" in entries else LOCAL_LOSSES,
        )
