"""Bytes of tensors, counted as they are allocated and freed: the same on every machine, whatever else it does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from hrnn import memory


def most_bytes(run: Callable[[], object]) -> int:
    """The most that were there at once of what was allocated in the call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


def counted(**arguments) -> int:
    """Of a window; arguments are those of `memory.one_window`. Without oneDNN, whose LSTM allocates twice what it touches."""
    warm_up, run = memory.one_window(**arguments)
    before = torch.backends.mkldnn.set_flags(False)[0]
    try:
        warm_up()
        return most_bytes(run)
    finally:
        torch.backends.mkldnn.set_flags(before)
