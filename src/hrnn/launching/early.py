"""Stop runs that are clearly losing: at a few points of the budget, those worse than the median of the others there.

All it sees are numbers from journals, so it is the same whatever engine trains the runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hrnn.launching.measuring import batches_per_epoch
from hrnn.launching.progress import last_update
from hrnn.launching.units import Unit, Watcher, stop_early
from hrnn.training.config import Config
from hrnn.training.journal import read

POINTS = (0.125, 0.25, 0.5)  # shares of its budget at which a run is judged
PEERS = 4  # others that must have come as far before one is judged: fewer say little about what is usual
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Score:
    """How good a run was at a point: a validation where there had been one, otherwise what it learned from."""

    kind: str
    value: float
    update: int


class Early:
    """Watches an engine and stops losing runs; tells another watcher whatever it is told."""

    def __init__(self, folder: Path, units: Sequence[Unit], watcher: Watcher):
        self.folder, self.units, self.watcher = folder, list(units), watcher
        self._running: dict[str, Unit] = {}
        self._judged: set[tuple[str, float]] = set()
        self._known: dict[tuple[str, float], Score | None] = {}
        self._per_epoch = {unit.name: batches_per_epoch(unit.config) for unit in units}
        self._next = 0.0

    def changed(self, unit: Unit, state: str) -> None:
        self._running.pop(unit.name, None)
        if state == "running":
            self._running[unit.name] = unit
        self.watcher.changed(unit, state)

    def look(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK_SECONDS
            for unit in list(self._running.values()):
                self._judge(unit)
        self.watcher.look()

    def _judge(self, unit: Unit) -> None:
        """Once at every point that it passes; one that comes back late is judged at the last of them only."""
        done = self._share(unit, last_update(self.folder / unit.name))
        passed = [point for point in POINTS if done >= point]
        if not passed or (unit.name, passed[-1]) in self._judged:
            return
        self._judged.add((unit.name, passed[-1]))
        shown = [score for point in passed if (score := self._score(unit, point)) is not None]
        if not shown:
            return
        last, own = shown[-1], [score.value for score in shown if score.kind == shown[-1].kind]
        scores = [self._score(other, passed[-1]) for other in self.units if other.name != unit.name]
        others = [score.value for score in scores if score is not None and score.kind == last.kind]
        if losing(own, others, higher_is_better=unit.config.task.measured.judged_by.higher_is_better):
            self._running.pop(unit.name)
            stop_early(self.folder / unit.name, {**asdict(last), "share": passed[-1], "others": others})

    def _score(self, unit: Unit, point: float) -> Score | None:
        """How good a run was at a point of its budget; None if it has not come there. Journals can be long: read once."""
        if (unit.name, point) not in self._known:
            if self._share(unit, last_update(self.folder / unit.name)) < point:
                return None
            self._known[unit.name, point] = self._read_score(unit, point)
        return self._known[unit.name, point]

    def _read_score(self, unit: Unit, point: float) -> Score | None:
        last = None
        for record in read(self.folder / unit.name):
            score = score_of(unit.config, record)
            if score is not None and (last is None or last.kind != "validation" or score.kind == "validation"):
                last = score
            if record["kind"] == "update" and self._share(unit, record) >= point:
                return last
        return None

    def _share(self, unit: Unit, record: dict[str, Any]) -> float:
        return unit.config.share_done(record.get("update", 0), record.get("sequences", 0), self._per_epoch[unit.name])


def score_of(config: Config[Any], record: dict[str, Any]) -> Score | None:
    """What a record says of how good the run is."""
    kind = {"validation": "validation", "update": "training"}.get(record["kind"])
    value = config.task.standing(record) if kind else None
    return Score(kind, value, record["update"]) if kind and value is not None else None


def losing(own: Sequence[float], others: Sequence[float], *, higher_is_better: bool) -> bool:
    """Is the best that a run has shown so far worse than the median of what others showed where it stands now?"""
    if len(others) < PEERS:
        return False
    return max(own) < median(others) if higher_is_better else min(own) > median(others)
