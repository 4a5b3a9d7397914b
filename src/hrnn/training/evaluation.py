"""A network's losses on batches, without learning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from hrnn.state import State
from hrnn.tasks import Batch, Task
from hrnn.training.network import Network


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


@torch.no_grad()
def scored(
    network: Network, task: Task, batch: Batch, state: State | None
) -> Iterator[tuple[Tensor, dict[str, Tensor], State]]:
    """For each window the task's losses where a target stands, its metrics there, and the state after it."""
    state = None if batch.fresh else state
    for window in batch.windows:
        given = window.boundaries if task_gives_boundaries(network) else None
        output, state = network.levels(window.x, state, boundaries=given)
        target = window.y
        if window.mask is not None:
            output, target = output[window.mask][None], target[window.mask][None]
        values: Any = task.loss(network(output), target) if target.numel() else output.new_zeros(target.shape)
        values, metrics = values if isinstance(values, tuple) else (values, {})
        yield values, metrics, state


def task_gives_boundaries(network: Network) -> bool:
    return any(not isinstance(period, int) for period in network.levels.periods)


def evaluate(network: Network, task: Task, batches: Iterable[Batch]) -> dict[str, float]:
    """What the task reports over all batches."""
    tally, carried = Tally(), None
    for batch in batches:
        for values, metrics, state in scored(network, task, batch, carried):
            carried = state
            tally.add(loss=float(values.sum(dtype=torch.float64)), _targets=values.numel())
            tally.add(**{name: float(value.sum(dtype=torch.float64)) for name, value in metrics.items()})
    return tally.report(task)
