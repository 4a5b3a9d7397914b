"""A run in progress: everything that changes while it learns, and how that goes into a checkpoint and comes back."""

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
from hrnn.errors import DivergedError, UserError
from hrnn.parallel import ALONE, Group
from hrnn.state import State
from hrnn.tasks import Batch
from hrnn.training.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    flatten_optimizer,
    pack,
    restore_optimizer,
    unpack,
)
from hrnn.training.config import Config, reading
from hrnn.training.evaluation import FROZEN, Tally
from hrnn.training.folder import CHECKPOINTS, check_still_there, entries_of
from hrnn.training.formats import BEGUN_BY_1
from hrnn.training.identity import Identity
from hrnn.training.journal import Journal
from hrnn.training.optimizer import make_optimizer, make_updates
from hrnn.training.records import JOURNAL

REMEDY = "put back copies of its files, or begin again with hrnn train --overwrite"


@dataclass
class Position:
    """How far the run is, as plain numbers."""

    batches: int = 0
    updates: int = 0
    moves: list[int] = field(default_factory=list)  # of each level, where levels move by themselves
    seconds: float = 0.0  # spent learning, over all processes that worked on the run
    cpu_seconds: float = 0.0  # of these, in which a core worked for it: what a busy machine does not stretch
    best: float | None = None  # the task's metric at the best validation
    best_at: int | None = None  # and its update
    without_gain: int = 0  # validations since then
    since_record: dict[str, float] = field(default_factory=dict)  # sums for the journal's next record


