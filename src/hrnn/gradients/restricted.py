"""`Restricted`: gradients that are not sent back along the upward edges, each batch differentiated as soon as it is over."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch

from hrnn.arguments import number, shown, whole
from hrnn.cells import BuiltinCell, by_hand
from hrnn.cells.native import serves
from hrnn.gradients.base import Gradient
from hrnn.gradients.edges import Edges
from hrnn.gradients.in_phase import SegmentBySegment
from hrnn.gradients.literal import Literal
from hrnn.gradients.objective import Objective
from hrnn.gradients.pieces import Pieces, Shelf, backward
from hrnn.gradients.predictions import Predictions
from hrnn.gradients.steps import Positions, Rounds, piece
from hrnn.gradients.updates import Mover, Updates, agreed, check_updates
from hrnn.gradients.window import Window, by_position
from hrnn.recomputation import every, root
from hrnn.room import round_of
from hrnn.segments import Behind, Given, reach_of
from hrnn.state import State

TOPS = ("stored", "checkpointed")


class Restricted(Gradient):
    """Restricted gradients, in memory of about the sum of the periods plus twice the top level's ticks.

    round_steps: the window is gone through in rounds of so many steps, in each of which what has ended is differentiated, and
    the rest waits, as inputs. None is one round. An iterator of chunks must have it where rows tick at different times (given
    boundaries, `lengths`, `reset`): it bounds what has to be read before anything runs. Gradients do not depend on it; where
    levels move, and rows tick at different times, a batch is of segments that end in the same round.

    top: "stored": all ticks of the top level stay until the window's end. "checkpointed": they are run twice, and their memory
    grows with the root of their number. The window must then be readable by position (tensors, or a sequence of chunks),
    `updates` are refused, and `on_segment` is told of every level once, at the end.

    replay: 0 to 1, the probability with which, for every segment and row on its own, the gradient of a summary is sent back
    into the segment after all; it then counts for one over the probability. 0 is never, 1 gives true gradients, and between
    them the true gradient is what is expected. All steps run twice, as with `Checkpointed`, and `round_steps` of them are kept
    at a time, by default about the root of the window. As to window, `updates` and `on_segment`, as for a checkpointed top,
    which it cannot be combined with.
    """

    default_beta = 1.0

    def __init__(self, round_steps: int | None = None, top: str = "stored", *, replay: float = 0.0):
        remedy = "at least 1, or None for the whole window"
        self.round_steps = None if round_steps is None else whole("round_steps", round_steps, remedy=remedy)
        if top not in TOPS:
            raise ValueError(f"top is {shown(top)}; expected one of {', '.join(map(repr, TOPS))}")
        self.top, self.replay = top, _probability(replay)
        if self.replay and top == "checkpointed":
            raise ValueError(
                f"replay is {shown(replay)} and top 'checkpointed', which each run steps again in their own way; give one of "
                f"them, or hrnn.Checkpointed() for true gradients"
            )

    def allowed(self, updates: Updates | None, window: Window, weight: float | None) -> Updates | None:
        if self.replay and window.model.periods and not window.model.edges.cuts:
            raise ValueError(
                f"replay is {self.replay:g}, and no level of the model reads a summary: its gradients are true ones already; "
                f"give replay=0, or a model with reads='summary' or 'both'"
            )
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
        objective.engine = "literal: steps are run twice"
        if self.top == "checkpointed":
            return _with_checkpointed_top(window, objective)
        if self.replay and window.model.periods:
            run = Pieces(window, objective, steps := Positions(window, "Restricted with replay"), Edges(window, self.replay))
            return backward(run, every(self.round_steps or root(steps.steps), steps.steps))
        mover = Mover(updates, len(window.model.levels), window.local_weight, window.rows)
        position = window.state.clock.position[0].tolist()
        why = _why_literal(window)
        if mover.agreed_phase(None if why else position, len(window.model.periods)) is not None:
            objective.engine = "compiled"
            return SegmentBySegment(window, objective, mover).run()
        objective.engine = f"literal: {why or 'other processes need it'}"
        return in_batches(window, objective, mover, self.round_steps)


def in_batches(
    window: Window, objective: Objective, mover: Mover, round_steps: int | None, predictions: Predictions | None = None
) -> State:
    """A window whose upward edges are cut, batch by batch."""
    if window.streamed and not by_position(window.source) and window.may_part and round_steps is None:
        raise ValueError(
            "round_steps is None, and x is an iterator of chunks whose rows may tick at different steps: all of it would be "
            "read before anything runs; give a number of steps, e.g. Restricted(round_steps=1000), or the window as a list"
        )
    if mover.rows != window.state.batch:
        window.wiring = window.model.wiring(mover.rows)
    if round_steps is None and not window.streamed and not window.may_part:
        round_steps = round_of(math.prod(reach_of(period) for period in window.model.periods), window.steps)
    run = Literal(window, objective, window.state, mover, cut=True, predictions=predictions)
    for steps, plan, goes_on in Rounds(window, round_steps, every=mover.group.size > 1, batches=mover.updates is not None):
        run.go(agreed(plan, mover), steps, goes_on)
    return run.finish()


def _why_literal(window: Window) -> str:
    """Why compiled code cannot run a window; nothing if it can."""
    model = window.model
    if not model.paper_edges:
        return "compiled code does not know what its levels read, or where contexts enter"
    if not all(isinstance(cell, BuiltinCell) and by_hand(cell) for cell in model.levels):
        return "a cell is your own, or has been changed"
    if not all(isinstance(cell, BuiltinCell) and serves(cell) for cell in model.levels):
        return "there is no compiled code for this dtype, device or machine"
    if any(isinstance(period, Given) for period in model.periods):
        return "boundaries are given by the data"
    if not window.in_phase or window.may_part:
        return "rows have lengths or resets, or are at different places in their segments"
    return ""


def _with_checkpointed_top(window: Window, objective: Objective) -> State:
    """Two passes. The first keeps the state after every so many ticks of the top, about the root of their number. The second
    goes through these blocks from the last to the first, each as a window of its own whose top hands the gradient of its state
    on. Nothing else crosses a block's edge: where the top is about to tick, all segments below are complete, and what they send
    up gets no gradient. Where rows part there is no such edge: then blocks are pieces, cut anywhere."""
    steps = Positions(window, "Restricted(top='checkpointed')")
    run = Pieces(window, objective, steps, Edges(window, 0.0))
    if window.may_part or not window.in_phase:
        return backward(run, every(root(steps.steps), steps.steps))
    edges = _edges(window, steps.steps)
    shelf, starts = Shelf(len(edges) - 2, window.state), [run.begin()]
    for slot, stop in enumerate(edges[1:-1]):
        starts.append(shelf.keep(slot, run.forward(starts[-1], stop, stop - starts[-1].step)))
    d_top: list[torch.Tensor] = []
    after: State | None = None
    for at, (start, stop) in reversed(list(zip(starts, pairwise(edges), strict=True))):
        cells = (*at.state.cells[:-1], tuple(part.detach().requires_grad_() for part in at.state.cells[-1]))
        state = State.of(cells, at.state.clock, at.state.row, at.state.history, **at.state.raw)
        block = Literal(window, objective, state, cut=True, d_x=run.d_x.part(), numbers=at.numbers)
        block.tells = None  # all are told of once, at the end
        some = piece(list(steps.chunks(start, stop)), start, Behind())
        block.go(some.plan(window, at.state.clock), some)
        state, d_top = block.finish_block(d_top)
        after = after or state
    assert after is not None
    run.gather(steps.steps)
    return after


def _edges(window: Window, steps: int) -> list[int]:
    """Where blocks begin and end: at ticks of the top."""
    periods = [reach_of(period) for period in window.model.periods]
    position = window.state.clock.position[0].tolist()
    size = math.prod(periods)
    block = root(-(-steps // size)) * size
    return [0, *range(to_next_tick(periods, position) + block, steps, block), steps]


def to_next_tick(periods: list[int], position: list[int]) -> int:
    """Steps before the top ticks again, where levels below it have had `position` ticks in their segments."""
    size, since = 1, 0  # steps of the segments so far, and since the one that is under way began
    for period, ticks in zip(periods, position, strict=True):
        complete = ticks - (since > 0)
        since = (complete * size + since) % (size * period)
        size *= period
    return (size - since) % size


def _probability(replay: Any) -> float:
    try:
        found = number("replay", replay)
    except ValueError:
        found = 2.0
    if found > 1:
        raise ValueError(f"replay is {shown(replay)}; give the probability of sending a gradient back, 0 to 1")
    return found
