"""Which states to keep, and which steps to run again: schedules of checkpointing, and what they take. Needs no torch.

A window is gone through backward, from its last piece to its first. To differentiate a piece, the state at its start must be
there and its graph fits in memory; the states in between are found again by running forward. A schedule says, for so many steps
with the state at their start at hand, how many to run forward before a state is kept, or that they are one piece.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hrnn.arguments import shown
from hrnn.room import CELLS, OVERHEAD, ceiling, cell_numbers, in_words, shown_at_once

_UNROLLED = 1000  # ticks that are taken for one segment, where there is but one level
# What autograd keeps of a tick, in vectors of the hidden size: within torch's operation for a segment, of whose LSTM it touches
# no more, and by itself. And bytes of its objects: within, of the LSTM for all ticks of a segment, and by itself.
_KEPT = {"lstm": (6.9, 7, 20_000, 12_000), "gru": (6.7, 6, 16_000, 12_000), "rnn": (2.4, 1, 5_000, 6_000)}
DIFFERENTIATED = 7  # vectors of each tick in a segment, while it is differentiated


class TooLittleError(ValueError):
    """Memory with which nothing can be done."""


@dataclass(frozen=True)
class Costs:
    """Bytes: whatever the schedule is, of a state, of a step's graph."""

    fixed: int
    state: int
    step: int

    def of(self, steps: int, states: int) -> int:
        """With so many states kept, while so many steps are differentiated."""
        return self.fixed + self.state * states + self.step * steps

    @property
    def least(self) -> int:
        """Two states and one step: with less nothing can be done."""
        return self.of(1, 2)


def root(steps: int) -> int:
    """About as many pieces as steps in a piece."""
    return max(1, math.isqrt(steps - 1) + 1)


@dataclass(frozen=True)
class Schedule:
    """Pieces of equal length, but for the first one, which may be shorter: it is run forward most often. `states`: how many are
    kept at once, beside the one that the window begins with.

    For so many pieces and states no order of going through them runs fewer steps: it is the solution of the dynamic programme

        C(n, m) = least over y of  y + C(n - y, m - 1) + C(y, m),   C(1, m) = 0

    y pieces forward, a state is kept, then what lies behind it, then the y pieces themselves.
    """

    steps: int
    length: int
    states: int

    @property
    def pieces(self) -> int:
        return ceiling(self.steps, self.length)

    @property
    def forward(self) -> int:
        """Steps that are run without being differentiated, all repetitions counted."""
        short = self.pieces * self.length - self.steps
        return self.length * forwards(self.pieces, self.states) - short * times(self.pieces, self.states)

    def split(self, steps: int, kept: int) -> int | None:
        """Of so many steps, with `kept` states, how many to run forward before one is kept; None: they are one piece."""
        count = ceiling(steps, self.length)
        if count == 1:
            return None
        short = count * self.length - steps  # not 0 only if these are the window's first steps
        return self.length * first_of(count, self.states - kept) - short

    def bytes(self, costs: Costs) -> int:
        """The most that it takes: a piece, and all its states, which have their room from the beginning."""
        return costs.of(min(self.length, self.steps), self.states)


def every(length: int, steps: int) -> Schedule:
    """A state is kept before each piece."""
    return Schedule(steps, length, ceiling(steps, length) - 1)


def within(size: int, steps: int, costs: Costs) -> Schedule:
    """The schedule that runs the fewest steps again in `size` bytes: over all numbers of states, with pieces as long as these
    leave room for."""
    if size < costs.least:
        raise TooLittleError(
            f"bytes is {shown(size)}, and two states and the graph of one step take {costs.least:,} ({in_words(costs.least)}) "
            f"with the gradients; give at least that"
        )
    best = Schedule(steps, steps, 0)
    if best.bytes(costs) <= size:
        return best
    found, states = [], 1
    while (length := (size - costs.of(0, states)) // costs.step) >= 1:
        found.append(Schedule(steps, length, states))
        if states >= found[-1].pieces - 1:
            break
        states += 1
    return min(found, key=lambda schedule: schedule.forward)


def reached(states: int, often: int) -> int:
    """How many pieces can be gone through backward, each run forward `often` times at most, with so many states kept."""
    return math.comb(states + often, states)


@cache
def times(pieces: int, states: int) -> int:
    """How often the first of several pieces is run forward."""
    return bisect_left(range(pieces), pieces, key=lambda often: reached(states, often)) if pieces > 1 else 0


def forwards(pieces: int, states: int) -> int:
    """The fewest pieces that have to be run forward, each time counted, to go backward through so many."""
    often = times(pieces, states)
    return often * pieces - reached(states + 1, often - 1) if often else 0


def first_of(pieces: int, states: int) -> int:
    """How many of several pieces to run forward before a state is kept."""
    often = times(pieces, states)
    return min(reached(states, often - 1), pieces - reached(states - 1, often - 1))


def graph_of_tick(cell: str, size: int, below: int, rows: int, together: int = 1, width: int = 4) -> float:
    """Bytes that autograd keeps of a tick of all rows, `together` of which are one segment in torch's own operation. below:
    numbers of an input."""
    inside, alone, objects_inside, objects = _KEPT[cell]
    vector, input_ = width * rows * size, width * rows * below
    if together == 1:
        return _in_heap(vector) * (vector * alone + input_) + objects
    if cell == "lstm":  # one block, and one node, for all
        return vector * inside + input_ + (objects + objects_inside) / together
    return _in_heap(vector) * vector * inside + input_ + objects_inside


def _in_heap(size: int) -> float:
    """What blocks take, of what they should: small ones, between others that come and go, leave holes."""
    return 1.42 if size < 2**17 else 1


def costs_of_levels(
    hidden_sizes: Sequence[int],
    periods: Sequence[int],
    batch: int,
    *,
    cells: Sequence[str],
    inputs: int,
    decoder_units: Sequence[int],
    outputs: int,
    shown: int,
    tokens: bool,
    pieces: bool = True,
    width: int = 4,
) -> Costs:
    """Of built-in cells that tick together. outputs: numbers that the loss makes of a step and row. shown: numbers of the
    hierarchy's output. pieces: is there more than one?"""
    sizes, ticks = [inputs, *hidden_sizes, 0], 1.0
    step = width * batch * (2.0 * shown + (0 if periods else DIFFERENTIATED * hidden_sizes[0])) + 8 * batch
    weights, decoded, state = 0, 0, 33 * batch * len(periods)
    for level, (size, cell) in enumerate(zip(hidden_sizes, cells, strict=True)):
        together = 1 if level else periods[0] if periods else _UNROLLED
        step += ticks * graph_of_tick(cell, size, sizes[level], batch, together, width)
        weights += cell_numbers(cell, sizes[level], sizes[level + 2], size)
        state += width * batch * size * CELLS[cell][1]
        if level < len(periods):
            state += periods[level] * batch * (8 if tokens and level == 0 else width * sizes[level])
            decoded += decoder_units[level] * (size + sizes[level] + periods[level])
            ticks /= periods[level]
    loss = width * batch * shown_at_once(batch, shown) * (shown + 3 * outputs)
    # The decoders' gradients; then the loss, or, later, the weights' gradients and a segment's; of further pieces what is there
    # already, gradients that autograd adds up, and holes that the pieces before have left.
    space = width * (1.5 * weights + batch * hidden_sizes[0] * DIFFERENTIATED * (periods[0] if periods else 0))
    fixed = width * decoded + max(loss, space) + OVERHEAD
    return Costs(int(fixed + 4 * width * weights), state, int(1.15 * step)) if pieces else Costs(int(fixed), state, int(step))
