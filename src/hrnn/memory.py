"""Memory, said and measured: the paper's count, an exact one, bytes predicted, bytes measured, and a planner.

The planner is here; counts and predictions are those of `hrnn.prediction`, measurements those of `hrnn.resident`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hrnn.arguments import entries, whole
from hrnn.prediction import exact_count as exact_count
from hrnn.prediction import paper_count as paper_count
from hrnn.prediction import predict as predict
from hrnn.prediction import predict_checkpointed as predict_checkpointed
from hrnn.prediction import predict_truncated as predict_truncated
from hrnn.resident import measure as measure
from hrnn.resident import one_window as one_window
from hrnn.resident import peak_since as peak_since
from hrnn.resident import start_of_peak as start_of_peak
from hrnn.telling import followed


@dataclass(frozen=True)
class Plan:
    """A hierarchy that fits: predicted bytes, and the two counts."""

    hidden_sizes: list[int]
    periods: list[int]
    bytes: int
    paper_count: int
    exact_count: float


def plan(
    budget: int,
    window: int,
    batch: int,
    hidden: int | Sequence[int] = 256,
    depths: Sequence[int] = (2, 3, 4, 5),
    **options: Any,
) -> list[Plan]:
    """For each depth, the hierarchy with the smallest period that fits the budget in bytes: short segments are easier to
    summarise. `hidden` is the size of every level, or, from the lowest, of each (the last is repeated). An empty list:
    nothing fits. Further options are those of `predict`."""
    budget, window, batch = whole("budget", budget), whole("window", window), whole("batch", batch)
    given = [hidden] if isinstance(hidden, int) else entries("hidden", hidden, "[256]")
    sizes = [whole("hidden", size) for size in given]
    if not sizes:
        raise ValueError("hidden is []; give the size of every level, or, from the lowest, of each")
    found = []
    for depth in followed("planning", [whole("depths", one) for one in entries("depths", depths, "(2, 3, 4, 5)")], "depths"):
        if depth > window.bit_length() + 1:  # even periods of 2 do not go into the window
            continue
        levels = [*sizes, *[sizes[-1]] * depth][:depth]
        period = _smallest_period(budget, window, partial(_cost, levels, window, batch, options), depth - 1)
        if period is not None:
            periods = [period] * (depth - 1)
            size = predict(levels, periods, window, batch, **options)
            found.append(Plan(levels, periods, size, paper_count(periods, window), exact_count(levels, periods, window)))
    return found


def _cost(levels: list[int], window: int, batch: int, options: dict[str, Any], periods: list[int]) -> int:
    return predict(levels, periods, window, batch, **options)


def _smallest_period(budget: int, window: int, cost: Callable[[list[int]], int], below: int) -> int | None:
    """Of a hierarchy with `below` levels below the top that fits the budget; beyond 2,000, to a thousandth. A longer period is
    not always cheaper: its segments are longer, and fewer of them run side by side."""
    period = 2
    while period <= max(2, math.isqrt(window)) and period**below <= window:
        if cost([period] * below) <= budget:
            return period
        if not below:
            return None
        period += max(1, period // 1000)
    return None
