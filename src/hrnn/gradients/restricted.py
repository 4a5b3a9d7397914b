"""`Restricted`: gradients that are not sent back along the upward edges, each segment differentiated as soon as it ends."""

from __future__ import annotations

from typing import Any

from hrnn.arguments import number, shown, whole
from hrnn.cells import BUILTIN, BuiltinCell
from hrnn.forward import in_phase
from hrnn.gradients.base import Gradient
from hrnn.gradients.checkpointed import backward
from hrnn.gradients.checkpointed_top import checkpointed_top
from hrnn.gradients.edges import Edges
from hrnn.gradients.in_phase import SegmentBySegment
from hrnn.gradients.objective import Objective
from hrnn.gradients.piece import Pieces
from hrnn.gradients.positions import Positions
from hrnn.gradients.rounds import Rounds
from hrnn.gradients.updates import Mover, Updates, check_updates
from hrnn.gradients.window import Window
from hrnn.recomputation import every, root
from hrnn.room import MOST_AT_ONCE, complete_segments, segments_at_once
from hrnn.segments import reach_of
from hrnn.state import State

TOPS = ("stored", "checkpointed")


class Restricted(Gradient):
    """Restricted gradients, in memory of about the sum of the periods plus twice the top level's ticks.

    round_steps: where rows tick at different times (given boundaries, `lengths`, `reset`), how many steps are run forward
    before what is complete is differentiated. None is four times the lowest level's period or reach. It bounds the memory
    and changes nothing else.

    segments_at_once: where all rows tick together, how many segments of the lowest level are run forward before they are
    differentiated, at most; complete ones within a chunk, up to the end of the segment above and the next move of `updates`.
    Small networks are quicker with several; each takes its share of memory. None is as many as take 2.5 MB, see
    `hrnn.memory.segments_at_once`. It changes the order of sums, so the last bits of gradients.

    top: "stored": all ticks of the top level stay until the window's end. "checkpointed": they are run twice, and their memory
    grows with the root of their number; see `checkpointed_top.py`. The window must then be readable by position (tensors, or a
    sequence of chunks), `updates` are refused, and `on_segment` is told of every level once, at the end.

    replay: 0 to 1, the probability with which, for every segment and row on its own, the gradient of a summary is sent back
    into the segment after all; it then counts for one over the probability. 0 is never, 1 gives true gradients, and between
    them the true gradient is what is expected. All steps run twice, as with `Checkpointed`, and `round_steps` of them are kept
    at a time, by default about the root of the window. As to window, `updates` and `on_segment`, as for a checkpointed top,
    which it cannot be combined with.
    """

    default_beta = 1.0

    def __init__(
        self,
        round_steps: int | None = None,
        segments_at_once: int | None = None,
        top: str = "stored",
        *,
        replay: float = 0.0,
    ):
        remedy = "at least 1, or None for a default"
        self.round_steps = None if round_steps is None else whole("round_steps", round_steps, remedy=remedy)
        remedy = f"1 to {MOST_AT_ONCE}, or None for a default"
        self.segments_at_once = (
            None if segments_at_once is None else whole("segments_at_once", segments_at_once, most=MOST_AT_ONCE, remedy=remedy)
        )

        if top not in TOPS:
            raise ValueError(f"top is {shown(top)}; expected one of {', '.join(map(repr, TOPS))}")
        self.top, self.replay = top, _probability(replay)
        if self.replay and top == "checkpointed":
            raise ValueError(
                f"replay is {shown(replay)} and top 'checkpointed', which each run steps again in their own way; give one of "
                f"them, or hrnn.Checkpointed() for true gradients"
            )

    def allowed(self, updates: Updates | None, window: Window, weight: float | None) -> Updates | None:
        if updates is not None and (self.replay or self.top == "checkpointed"):
            how = f"replay={self.replay:g}" if self.replay else "top='checkpointed'"
            raise ValueError(
                f"updates were given to Restricted({how}): gradients are complete only at the window's end; use "
                f"hrnn.Restricted() with updates, or step the optimizer after backward"
            )
        if updates is not None:
            check_updates(updates, window.model, window.state.batch, weight, window.local_weight)
        return updates

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        model, clock = window.model, window.state.clock
        if self.top == "checkpointed":
            return checkpointed_top(window, objective, self.at_once)
        if self.replay and model.periods:
            return self._replayed(window, objective)
        mover = Mover(updates, len(model.levels), window.local_weight, window.rows)
        together = window.in_phase and in_phase(model.levels, model.periods, clock)
        if mover.agreed_phase(clock.position[0].tolist() if together else None, len(model.periods)) is not None:
            return SegmentBySegment(window, objective, mover, self.at_once(window, mover)).run()
        return Rounds(window, objective, self.round_steps, mover).run()

    def at_once(self, window: Window, mover: Mover) -> int:
        """How many segments of the lowest level are differentiated together, at most."""
        return _possible(self.segments_at_once or _segments_at_once(window), window, mover)

    def _replayed(self, window: Window, objective: Objective) -> State:
        positions = Positions(window, "Restricted with replay")
        run = Pieces(window, objective, positions, edges=Edges(window, self.replay))
        after = backward(run, every(self.round_steps or root(positions.steps), positions.steps))
        run.tell(positions.steps)
        run.gather()
        return after


def _probability(replay: Any) -> float:
    try:
        found = number("replay", replay)
    except ValueError:
        found = 2.0
    if found > 1:
        raise ValueError(f"replay is {shown(replay)}; give the probability of sending a gradient back, 0 to 1")
    return found


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
