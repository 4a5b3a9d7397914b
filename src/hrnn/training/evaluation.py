"""A network's losses on batches, without learning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from hrnn.parallel import ALONE, Group
from hrnn.state import State
from hrnn.tasks import Batch, Task, Window
from hrnn.training.network import Network

FROZEN = "_frozen_"  # begins the names of sums of windows that were scored before they were learned


class Tally:
    """Sums over windows, as plain numbers: small, exact in JSON, and no tensor is kept alive."""

    def __init__(self, sums: dict[str, float] | None = None):
        self.sums = dict(sums or {})

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def report(self, task: Task) -> dict[str, float]:
        """The mean loss in nats, and what the task makes of its sums."""
        sums = {name: value for name, value in self.sums.items() if not name.startswith("_")}
        targets = int(self.sums.get("_targets", 0))
        if not targets:
            return {}
        return {"loss": sums["loss"] / targets, **task.report(sums, targets)}


Scores = tuple[Tensor, dict[str, Tensor], State]


@torch.no_grad()
def score(network: Network, task: Task, window: Window, state: State | None) -> Scores:
    """The task's losses where a target stands, its metrics there, and the state after the window."""
    given = window.boundaries if task_gives_boundaries(network) else None
    output, state = network.levels(window.x, state, boundaries=given)
    target = window.y
    if window.mask is not None:
        output, target = output[window.mask][None], target[window.mask][None]
    values: Any = task.loss(network(output), target) if target.numel() else output.new_zeros(target.shape)
    values, metrics = values if isinstance(values, tuple) else (values, {})
    return values, metrics, state


def scored(network: Network, task: Task, batch: Batch, state: State | None) -> Iterator[Scores]:
    """`score` for each window, one after the other."""
    state = None if batch.fresh else state
    for window in batch.windows:
        values, metrics, state = score(network, task, window, state)
        yield values, metrics, state


def sums_of(values: Tensor, metrics: dict[str, Tensor]) -> dict[str, float]:
    """A window's scores as sums for a `Tally`."""
    sums = {name: float(value.sum(dtype=torch.float64)) for name, value in metrics.items()}
    return {"loss": float(values.sum(dtype=torch.float64)), "_targets": values.numel(), **sums}


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
            if window.mask is None:
                here.copy_(values)
            else:
                here[window.mask[:, part.start : part.stop]] = values[0]
        group.all_reduce(everyone)
        yield everyone if window.mask is None else everyone[window.mask][None]


def evaluate(network: Network, task: Task, batches: Iterable[Batch], group: Group = ALONE) -> dict[str, float]:
    """What the task reports over all batches; each process scores some of the rows."""
    tally, carried = Tally(), None
    for batch in batches:
        part = group.shard(batch.rows)
        for values, metrics, state in scored(network, task, batch.only(part), carried) if part else ():
            carried = state
            tally.add(**sums_of(values, metrics))
    return Tally(group.all_reduce_numbers(tally.sums)).report(task)