class Run:
    """The moving parts of a run. Made from its configuration, and put where its newest checkpoint was; nothing is written
    before `open_journal`.

    identity: of the run in the folder; without one, checkpoints are of no run in particular
    """

    def __init__(self, config: Config[Any], folder: Path, group: Group = ALONE, identity: Identity | None = None):
        torch.set_num_threads(config.upkeep.threads)  # whatever started the process has set
        self.config, self.folder, self.group, self.identity = config, folder, group, identity
        self.task = config.task
        self.reading = reading(config, networks.unrolled(config), group)
        self.network = networks.build(config)
        self.gradient = networks.gradient(config)
        self.updates = make_updates(config.learning, self.network, group) if config.learning.update == "segment" else None
        self.optimizers = (
            self.updates.optimizers if self.updates else [make_optimizer(config.learning, self.network.parameters())]
        )
        self.course = self.task.course(self.reading)
        self.indices = torch.Generator().manual_seed(config.upkeep.seed)  # seeds of the decoders' sampled indices
        self.state: State | None = None
        self.position = Position()
        self.latest: dict[str, Any] = {}  # what the last record of the journal reported
        self.scoring: Callable[[str, Iterable[Batch]], Iterable[Batch]] = lambda part, batches: batches  # for who looks on
        self.per_epoch = self.task.batches_per_epoch(self.reading)
        self.entries = None if identity is None else entries_of(config, identity)
        run = None if identity is None else identity.id
        self.shelf = CheckpointFolder(folder / CHECKPOINTS, config.upkeep.checkpoints, run, self.entries)
        self.warnings = [*networks.narrow_levels(config), *(self.task.warnings() if config.reaches else ())]
        self.since_checkpoint = time.monotonic()
        self._clocks = self.since_checkpoint, time.process_time()
        self.journal = Journal(None)
        self._damaged: list[int] = []
        self._lengths: dict[str, int] | None = None  # of the journal's files, as the checkpoint noted them
        self.resumed = self._continue()

    def _continue(self) -> bool:
        """Go to the newest checkpoint, if there is one."""
        found = None
        complaints: list[str] = []
        if self.group.first and self.shelf.updates():
            try:
                found, complaints = self.shelf.newest()
            except DamagedError as error:
                raise UserError(f"no checkpoint of {self.folder} can be read: {error}; {REMEDY}") from None
        elif self.group.first:
            self._refuse_without_checkpoint()
        checkpoint = self._broadcast(found)
        if checkpoint is None:
            return False
        self.restore(checkpoint)
        self._lengths = checkpoint.facts["journal"]
        self._damaged = [update for update in self.shelf.updates() if update > self.position.updates]
        self.warnings += [f"{one}; continuing from update {self.position.updates}" for one in complaints]
        if (written := checkpoint.facts["torch"]) != torch.__version__:
            self.warnings.append(f"started with torch {written}, this is {torch.__version__}: last bits may differ")
        return True

    def _refuse_without_checkpoint(self) -> None:
        """A run has its first checkpoint before its first record: where only the checkpoints are gone, beginning again
        would wipe out what is left. Those of format 1 had none for a while."""
        aside = sorted(self.shelf.folder.glob("*.damaged"))
        journal = self.folder / JOURNAL
        recorded = journal.is_file() and journal.stat().st_size > 0
        if aside or (recorded and self.identity is not None and not self.identity.id.startswith(BEGUN_BY_1)):
            only = f"only {aside[-1].name}, which is damaged" if aside else "none, though the run has recorded updates"
            raise UserError(f"no checkpoint of {self.folder} can be read: there is {only}; {REMEDY}")

    def open_journal(self) -> None:
        """From now on the run's folder is written to: damaged checkpoints are put aside, and the journal is cut to what
        had been written when the checkpoint was."""
        if not self.group.first:
            return
        for update in self._damaged:
            self.shelf.put_aside(update)
        self.journal = Journal(self.folder, self.config.upkeep.tensorboard, self._lengths)
        self.warnings += self.journal.warnings

    def _broadcast(self, checkpoint: Checkpoint | None) -> Checkpoint | None:
        """What the first process, which alone reads and writes the run's folder, has read."""
        if self.group.size == 1:
            return checkpoint
        content = self.group.broadcast(None if checkpoint is None else pack(checkpoint))
        return unpack(content, self.folder) if content else None

    @property
    def sequences(self) -> int:
        return self.position.batches * self.reading.batch

    @property
    def done(self) -> float:
        """The share of the budget that is used up, 1 at the end."""
        budget, position = self.config.budget, self.position
        shares = [0.0]
        if budget.updates is not None:
            shares.append(position.updates / budget.updates)
        if budget.sequences is not None:
            shares.append(self.sequences / budget.sequences)
        if budget.epochs is not None and self.per_epoch is not None:
            shares.append(position.batches / max(1, round(budget.epochs * self.per_epoch)))
        return max(shares)

    @property
    def over(self) -> str | None:
        """Why there is nothing left to learn, or None."""
        if self.course.finished:
            return str(self.course.finished)
        limit = self.config.budget.stop_after
        if limit is not None and self.position.without_gain >= limit:
            return "no gain"
        return "budget" if self.done >= 1 else None

    def passed(self, every: int, before: int) -> bool:
        """Did the updates since `before` pass a multiple of `every`?"""
        return self.position.updates // every > before // every

    @property
    def frozen_due(self) -> bool:
        """Is the next window scored before it is learned?"""
        every = self.config.upkeep.frozen_every
        return self.updates is not None and bool(every) and (self.position.updates + 1) % every == 0

    def times(self) -> dict[str, float]:
        """Time spent on the run so far, for a record."""
        now = time.monotonic(), time.process_time()
        self.position.seconds += now[0] - self._clocks[0]
        self.position.cpu_seconds += now[1] - self._clocks[1]
        self._clocks = now
        return {"seconds": round(self.position.seconds, 3), "cpu_seconds": round(self.position.cpu_seconds, 3)}

    def save(self) -> None:
        """Write a checkpoint of this moment, with the states that all processes carry."""
        if not all(bool(torch.isfinite(weights).all()) for weights in self.network.parameters()):
            raise DivergedError(f"weights are no longer finite at update {self.position.updates}")
        self.times()
        states = self.group.all_gather(self.state.tensors()) if self.state else []
        self.since_checkpoint = time.monotonic()
        if not self.group.first:
            return
        if self.identity is not None:
            check_still_there(self.folder, self.identity.id)
        optimizers = [flatten_optimizer(optimizer) for optimizer in self.optimizers]
        tensors: dict[str, Tensor] = {
            **_named("network", self.network.state_dict()),
            **{
                name: value for i, (state, _) in enumerate(optimizers) for name, value in _named(f"optimizer{i}", state).items()
            },
            **_named("state", _of_all_rows(states)),
            "generator.indices": self.indices.get_state(),
        }
        pins = self.course.kept | ({self.position.best_at} if self.position.best_at is not None else set())
        facts = {
            "run": self.identity.id if self.identity else None,
            "config": self.entries,
            "position": asdict(self.position),
            "course": self.course.state(),
            "optimizers": [numbers for _, numbers in optimizers],
            "journal": self.journal.sync(),
            "pins": sorted(pins),
            "torch": torch.__version__,
        }
        self.shelf.put(self.position.updates, Checkpoint(tensors, facts))
        self.since_checkpoint = time.monotonic()

    @property
    def checkpoint_due(self) -> bool:
        return time.monotonic() - self.since_checkpoint > self.config.upkeep.checkpoint_seconds

    def fresh_state(self) -> State:
        """Before the first step, in this process's rows."""
        rows = torch.tensor(self.reading.rows)
        return self.network.levels.initial_state(len(rows)).with_rows(rows)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Be where the checkpoint was."""
        with self._fitting(checkpoint):
            self._restore_weights(checkpoint)
            state = checkpoint.section("state")
            self.state = self._state(state) if state else None
            generator, current = checkpoint.tensors["generator.indices"], self.indices.get_state()
            if (generator.dtype, generator.shape) != (current.dtype, current.shape):
                raise ValueError(f"the generator's state is {generator.dtype} {tuple(generator.shape)}")
            self.indices.set_state(generator)
            self.position = position_of(checkpoint.facts["position"])
            if self.updates is not None and self.position.moves:  # none before the first update
                self.updates.moves = list(self.position.moves)
            self.course.load_state(checkpoint.facts["course"])

    @contextmanager
    def _fitting(self, checkpoint: Checkpoint) -> Iterator[None]:
        """What is in a checkpoint is checked as it is used: names, shapes and types that are not those of this run."""
        try:
            yield
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            path = self.shelf.path(checkpoint.facts["position"]["updates"])
            words = " ".join(str(error).split())[:200]
            raise UserError(f"{path} does not fit its run ({type(error).__name__}: {words}); {REMEDY}") from None

    def _state(self, tensors: dict[str, Tensor]) -> State:
        """The carried states of this process's rows, from those of all."""
        expected = self.network.levels.initial_state(self.reading.batch).tensors()
        for name in expected.keys() | tensors.keys():
            first, second = (None if name not in of else (of[name].dtype, tuple(of[name].shape)) for of in (expected, tensors))
            if first != second:
                raise ValueError(f"the state's {name} is {second}; expected {first}")
        state = State.from_tensors(tensors)
        return state.select(torch.tensor(self.reading.rows)) if self.group.size > 1 else state

    def back_to(self, update: int) -> None:
        """Weights and optimizer as they were then; the data, the budget and the journal go on."""
        checkpoint = self.checkpoint_of(update)
        with self._fitting(checkpoint):
            self._restore_weights(checkpoint)

    def checkpoint_of(self, update: int) -> Checkpoint:
        try:
            checkpoint = self._broadcast(self.shelf.get(update) if self.group.first else None)
        except DamagedError as error:
            raise UserError(
                f"{error}, and the run needs it; put back a copy of it. hrnn evaluate {self.folder} --checkpoint last scores "
                "the weights without it"
            ) from None
        assert checkpoint is not None
        return checkpoint

    def _restore_weights(self, checkpoint: Checkpoint) -> None:
        self.network.load_state_dict(checkpoint.section("network"))
        for i, (optimizer, facts) in enumerate(zip(self.optimizers, checkpoint.facts["optimizers"], strict=True)):
            restore_optimizer(optimizer, checkpoint.section(f"optimizer{i}"), facts)

    def report(self) -> dict[str, Any]:
        """The sums since the last record, as a record reports them; local losses are per level."""
        tally = Tally(self.position.since_record)
        places = max(tally.sums.get("_places", 0), 1)
        local = [
            tally.sums.get(f"_local{level}", 0.0) / places if beta else None for level, beta in enumerate(self.config.betas)
        ]
        return {**tally.report(self.task), "local_losses": local}

    def frozen_report(self) -> dict[str, float]:
        """What windows scored before they were learned, since the last record; empty if none was."""
        sums = {n.removeprefix(FROZEN): value for n, value in self.position.since_record.items() if n.startswith(FROZEN)}
        return {f"frozen_{name}": value for name, value in Tally(sums).report(self.task).items()}


def position_of(facts: dict[str, Any]) -> Position:
    """What a checkpoint says of how far its run was, checked."""
    position = Position(**facts)
    counts = (position.batches, position.updates, position.without_gain, *position.moves)
    numbers = (position.seconds, position.cpu_seconds, *position.since_record.values())
    if not all(type(count) is int and count >= 0 for count in counts):
        raise TypeError(f"counts are {str(counts)[:60]}")
    if not all(isinstance(number, int | float) for number in numbers):
        raise TypeError(f"numbers are {str(numbers)[:60]}")
    if not isinstance(position.best, int | float | None) or not isinstance(position.best_at, int | None):
        raise TypeError(f"the best is {str(position.best)[:60]} at {str(position.best_at)[:60]}")
    return position


def _of_all_rows(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One state, as tensors, from those of the processes."""
    return State.together([State.from_tensors(one) for one in states]).tensors() if len(states) > 1 else dict(*states)


def _named(section: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{section}.{name}": value for name, value in tensors.items()}
