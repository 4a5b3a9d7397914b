"""True gradients: of the whole window at once, over shorter windows inside it, or in less memory by running steps again."""

from __future__ import annotations

from dataclasses import replace

from hrnn.arguments import whole
from hrnn.gradients.base import Gradient
from hrnn.gradients.graph_costs import costs_of
from hrnn.gradients.objective import Objective
from hrnn.gradients.pieces import Midway, Pieces, backward
from hrnn.gradients.steps import Onward, Positions
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Window
from hrnn.recomputation import Schedule, every, root, within
from hrnn.segments import Behind
from hrnn.state import State


class Full(Gradient):
    """True gradients: backpropagation through the whole window, upward edges included. Memory grows with the window.

    `on_segment` is told of every level once, at the end; `updates` are refused.
    """

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        steps = Onward(window)
        run, stop = Pieces(window, objective, steps), steps.up_to(None)
        _, after = run.differentiate(run.begin(), stop, [], wanted=False, goes_on=False, many=stop)
        run.gather(stop)
        return after.state


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
        run, at = Pieces(window, objective, steps), Midway(window.state, Behind(), 0)
        while (stop := steps.up_to(at.step + self.steps)) > at.step:
            _, at = run.differentiate(at, stop, [], wanted=False, goes_on=False)
            at = replace(at, numbers={})  # x of shorter windows before this one is constant
            steps.forget_before(stop)
            if steps.up_to(stop + 1) > stop:
                objective.tell(stop)
        run.gather(at.step)
        return at.state


class Checkpointed(Gradient):
    """True gradients of the whole window, those of `Full`, in memory that need not grow with it.

    every: a state is kept after every so many steps, and each piece is run again with its graph: one more pass forward. None,
           without `bytes`, is about the root of the window's steps.
    bytes: the memory that there is for one window, above the model and the window itself; the schedule is the one that runs the
           fewest steps again in it. What a state and a step's graph take is predicted, see `hrnn.memory.predict_checkpointed`;
           of a user's cells, and where rows tick at different times, it is found by running a few steps.

    The window must be readable by position: tensors, or a sequence of chunks. The loss sees every step once, from the last
    piece to the first. Torch's random numbers are the same when a step is run again; a cell that changes its own buffers as it
    runs changes them again. `on_segment` is told of every level once, at the end; `updates` are refused.
    """

    def __init__(self, every: int | None = None, bytes: int | None = None):
        if every is not None and bytes is not None:
            raise ValueError(f"every is {every} and bytes is {bytes}; give one of them, or neither")
        self.every = None if every is None else whole("every", every, remedy="at least 1 step, or None for about the root")
        self.bytes = None if bytes is None else whole("bytes", bytes, remedy="a number of bytes, e.g. 100_000_000")

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        run = Pieces(window, objective, positions := Positions(window, "Checkpointed"))
        return backward(run, self._schedule(run, positions.steps))

    def _schedule(self, run: Pieces, steps: int) -> Schedule:
        if self.bytes is None:
            return every(self.every or root(steps), steps)
        return within(self.bytes, steps, costs_of(run))
