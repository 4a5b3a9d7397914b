"""`Truncated`: true gradients over shorter windows inside the window; states go on, gradients do not."""

from __future__ import annotations

from hrnn.arguments import whole
from hrnn.gradients.base import Gradient
from hrnn.gradients.objective import Objective
from hrnn.gradients.piece import Pieces
from hrnn.gradients.positions import Onward
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Window
from hrnn.schedules import Behind
from hrnn.state import State


class Truncated(Gradient):
    """True gradients over shorter windows of `steps` steps inside the window, the last one of what is left.

    It equals consecutive calls of `Full` with the whole window's weights, each told what boundaries come behind it, but that
    statistics of decoders are those of one window and that sampled indices are drawn from one seed. Memory grows with `steps`,
    not with the window. `on_segment` is told of every level at the end of each shorter window; `updates` are refused.
    """

    def __init__(self, steps: int):
        self.steps = whole("steps", steps, remedy="at least 1 step, through which gradients go back")

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        steps = Onward(window)
        run = Pieces(window, objective, steps)
        state, start, behind = window.state, 0, Behind()
        while (stop := steps.up_to(start + self.steps)) > start:
            _, after = run.differentiate(run.begin(state, start, behind), stop, wanted=False, close=True)
            assert after is not None
            for chunk in steps.chunks(start, stop):  # of a row that is over, later boundaries say nothing
                behind.after(chunk.boundaries, chunk.lengths, len(chunk.x))
            run.tell(stop)
            steps.forget_before(stop)
            state, start = after, stop
        run.gather()
        return state
