"""A network's losses on batches, without learning."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hrnn.parallel import ALONE, Group
from hrnn.state import State
from hrnn.tasks import Batch, Judge, Task, Window
from hrnn.training.network import Network


@dataclass
class Sums:
    """What was summed over windows, as plain numbers: small, exact in JSON, and no tensor is kept alive.

    loss, metrics: over all targets
    local:         by level, over segments, each loss times the steps that it spans
    steps:         of all rows together
    frozen:        the same of windows that were scored before they were learned
    """

    loss: float = 0.0
    targets: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    local: dict[int, float] = field(default_factory=dict)
    steps: int = 0
    frozen: Sums | None = None

    def add(self, other: Sums) -> None:
        self.loss += other.loss
        self.targets += other.targets
        self.steps += other.steps
        for name, value in other.metrics.items():
            self.metrics[name] = self.metrics.get(name, 0.0) + value
        for level, value in other.local.items():
            self.local[level] = self.local.get(level, 0.0) + value
        if other.frozen is not None:
            self.frozen = self.frozen or Sums()
            self.frozen.add(other.frozen)

    @property
    def finite(self) -> bool:
        """Whether what was learned from is; windows that were only scored have no say."""
        return math.isfinite(self.loss + sum(self.metrics.values()) + sum(self.local.values()))

    def report(self, task: Task) -> dict[str, float]:
        """The mean loss in nats, and what the task makes of its sums."""
        if not self.targets:
            return {}
        return {"loss": self.loss / self.targets, **task.report({"loss": self.loss, **self.metrics}, self.targets)}

    def local_losses(self, betas: Sequence[float]) -> list[float | None]:
        """The mean of each level; None where it is not computed."""
        return [self.local.get(level, 0.0) / max(self.steps, 1) if beta else None for level, beta in enumerate(betas)]

    def to_json(self) -> dict[str, float]:
        """By name, as checkpoints hold them and processes add them up."""
        entries = {"loss": self.loss, TARGETS: self.targets, STEPS: self.steps, **self.metrics}
        entries |= {f"{LOCAL}{level}": value for level, value in self.local.items()}
        frozen = {} if self.frozen is None else self.frozen.to_json()
        return entries | {FROZEN + name: value for name, value in frozen.items()}

    @staticmethod
    def from_json(entries: Mapping[str, float]) -> Sums:
        rest = dict(entries)
        frozen = {name.removeprefix(FROZEN): rest.pop(name) for name in entries if name.startswith(FROZEN)}
        local = {int(name.removeprefix(LOCAL)): rest.pop(name) for name in entries if re.fullmatch(rf"{LOCAL}\d+", name)}
        loss, targets, steps = rest.pop("loss", 0.0), rest.pop(TARGETS, 0), rest.pop(STEPS, 0)
        return Sums(loss, int(targets), rest, local, int(steps), Sums.from_json(frozen) if frozen else None)

    def over(self, group: Group) -> Sums:
        """Added up over all processes."""
        return Sums.from_json(group.all_reduce_numbers(self.to_json())) if group.size > 1 else self


TARGETS, STEPS, LOCAL, FROZEN = "_targets", "_places", "_local", "_frozen_"  # in checkpoints


Scores = tuple[Tensor, Sums, State]  # losses where a target stands; these and the task's metrics, summed; the state afterwards


NUMBERS = 1 << 18  # of the lowest level's hidden states that are there at once where nothing is learned


def score(network: Network, task: Task, window: Window, state: State | None, judge: Judge | None = None) -> Scores:
    """What the task makes of a window, and its judge, if there is one; no state: sequences begin. A long window is gone through
    in pieces of whole segments, and takes no more memory than these."""
    if task_gives_boundaries(network):
        return _score(network, task, window, state, judge)
    sums, values = Sums(), []
    for piece in window.pieces(_at_once(network, window)):
        of_piece, summed, state = _score(network, task, piece, state, judge)
        sums.add(summed)
        values.append(of_piece)
    assert state is not None
    return torch.cat(values, 0 if window.there is None else 1), sums, state


def _at_once(network: Network, window: Window) -> int:
    """Steps of a window, whole segments of the lowest level where their length is fixed."""
    levels = network.levels
    segment = levels.periods[0] if levels.periods and isinstance(levels.periods[0], int) else 1
    return max(1, NUMBERS // (window.x.shape[1] * levels.output_size) // segment) * segment


@contextmanager
def as_tested(network: Network) -> Iterator[None]:
    """A user's cell may drop out or use random numbers: not here, and those that it uses while learning stay as they are."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, training in modes:
            module.training = training


