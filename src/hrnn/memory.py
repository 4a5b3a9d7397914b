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
from hrnn.prediction import chosen_at_once
from hrnn.prediction import exact_count as exact_count
from hrnn.prediction import paper_count as paper_count
from hrnn.prediction import predict as predict
from hrnn.prediction import predict_checkpointed as predict_checkpointed
from hrnn.prediction import predict_truncated as predict_truncated
from hrnn.prediction import segments_at_once as segments_at_once
from hrnn.resident import measure as measure
from hrnn.resident import one_window as one_window
from hrnn.resident import peak_since as peak_since
from hrnn.resident import start_of_peak as start_of_peak
from hrnn.room import MOST_AT_ONCE, ceiling
from hrnn.telling import followed


@dataclass(frozen=True)
class Plan:
    """A hierarchy that fits: predicted bytes, the two counts, and how many segments are differentiated together, at most."""

    hidden_sizes: list[int]
    periods: list[int]
    bytes: int
    paper_count: int
    exact_count: float
    segments_at_once: int


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
    if options.get("segments_at_once") is not None:
        options["segments_at_once"] = whole("segments_at_once", options["segments_at_once"], most=MOST_AT_ONCE)
    given = [hidden] if isinstance(hidden, int) else entries("hidden", hidden, "[256]")
    sizes = [whole("hidden", size) for size in given]
    if not sizes:
        raise ValueError("hidden is []; give the size of every level, or, from the lowest, of each")
    found = []
    for depth in followed("planning", [whole("depths", one) for one in entries("depths", depths, "(2, 3, 4, 5)")], "depths"):
        if depth > window.bit_length() + 1:  # even periods of 2 do not go into the window
            continue
        levels = [*sizes, *[sizes[-1]] * depth][:depth]
        cost = partial(_cost, levels, batch, options)
        period = _smallest_period(budget, window, cost, depth - 1)
        if period is not None:
            periods = [period] * (depth - 1)
            size = predict(levels, periods, window, batch, **options)
            known = {name: options[name] for name in ("inputs", "tokens", "cell") if name in options}
            at_once = chosen_at_once(options.get("segments_at_once"), levels, periods, batch, **known)
            counts = paper_count(periods, window), exact_count(levels, periods, window, at_once)
            found.append(Plan(levels, periods, size, *counts, at_once))
    return found


def _cost(levels: list[int], batch: int, options: dict[str, Any], periods: list[int], window: int, floor: bool = False) -> int:
    """What `predict` says. floor: of one segment at a time, or, where their number is given, of as many as a longer period
    would have as well; a longer period can only cost more, but for the top level."""
    if floor:
        options = {**options, "segments_at_once": min(options.get("segments_at_once") or 1, *periods, window)}
    return predict(levels, periods, window, batch, **options)


def _smallest_period(budget: int, window: int, cost: Callable[..., int], below: int) -> int | None:
    """Of a hierarchy with `below` levels below the top that fits the budget. It need not try them all: a longer period makes
    nothing cheaper but the top level, which must therefore lose at least as many ticks as are too many, and the number of
    segments at once, which is small by the time that segments are long."""
    growth = 2 * (cost([1] * below, 2, floor=True) - cost([1] * below, 1, floor=True))  # with a tick of the top, at most
    period = 2
    while period <= max(2, math.isqrt(window)) and period**below <= window:
        if cost([period] * below, window) <= budget:
            return period
        excess = max(0, cost([period] * below, window, floor=True) - budget)
        ticks = ceiling(window, period**below) - ceiling(excess, growth)
        if ticks < 1 or not below:
            return None
        period = max(period + 1, _root(ceiling(window, ticks), below))
    return None


def _root(number: int, degree: int) -> int:
    """The smallest whole number whose power of that degree is at least `number`."""
    root: int = round(number ** (1 / degree))
    while root**degree >= number:
        root -= 1
    while root**degree < number:
        root += 1
    return root
