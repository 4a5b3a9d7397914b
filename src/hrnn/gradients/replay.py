"""Segments run again while the level above them runs backward, where all rows tick together: `Restricted(replay=p)`.

Everything but the upward edges is done as ever (`in_phase.py`): losses are computed once, and every segment is differentiated
when it ends. What is added here is linear in that: the gradient that a level's tick finds for the summary it has read goes back
into the segment below, for the rows that are drawn. The segment runs again, without losses, and is differentiated with that
gradient alone; what it returns for its context joins the level's backward pass before the tick that sent it is differentiated.

A *stretch* is a level's ticks in one segment, as far as they are in the window. Below each of its ticks lies a stretch of the
level below, and, if it begins with the window and not with a tick of its own, one more before the first. The first tick of a
stretch reads the summary of a segment that lies in an earlier stretch: that gradient is handed on, back in time, until the
backward pass of a higher level comes to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hrnn.cells.block import Block, block_of, first_rows, workspace
from hrnn.gradients.block_tape import BlockTape
from hrnn.gradients.edges import Edges
from hrnn.gradients.positions import Positions
from hrnn.gradients.window import Chunk, InputGradient, Window

_DRAWN = 64  # segments of each row that are drawn at once

Upward = list[Tensor | None]  # gradients of the summaries of levels 0, 1, ...; None: zero


@dataclass
class Tick:
    """What has to be known of a level's tick, to run again what is below it."""

    step: int
    below: list[Tensor]  # hidden states before it of the levels that are two and more below
    pending: Upward  # what the stretch below it has found for summaries before it, of the same levels


@dataclass
class Stretch:
    """A level's ticks, ready to be differentiated one by one.

    rows:  (n,) of the window, None: all
    fresh: does it begin with a segment? Otherwise with the window
    """

    level: int
    start: int
    stop: int
    fresh: bool
    rows: Tensor | None
    blocks: Sequence[Block]
    d_hidden: Sequence[Tensor]
    begin: int = 0  # the slot of the first tick
    ticks: list[Tick] = field(default_factory=list)

    def place(self, tick: int) -> tuple[int, int]:
        return divmod(self.begin + tick, self.blocks[0].gates.shape[0])

    def hidden(self, tick: int) -> Tensor:
        """The hidden state (n, hidden) after a tick."""
        block, slot = self.place(tick)
        return self.blocks[block].states[0][slot + 1]


