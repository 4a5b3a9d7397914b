"""`Restricted`: gradients that are not sent back along the upward edges, each segment differentiated as soon as it ends."""

from __future__ import annotations

from hrnn.arguments import whole
from hrnn.cells import BUILTIN, BuiltinCell
from hrnn.forward import in_phase
from hrnn.gradients.base import Gradient
from hrnn.gradients.in_phase import SegmentBySegment
from hrnn.gradients.objective import Objective
from hrnn.gradients.rounds import Rounds
from hrnn.gradients.updates import Mover, Updates, check_updates
from hrnn.gradients.window import Window
from hrnn.room import MOST_AT_ONCE, complete_segments, segments_at_once
from hrnn.segments import reach_of
from hrnn.state import State


class Restricted(Gradient):
    """Restricted gradients, in memory of about the sum of the periods plus twice the top level's ticks.

    round_steps: where rows tick at different times (given boundaries, `lengths`, `reset`), how many steps are run forward
    before what is complete is differentiated. None is four times the lowest level's period or reach. It bounds the memory
    and changes nothing else.

    segments_at_once: where all rows tick together, how many segments of the lowest level are run forward before they are
    differentiated, at most; complete ones within a chunk, up to the end of the segment above and the next move of `updates`.
    Small networks are quicker with several; each takes its share of memory. None is as many as take 2.5 MB, see
    `hrnn.memory.segments_at_once`. It changes the order of sums, so the last bits of gradients.
    """

    def __init__(self, round_steps: int | None = None, segments_at_once: int | None = None):
        remedy = "at least 1, or None for a default"
        self.round_steps = None if round_steps is None else whole("round_steps", round_steps, remedy=remedy)
        remedy = f"1 to {MOST_AT_ONCE}, or None for a default"
        self.segments_at_once = (
            None if segments_at_once is None else whole("segments_at_once", segments_at_once, most=MOST_AT_ONCE, remedy=remedy)
        )

    def allowed(self, updates: Updates | None, window: Window, weight: float | None) -> Updates | None:
        if updates is not None:
            check_updates(updates, window.model, window.state.batch, weight, window.local_weight)
        return updates

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        model, clock = window.model, window.state.clock
        mover = Mover(updates, len(model.levels), window.local_weight, window.state.batch)
        together = window.in_phase and in_phase(model.levels, model.periods, clock)
        if mover.agreed_phase(clock.position[0].tolist() if together else None, len(model.periods)) is not None:
            most = _possible(self.segments_at_once or _segments_at_once(window), window, mover)
            return SegmentBySegment(window, objective, mover, most).run()
        return Rounds(window, objective, self.round_steps, mover).run()


def _possible(most: int, window: Window, mover: Mover) -> int:
    """No more than can ever be taken together: each gets its share of buffers. Chunks do not say how long the window is."""
    periods = [reach_of(period) for period in window.model.periods]
    steps = most * sum(periods[:1]) if window.streamed else window.steps
    return mover.segments_left(0, min(most, complete_segments(periods, steps)))


def _segments_at_once(window: Window) -> int:
    model = window.model
    if not model.periods:
        return 1
    names = {kind: name for name, kind in BUILTIN.items()}
    lowest = model.cell(0)
    assert isinstance(lowest, BuiltinCell)
    return segments_at_once(
        names[type(lowest)], lowest.hidden_size, reach_of(model.periods[0]), window.state.batch,
        numbers=1 if model.tokens else model.input_size, width=model.dtype.itemsize,
    )  # fmt: skip
