"""What a run costs, before it is run: bytes of an update, measured in a child process, its seconds, and how many there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hrnn.memory import measure
from hrnn.tasks import Batch, Task, Window
from hrnn.training.config import Config, from_json, to_json
from hrnn.training.learning import learn
from hrnn.training.network import reading
from hrnn.training.run import Run


def bytes_of(config: Config[Any], children: int = 3) -> int:
    """Peak bytes of one update above the process before it, the median of several child processes."""
    return measure("hrnn.launching.measuring:one_update", children=children, config=to_json(config))


def one_update(config: dict[str, Any]) -> tuple[Callable[[], object], Callable[[], object]]:
    """What `bytes_of` measures: two steps to warm up, and the fullest batch of the run."""
    run = Run(from_json(config), Path())  # which writes nothing
    batch = fullest(run)
    return lambda: list(learn(run, end_of(batch))), lambda: list(learn(run, batch))


def seconds_of(config: Config[Any], updates: int = 2) -> float:
    """Seconds of a core that the fullest batch takes to be learned: the least of a few, after one to warm up."""
    run = Run(config, Path())  # which writes nothing
    batch = fullest(run)
    list(learn(run, end_of(batch)))
    times = []
    for _ in range(updates):
        begun = time.process_time()
        list(learn(run, batch))
        times.append(time.process_time() - begun)
    return min(times)


def batches(config: Config[Any]) -> int | None:
    """How many batches sequences and epochs allow; None if they set no limit."""
    return config.batches_allowed(batches_per_epoch(config))


def batches_per_epoch(config: Config[Any]) -> int | None:
    """Of the run's task, where the budget counts epochs."""
    return None if config.budget.epochs is None else config.task.batches_per_epoch(reading(config))


def fullest(run: Run) -> Batch:
    """A batch as long as any that is learned within one window; a curriculum begins with shorter ones."""
    task: Task = run.task
    return task.fullest_batch(run.reading, run.config.window)


def end_of(batch: Batch, steps: int = 2) -> Batch:
    """The last steps of a batch, where a target stands."""
    window = batch.windows[-1]
    boundaries = window.boundaries
    if boundaries is not None:
        boundaries = boundaries[-(steps + boundaries.shape[0] - window.steps) :]
    mask = None if window.mask is None else window.mask[-steps:]
    return Batch([Window(window.x[-steps:], window.y[-steps:], mask, boundaries)])
