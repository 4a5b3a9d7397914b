"""A run in progress: everything that changes while it learns. How it goes into a checkpoint and comes back: saving.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hrnn.training.network as networks
from hrnn.errors import shortened
from hrnn.native.engine import engine
from hrnn.parallel import ALONE, Group
from hrnn.state import State
from hrnn.tasks import Batch
from hrnn.training.average import Average
from hrnn.training.checkpoint import CheckpointFolder
from hrnn.training.config import Config
from hrnn.training.evaluation import Sums
from hrnn.training.folder import CHECKPOINTS, entries_of
from hrnn.training.identity import Identity
from hrnn.training.journal import Journal
from hrnn.training.network import make_optimizer, make_updates
from hrnn.training.records import Began


@dataclass
class Position:
    """How far the run is, as plain numbers."""

    batches: int = 0  # learned to their ends
    windows: int = 0  # of the batch that comes next: so many are learned already, each with an update,
    of_windows: int = 1  # of so many
    updates: int = 0
    moves: list[int] = field(default_factory=list)  # of each level, where levels move by themselves
    seconds: float = 0.0  # spent learning, over all processes that worked on the run
    cpu_seconds: float = 0.0  # of these, in which a core worked for it: what a busy machine does not stretch
    spent: dict[str, float] = field(default_factory=dict)  # of the seconds, by part: data, validation, test, checkpoints
    best: float | None = None  # the task's score at the best validation
    best_at: int | None = None  # and its update
    without_gain: int = 0  # validations since then
    validated_at: int | None = None  # the update of the last validation
    since_record: Sums = field(default_factory=Sums)  # for the journal's next record
    of_batch: Sums = field(default_factory=Sums)  # of the windows, for the course

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "since_record": self.since_record.to_json(), "of_batch": self.of_batch.to_json()}

    @staticmethod
    def from_json(entries: dict[str, Any]) -> Position:
        """What a checkpoint says of how far its run was, checked."""
        sums = {name: dict(entries[name]) for name in ("since_record", "of_batch")}
        position = Position(**{**entries, **{name: Sums.from_json(one) for name, one in sums.items()}})
        counts = (position.batches, position.windows, position.updates, position.without_gain, *position.moves)
        summed = (number for one in sums.values() for number in one.values())
        numbers = (position.seconds, position.cpu_seconds, *position.spent.values(), *summed)
        of_windows = position.of_windows
        if not all(type(count) is int and count >= 0 for count in (*counts, of_windows - position.windows - 1)):
            raise TypeError(f"counts are {shortened(counts)}")
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError(f"numbers are {shortened(numbers)}")
        if not isinstance(position.best, int | float | None) or not isinstance(position.best_at, int | None):
            raise TypeError(f"the best is {shortened(position.best)} at {shortened(position.best_at)}")
        if not isinstance(position.validated_at, int | None):
            raise TypeError(f"the last validation is at {shortened(position.validated_at)}")
        return position


class Run:
    """The moving parts of a run, before its first update. Nothing is read or written.

    identity: of the run in the folder; without one, checkpoints are of no run in particular
    network:  as `build` makes it, where the caller has it already
    """

    def __init__(
        self,
        config: Config[Any],
        folder: Path,
        group: Group = ALONE,
        identity: Identity | None = None,
        network: networks.Network | None = None,
    ):
        torch.set_num_threads(config.upkeep.threads)  # whatever started the process has set
        self.engine = engine()
        self.computed_by: str | None = None  # another engine, up to here
        self.executor = ""  # what ran this process's first window
        self.config, self.folder, self.group, self.identity = config, folder, group, identity
        self.task = config.task
        self.reading = networks.reading(config, group)
        self.per_epoch = self.task.batches_per_epoch(self.reading)
        self.network = network or networks.build(config)
        constant = config.learning.average
        self.average = None if constant is None else Average(networks.build(config), constant)
        self.gradient = self.network.method
        self.updates = make_updates(config.learning, self.network, group) if config.learning.update == "segment" else None
        self.optimizers = (
            self.updates.optimizers if self.updates else [make_optimizer(config.learning, self.network.parameters())]
        )
        self.indices = torch.Generator().manual_seed(config.upkeep.seed)  # seeds of the decoders' sampled indices
        self.course = self.task.course(self.reading)
        self.state: State | None = None
        self.aims: Tensor | None = None  # what a batch in the middle of which the run is is learned with: see Task.aims
        self.position = Position()
        self.latest: dict[str, Any] = {}  # what the last record of the journal reported
        self.journal = Journal(None)
        self.scoring: Callable[[str, Iterable[Batch]], Iterable[Batch]] = lambda part, batches: batches  # for who looks on
        self.note: Callable[[str], None] = lambda words: None
        about_data = self.task.warnings(self.reading) if config.reaches == self.task.reaches else ()
        self.warnings = [*networks.narrow_levels(config), *about_data]
        self.entries = None if identity is None else entries_of(config, identity)
        name = None if identity is None else identity.id
        self.checkpoints = CheckpointFolder(folder / CHECKPOINTS, config.upkeep.checkpoints, name, self.entries)
        self.saved_at = time.monotonic()
        self._clocks = time.monotonic(), time.process_time()

    @property
    def batches(self) -> float:
        """That are learned, the last of them in part."""
        return self.position.batches + self.position.windows / self.position.of_windows

    @property
    def sequences(self) -> int:
        return int(self.batches * self.reading.batch)

    @property
    def tested(self) -> networks.Network:
        """The network that is validated and tested: with averaged weights, where there are any."""
        return self.network if self.average is None else self.average.network

    @property
    def done(self) -> float:
        """The share of the budget that is used up, 1 at the end."""
        return self.config.share_done(self.position.updates, self.batches * self.reading.batch, self.per_epoch)

    @property
    def over(self) -> str | None:
        """Why there is nothing left to learn, or None."""
        if self.course.finished:
            return str(self.course.finished)
        limit = self.config.budget.stop_after
        if limit is not None and self.position.without_gain >= limit:
            return "no gain"
        return "budget" if self.done >= 1 else None

    @property
    def validation_due(self) -> bool:
        """After so many updates; where no number is given, after every epoch."""
        if every := self.config.budget.validate_every:
            return self.position.updates % every == 0
        return self.per_epoch is not None and not self.position.windows and self.position.batches % self.per_epoch == 0

    @property
    def frozen_due(self) -> bool:
        """Is the next window scored before it is learned?"""
        every = self.config.upkeep.frozen_every
        return self.updates is not None and bool(every) and (self.position.updates + 1) % every == 0

    @property
    def checkpoint_due(self) -> bool:
        return time.monotonic() - self.saved_at > self.config.upkeep.checkpoint_seconds

    def fresh_state(self) -> State:
        """Before the first step, in this process's rows."""
        rows = torch.tensor(self.reading.rows)
        return self.network.levels.initial_state(len(rows)).with_rows(rows)

    def begun(self, executor: str) -> None:
        """A window has run. After the first one it is said and recorded what ran it, and why that was not compiled code."""
        if not self.executor:
            self.executor = executor
            self.journal.record(Began(update=self.position.updates, engine={**self.engine.entries(), "executor": executor}))
            self.note(f"engine: {executor.replace(': ', ', as ', 1)}")

    @contextmanager
    def spending(self, part: str) -> Iterator[None]:
        """Count the time as that of a part of the run; what is counted as none is learning."""
        began = time.monotonic()
        yield
        self.position.spent[part] = self.position.spent.get(part, 0.0) + time.monotonic() - began

    def times(self, by_part: bool = False) -> dict[str, float]:
        """Time spent on the run so far, for a record; and how it was shared out."""
        now = time.monotonic(), time.process_time()
        self.position.seconds += now[0] - self._clocks[0]
        self.position.cpu_seconds += now[1] - self._clocks[1]
        self._clocks = now
        parts = {f"{part}_seconds": round(spent, 3) for part, spent in self.position.spent.items()} if by_part else {}
        return {"seconds": round(self.position.seconds, 3), "cpu_seconds": round(self.position.cpu_seconds, 3), **parts}

    def report(self) -> dict[str, Any]:
        """The sums since the last record, as a display shows them."""
        sums = self.position.since_record
        return {**sums.report(self.task), "local_losses": sums.local_losses(self.config.betas)}
