"""`Checkpointed`: true gradients in less memory, by running steps again from states that were kept."""

from __future__ import annotations

from hrnn.arguments import whole
from hrnn.gradients.base import Gradient
from hrnn.gradients.graph_costs import costs_of
from hrnn.gradients.objective import Objective
from hrnn.gradients.piece import Pieces, StateGradient
from hrnn.gradients.positions import Positions
from hrnn.gradients.shelf import Shelf
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Window
from hrnn.recomputation import Schedule, every, root, within
from hrnn.state import State


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
        positions = Positions(window, "Checkpointed")
        run = Pieces(window, objective, positions)
        after = backward(run, self._schedule(run, positions.steps))
        run.tell(positions.steps)
        run.gather()
        return after

    def _schedule(self, run: Pieces, steps: int) -> Schedule:
        if self.bytes is None:
            return every(self.every or root(steps), steps)
        return within(self.bytes, steps, costs_of(run))


def backward(run: Pieces, schedule: Schedule) -> State:
    """Go through a window from its last piece to its first, and return the state after it."""
    shelf = Shelf(schedule.states, run.window.state)
    ahead = [(run.begin(), schedule.steps, 0)]  # where to go on from, up to which step, states kept by then
    after: State | None = None
    d_state: StateGradient | None = None
    while ahead:
        at, stop, kept = ahead.pop()
        while (first := schedule.split(stop - at.steps, kept)) is not None:
            ahead.append((at, at.steps + first, kept))
            at, kept = shelf.keep(kept, run.forward(at, at.steps + first)), kept + 1
        d_state, closed = run.differentiate(at, stop, d_state, wanted=at.steps > 0, close=stop == schedule.steps)
        after = after or closed
    assert after is not None
    return after
