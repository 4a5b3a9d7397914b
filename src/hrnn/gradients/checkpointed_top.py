"""Restricted gradients whose top level is checkpointed: its ticks need not all stay until the window's end.

Two passes. The first runs forward and keeps the hierarchy's state after every so many ticks of the top, about the root of their
number. The second goes through these blocks from the last to the first, each run again in full, with losses and decoders, as a
window of ordinary `Restricted`; the gradient of the top's state is handed from block to block. Nothing else crosses a block's
edge: where the top is about to tick, all segments below are complete, and what they send up gets no gradient.

Where rows tick at different times there is no such edge. Blocks are then cut at any step and differentiated by autograd, the
upward edges left out and the gradient of every level's state handed on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from hrnn.forward import in_phase
from hrnn.gradients.checkpointed import backward
from hrnn.gradients.in_phase import SegmentBySegment
from hrnn.gradients.objective import Objective
from hrnn.gradients.piece import Pieces
from hrnn.gradients.positions import Positions
from hrnn.gradients.shelf import Shelf
from hrnn.gradients.updates import Mover
from hrnn.gradients.window import Window
from hrnn.recomputation import every, root
from hrnn.segments import reach_of
from hrnn.state import State


def checkpointed_top(window: Window, objective: Objective, at_once: Callable[[Window, Mover], int]) -> State:
    """Differentiate a window, and return the state after it. at_once: how many segments a part of it may take together."""
    positions, clock = Positions(window, "Restricted(top='checkpointed')"), window.state.clock
    run = Pieces(window, objective, positions, restricted=True)
    if window.in_phase and in_phase(window.model.levels, window.model.periods, clock):
        after = _block_by_block(run, _edges(run, positions.steps), at_once)
    else:
        after = backward(run, every(root(positions.steps), positions.steps))
    run.tell(positions.steps)
    run.gather()
    return after


def _edges(run: Pieces, steps: int) -> list[int]:
    """Where blocks begin and end: at ticks of the top."""
    periods = [reach_of(period) for period in run.model.periods]
    position = run.window.state.clock.position[0].tolist() if periods else []
    size, first = math.prod(periods), to_next_tick(periods, position)
    block = root(-(-steps // size)) * size
    return [0, *range(first + block, steps, block), steps]


def to_next_tick(periods: Sequence[int], position: Sequence[int]) -> int:
    """Steps before the top ticks again, where levels below it have had `position` ticks in their segments."""
    size, since = 1, 0  # steps of the segments so far, and since the one that is under way began
    for period, ticks in zip(periods, position, strict=True):
        complete = ticks - (since > 0)
        since = (complete * size + since) % (size * period)
        size *= period
    return (size - since) % size


def _block_by_block(run: Pieces, edges: list[int], at_once: Callable[[Window, Mover], int]) -> State:
    window, steps = run.window, run.steps
    shelf, starts = Shelf(len(edges) - 2, window.state), [run.begin()]
    for number, stop in enumerate(edges[1:-1]):
        starts.append(shelf.keep(number, run.forward(starts[-1], stop)))
    d_top = [torch.zeros_like(part) for part in window.state.cells[-1]]
    after: State | None = None
    for at, (start, stop) in reversed(list(zip(starts, pairwise(edges), strict=True))):
        part = window.part(at.state, steps.chunks(start, stop), stop - start)
        mover = Mover(None, len(run.model.levels), window.local_weight, window.state.batch)
        block = SegmentBySegment(part, run.objective, mover, at_once(part, mover), d_x=run.d_x.part(start, stop), d_top=d_top)
        state = block.run()  # which leaves in d_top the gradient of the top's state at the start
        after = after or state
    assert after is not None
    return after