class Replay:
    """One window's segments that run again. `attach` tells it what runs for the first time."""

    def __init__(self, window: Window, edges: Edges, positions: Positions):
        self.window, self.edges, self.positions = window, edges, positions
        state, periods = window.state, [period for period in window.model.periods if isinstance(period, int)]
        self.state, self.top = state, len(periods)
        self.size = [math.prod(periods[:level]) for level in range(self.top + 1)]  # steps of a tick
        self.first = [0]  # the step of each level's first tick in the window
        for level, period in enumerate(periods):
            left = -int(state.clock.position[0, level]) % period
            self.first.append(self.first[level] + left * self.size[level])
        self.ticks: list[list[Tick]] = [[] for _ in self.size]
        self._drawn: dict[int, tuple[int, Tensor]] = {}

    def attach(self, tapes: Sequence[BlockTape], d_x: InputGradient) -> None:
        """The tapes of the window's levels, and where the gradient of its inputs goes."""
        self.tapes, self.d_x = tapes, d_x
        self._again: dict[int, tuple[Block, Tensor]] = {}  # of each level, for one stretch at a time: ticks, and d_hidden

    def chunks(self) -> Iterator[Chunk]:
        """The window; it has been gone through once."""
        return self.positions.chunks(0, self.positions.steps)

    def ticked(self, level: int, step: int) -> None:
        """A level above the lowest is about to tick."""
        below = [tape.hidden.clone() for tape in self.tapes[: level - 1]]
        self.ticks[level].append(Tick(step, below, [None] * (level - 1)))

    def backward(self, tape: BlockTape, stop: int) -> Tensor | None:
        """Differentiate the ticks of a level above the lowest, which all lie before step `stop`: the gradient of its context,
        if one entered."""
        level = tape.level
        stretch = Stretch(level, 0, stop, tape.fresh, None, tape.blocks, tape.d_hidden, tape.begin, self.ticks[level])
        carry = [part.new_zeros(tape.rows, tape.cell.hidden_size) for part in tape.blocks[0].states]
        d_context, before = self._sweep(stretch, carry, [None] * level)
        if before is not None and level < self.top:
            self.ticks[level + 1][-1].pending = before
        return d_context

    def forget(self, level: int) -> None:
        """A level's ticks have been differentiated."""
        self.ticks[level] = []

    def _sweep(self, stretch: Stretch, carry: list[Tensor], after: Upward) -> tuple[Tensor | None, Upward | None]:
        """Differentiate a stretch, from its last tick to its first, with all that lies below.

        carry: the gradient of the state after it. after: that of the summaries of the levels below, as they are at its end.
        The gradient of its context, and of the summaries before its first tick; None if it begins with the window."""
        level, stop = stretch.level, stretch.stop
        tape = self.tapes[level]
        space = None if stretch.blocks[0].in_place else workspace(tape.cell, 1, len(carry[0]))
        for number in range(len(stretch.ticks) - 1, -1, -1):
            tick, (block, slot) = stretch.ticks[number], stretch.place(number)
            d_context, before = self._below(level - 1, tick.step, stop, stretch, after, stretch.hidden(number), tick.below)
            if d_context is not None:
                stretch.d_hidden[block][slot].add_(d_context)
            d_input = carry[0].new_empty(1, len(carry[0]), tape.cell.input_size)
            stretch.blocks[block].backward(
                tape.weights, tape.buffers, slot, slot + 1, stretch.d_hidden[block], carry, space,
                fresh=stretch.fresh and number == 0, d_inputs=d_input,
            )  # fmt: skip
            weights = self._weights(level - 1, tick.step)
            d_summary = d_input[0] * (weights if stretch.rows is None else weights[stretch.rows])[:, None]
            after = [*(_sum(a, b) for a, b in zip(before, tick.pending, strict=True)), d_summary]
            stop = tick.step
        if stretch.fresh:
            return carry[0], after
        if stop > 0:
            self._below(level - 1, 0, stop, stretch, after, None, [])
        return None, None

    def _weights(self, level: int, step: int) -> Tensor:
        """What the summaries (batch,) count for that a level has at a step where the level above ticks."""
        number = (step - self.first[level + 1]) // self.size[level + 1]  # of the segment behind it, in the window
        start, drawn = self._drawn.get(level, (0, None))
        if drawn is None or not start <= number < start + _DRAWN:
            start = number - number % _DRAWN
            begun = torch.arange(start, start + _DRAWN, device=self.state.row.device)[:, None]
            ordinal = self.state.clock.ordinal[:, level] + begun - 1
            drawn = self.edges.weights(level, self.state.row, ordinal)
            self._drawn[level] = start, drawn
        return drawn[number - start]

    def _below(
        self, level: int, start: int, stop: int, above: Stretch, after: Upward, context: Tensor | None, below: list[Tensor]
    ) -> tuple[Tensor | None, Upward]:
        """Run a stretch of a level again, from `start` to `stop`, for those rows of `above` that a gradient `after` it, of its
        own summary or of those below, has reached. The gradients of its context and of summaries before it, for all rows."""
        reached = [(gradient != 0).any(1) for gradient in after if gradient is not None]
        none: Upward = [None] * level
        if not reached:
            return None, none
        rows, count = above.rows, len(reached[0])
        which = torch.stack(reached).any(0).nonzero()[:, 0]
        if not len(which):
            return None, none
        if len(which) < count:
            after = [_rows(gradient, which) for gradient in after]
            below = [hidden[which] for hidden in below]
            context = _rows(context, which)
            rows = which if rows is None else rows[which]
        stretch, _ = self._forward(level, start, stop, rows, context, below, kept=True)
        d_context, before = self._differentiate(stretch, after)
        if before is None:
            return None, none
        if len(which) < count:
            return _spread(d_context, which, count), [_spread(gradient, which, count) for gradient in before]
        return d_context, before

    def _differentiate(self, stretch: Stretch, after: Upward) -> tuple[Tensor | None, Upward | None]:
        """As `_sweep`, of a stretch that has run again, with nothing but the gradients that come to its end."""
        tape, block, own = self.tapes[stretch.level], stretch.blocks[0], after[-1]
        carry = [part.new_zeros(part.shape[1:]) for part in block.states]
        if own is not None:
            carry[0] = own
        if stretch.level:
            return self._sweep(stretch, carry, after[:-1])
        count, places = stretch.stop - stretch.start, block.rows
        d_x = self.d_x.steps(stretch.start, stretch.stop)
        d_inputs = None if d_x is None else carry[0].new_empty(count, places, tape.cell.input_size)
        space = None if block.in_place else workspace(tape.cell, count, places)
        block.backward(
            tape.weights, tape.buffers, 0, count, stretch.d_hidden[0], carry, space, fresh=stretch.fresh, d_inputs=d_inputs
        )
        if d_x is not None and d_inputs is not None:
            rows = self.window.state.row.new_tensor(range(places)) if stretch.rows is None else stretch.rows
            d_x.index_add_(1, rows, d_inputs)
        return (carry[0], []) if stretch.fresh else (None, None)

    def _forward(
        self,
        level: int,
        start: int,
        stop: int,
        rows: Tensor | None,
        context: Tensor | None,
        below: list[Tensor],
        kept: bool = False,
    ) -> tuple[Stretch, list[Tensor]]:
        """Run a stretch of a level, and all below, again. context: what it starts from, None: it begins with the window; below:
        the hidden states before it of all lower levels. Also returns those after it, its own included: views, until these
        levels run the next time. `kept`: it is to be differentiated."""
        weights, fresh = self.tapes[level].weights, context is not None
        steps = range(start, stop) if level == 0 else self._steps(level, start, stop)
        block, d_hidden = self._buffers(level, self.state.batch if rows is None else len(rows), kept)
        block.set_state(0, None if fresh else self._carried(level, rows))
        stretch = Stretch(level, start, stop, fresh, rows, [block], [d_hidden])
        if level == 0:
            block.inputs[: len(steps)].copy_(self._inputs(start, stop, rows))
            block.enter(weights, 0, len(steps))
            block.run(weights, 0, len(steps), fresh, context)
            return stretch, [block.states[0][len(steps)]]
        if not fresh:
            until = steps[0] if len(steps) else stop
            below = [self._carried(i, rows)[0] for i in range(level)]
            if until > 0:
                _, below = self._forward(level - 1, 0, until, rows, None, [])
        for slot, step in enumerate(steps):
            block.inputs[slot].copy_(below[-1])
            block.enter(weights, slot, slot + 1)
            block.run(weights, slot, slot + 1, fresh and slot == 0, context if slot == 0 else None)
            if kept:
                stretch.ticks.append(Tick(step, [hidden.clone() for hidden in below[:-1]], [None] * (level - 1)))
            following = steps[slot + 1] if slot + 1 < len(steps) else stop
            _, below = self._forward(level - 1, step, following, rows, stretch.hidden(slot), below[:-1])
        return stretch, [*below, block.states[0][len(steps)]]

    def _buffers(self, level: int, rows: int, kept: bool) -> tuple[Block, Tensor]:
        """Room for a stretch of so many rows. There is never more than one of a level: the next one takes its place."""
        tape = self.tapes[level]
        if level not in self._again:
            block = block_of(tape.cell)(tape.cell, tape.slots, 1, columns=self.state.batch)
            self._again[level] = block, torch.empty_like(block.states[0][1:])
        block, d_hidden = self._again[level]
        block.cut(rows)
        d_hidden = first_rows(d_hidden, rows)
        return block, d_hidden.zero_() if kept else d_hidden

    def _steps(self, level: int, start: int, stop: int) -> range:
        """Where a level ticks."""
        size = self.size[level]
        return range(start + (self.first[level] - start) % size, stop, size)

    def _carried(self, level: int, rows: Tensor | None) -> tuple[Tensor, ...]:
        """A level's state before the window."""
        return tuple(part if rows is None else part[rows] for part in self.state.cells[level])

    def _inputs(self, start: int, stop: int, rows: Tensor | None) -> Tensor:
        parts = [chunk.x.detach() for chunk in self.positions.chunks(start, stop)]
        x = parts[0] if len(parts) == 1 else torch.cat(parts)
        return x if rows is None else x[:, rows]


def _rows(part: Tensor | None, which: Tensor) -> Tensor | None:
    return None if part is None else part[which]


def _spread(part: Tensor | None, which: Tensor, count: int) -> Tensor | None:
    """The rows of `part` (n, size) among `count` rows, zero elsewhere."""
    return None if part is None else part.new_zeros(count, part.shape[1]).index_copy_(0, which, part)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b