@torch.no_grad()
def _score(network: Network, task: Task, window: Window, state: State | None, judge: Judge | None) -> Scores:
    given = window.boundaries if task_gives_boundaries(network) else None
    fresh, state = state is None, None if state is None else rows_left(state, window)
    target, there = window.y, window.there
    with as_tested(network):
        output, state = network.levels(window.x, state, boundaries=given, lengths=window.lengths, reset=window.reset)
        if judge is not None:
            judge.add(window, network(output), fresh)
        if there is not None:
            output, target = output[there][None], target[there][None]
        values: Any = task.loss(network(output), target) if target.numel() else output.new_zeros(target.shape[:2])
    values, metrics = values if isinstance(values, tuple) else (values, {})
    sums = {name: float(value.sum(dtype=torch.float64)) for name, value in metrics.items()}
    return values, Sums(float(values.sum(dtype=torch.float64)), values.numel(), sums), state


@torch.no_grad()
def said(network: Network, batch: Batch) -> Iterator[tuple[Window, Tensor, bool]]:
    """What the network says of a batch whose sequences begin with it: pieces of its windows, their logits (time, rows,
    outputs), and whether it is the first."""
    state = None
    with torch.random.fork_rng(devices=[]):  # a user's cell may use random numbers
        for window in batch.windows:
            for piece in window.pieces(_at_once(network, window)):
                before = None if state is None else rows_left(state, piece)
                output, after = network.levels(piece.x, before, lengths=piece.lengths, reset=piece.reset)
                yield piece, network(output), state is None
                state = after


def rows_left(state: State, window: Window) -> State:
    """The state of the rows that a window still has, the first ones."""
    rows = window.x.shape[1]
    return state if state.batch == rows else state.select(torch.arange(rows))


def scored(network: Network, task: Task, batch: Batch, state: State | None, judge: Judge | None = None) -> Iterator[Scores]:
    """`score` for each window, one after the other."""
    state = None if batch.fresh else state
    for window in batch.windows:
        scores = score(network, task, window, state, judge)
        state = scores[-1]
        yield scores


def task_gives_boundaries(network: Network) -> bool:
    return any(not isinstance(period, int) for period in network.levels.periods)


def values_of(network: Network, task: Task, batch: Batch, group: Group = ALONE) -> Iterator[Tensor]:
    """For each window the losses of all rows, as `scored` has them; each process computes those of some rows."""
    part = group.shard(batch.rows)
    mine = scored(network, task, batch.only(part), None) if part else iter(())
    for window in batch.windows:
        everyone = torch.zeros(window.x.shape[:2], dtype=network.levels.dtype)
        if part:
            values, _, _ = next(mine)
            here = everyone[:, part.start : part.stop]
            if window.there is None:
                here.copy_(values)
            else:
                here[window.there[:, part.start : part.stop]] = values[0]
        group.all_reduce(everyone)
        yield everyone if window.there is None else everyone[window.there][None]


def evaluate(
    network: Network, task: Task, batches: Iterable[Batch], group: Group = ALONE, judge: Judge | None = None
) -> dict[str, float]:
    """What the task reports over all batches; each process scores some of the rows. judge: the task's, for who wants its
    details afterwards."""
    sums, carried, judge = Sums(), None, judge or task.judge()
    for batch in batches:
        part = group.shard(batch.rows)
        for _, of_window, state in scored(network, task, batch.only(part), carried, judge) if part else ():
            carried = state
            sums.add(of_window)
    report = sums.over(group).report(task)
    if judge is None:
        return report
    for one in judge.sums.values():
        group.all_reduce(one)
    return {**report, **judge.report()}


def recovered_of(network: Network, batch: Batch) -> list[list[float | None]]:
    """What decoders lose in a batch's first window, by level and index; None where no segment was so long."""
    window = batch.windows[0]
    given = window.boundaries if task_gives_boundaries(network) else None
    with as_tested(network):
        lost = network.levels.recovered(window.x, boundaries=given, lengths=window.lengths, reset=window.reset)
    return [[None if math.isnan(one) else round(one, 4) for one in level.tolist()] for level in lost]
