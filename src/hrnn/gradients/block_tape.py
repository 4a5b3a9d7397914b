"""The ticks of a built-in cell, all rows together, in buffers that are used again and again."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, CellState
from hrnn.cells.block import Block, first_rows
from hrnn.cells.native import NativeWeights
from hrnn.room import BACKWARD_TICKS
from hrnn.segments import Moment, Starts, Ticks
from hrnn.walk import Level


class BlockTape(Level):
    """A level's ticks since it was last differentiated.

    A level below the top needs one block of `slots` = its period, where a tick's slot is its place in the segment. The lowest
    may run several segments, the block's columns, before they are differentiated together: `group`, called when it starts a
    segment and none is left of the last group, gives their inputs (columns, slots, rows, ...), or None for one segment as it
    comes. The top, whose segment is the window, gets further blocks as it goes, and runs each of its slots but once. `ended`
    is called when a segment ends.
    """

    def __init__(
        self,
        level: int,
        cell: BuiltinCell,
        rows: int,
        period: int | None,
        ended: Callable[[BlockTape, Moment], None],
        columns: int = 1,
        group: Callable[[], Tensor | None] = lambda: None,
    ):
        self.level, self.cell, self.rows, self.ended, self.group = level, cell, rows, ended, group
        self.top, self.slots = period is None, period or BACKWARD_TICKS
        self.weights = NativeWeights(cell)
        self.buffers = cell.zero_gradients()
        self.blocks: list[Block] = []
        self.d_hidden: list[Tensor] = []  # (slots, columns * rows, hidden): what reaches a block's hidden states from outside
        self.begin = self.stop = 0  # ticks of each column that have not been differentiated
        self.column = 0  # the segment of the group that runs now
        self.fresh = False  # does a segment start with the first of them?
        self.reached = False  # has a gradient reached one of them?
        self._most = columns
        self._context: Tensor | None = None
        self._entered = False  # are the inputs of the group in the buffers?
        self._grow()
        self._whole_d_hidden = self.d_hidden[0]
        self._lay_out(1)

    def _grow(self) -> None:
        self.blocks.append(Block(self.cell, self.slots, self.rows, self._most))
        self.d_hidden.append(self.cell.weight_hidden.new_empty(self.slots, self.rows * self._most, self.cell.hidden_size))

    def _lay_out(self, columns: int) -> None:
        """Cut the buffers of the first block for a group of so many segments."""
        self.blocks[0].lay_out(columns)
        places = columns * self.rows
        if self.d_hidden[0].shape[1] != places:
            self.d_hidden[0] = first_rows(self._whole_d_hidden, places)

    @property
    def columns(self) -> int:
        """Segments of the group that is under way."""
        return self.blocks[0].columns

    @property
    def waits(self) -> bool:
        """Are there segments of the group to come?"""
        return self.column < self.columns - 1

    def resume(self, place: int, state: CellState, history: Tensor | None) -> None:
        """Before a window: in a segment, after `place` ticks of it, with the inputs of these."""
        self.begin = self.stop = place
        self.blocks[0].set_state(place, state)
        if history is not None:
            self.blocks[0].inputs[:place].copy_(history[:place])

    @property
    def state(self) -> CellState:
        """The level's state now: a view of the buffers."""
        block, slot = self._now()
        return self.blocks[block].state(slot, self.column)

    @property
    def hidden(self) -> Tensor:
        return self.state[0]

    def last(self, count: int) -> Tensor:
        """The hidden states (count, rows, hidden) after the last ticks, or, of one, before the first: a copy."""
        if count == 1:
            return self.hidden[None].clone()
        ticks = range(self.stop - count, self.stop)
        return torch.stack([self.blocks[tick // self.slots].states[0][tick % self.slots + 1] for tick in ticks])

    @property
    def summaries(self) -> Tensor:
        """The hidden states (columns * rows, hidden) that the segments end with."""
        return self.blocks[0].states[0][self.stop]

    def _now(self) -> tuple[int, int]:
        """The block of the last tick, and the slot behind it."""
        if not self.stop:
            return 0, 0
        block, slot = divmod(self.stop - 1, self.slots)
        return block, slot + 1

    def start(self, starts: Starts, context: Tensor | None) -> None:
        block = self.blocks[0]
        if self.waits:
            self.column += 1
        else:
            inputs = self.group()
            self._lay_out(1 if inputs is None else len(inputs))
            self.column, self._entered = 0, inputs is not None
            if inputs is not None:
                shape = (self.slots, len(inputs), self.rows, *inputs.shape[3:])
                block.inputs.view(shape).copy_(inputs.transpose(0, 1))
        self.begin = self.stop = 0
        self.fresh, self.reached, self._context = True, False, context
        block.set_state(0, None, self.column)

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        """As many ticks as a block has left, at most. What reaches them from outside is zero, but at level 0: see `receive`."""
        assert inputs is not None
        index, slot = divmod(self.stop, self.slots)
        if index == len(self.blocks):
            self._grow()
        block, count = self.blocks[index], len(inputs)
        if index and slot == 0:
            block.set_state(0, self.blocks[index - 1].state(self.slots))
        if not self._entered:
            block.inputs[slot : slot + count].copy_(inputs)
        fresh = self.fresh and self.stop == self.begin
        block.run(self.weights, slot, slot + count, fresh, self._context if fresh else None, self.column)
        self.stop += count
        if self.level:
            self.d_hidden[index][slot : slot + count].zero_()
        return block.states[0][slot + 1 : slot + count + 1, self.column * self.rows : (self.column + 1) * self.rows]

    def end(self, moment: Moment) -> None:
        self.ended(self, moment)

    def output(self) -> Tensor:
        """The hidden states of a complete group in the order of time, (columns * slots, rows, hidden): a copy."""
        states = self.blocks[0].states[0][1:].view(self.slots, self.columns, self.rows, -1)
        return states.transpose(0, 1).reshape(-1, self.rows, self.cell.hidden_size)

    def receive(self, gradient: Tensor | None, count: int) -> None:
        """The gradient (steps, rows, hidden) of the hidden states after the last `count` ticks, or of all of a complete group;
        None: zero."""
        index, stop = divmod(self.stop - 1, self.slots)
        d_hidden = self.d_hidden[index][stop + 1 - count : stop + 1]
        if gradient is None:
            d_hidden.zero_()
            return
        shape = (self.columns, count, self.rows, -1)
        d_hidden.view(count, self.columns, self.rows, -1).copy_(gradient.view(shape).transpose(0, 1))
        self.reached = True

    def add_to_summaries(self, gradient: Tensor) -> None:
        """Add to the gradient (columns * rows, hidden) of the summaries."""
        self.d_hidden[0][self.stop - 1].add_(gradient)
        self.reached = True

    def add_to_contexts(self, gradient: Tensor) -> None:
        """Add to the gradient (n, rows, hidden) of the hidden states after the last n ticks, which were contexts below."""
        first = self.stop - len(gradient)
        for block in range(first // self.slots, (self.stop - 1) // self.slots + 1):
            start = block * self.slots
            part = gradient[max(0, start - first) : start + self.slots - first]
            at = max(first - start, 0)
            self.d_hidden[block][at : at + len(part)].add_(part)
        self.reached = True

    def backward(self, d_inputs: Tensor | None = None) -> Tensor | None:
        """Differentiate all ticks; the gradient (columns * rows, context) of the contexts, if any entered. d_inputs (columns *
        ticks, rows, ...), in the order of time, is filled."""
        places = self.columns * self.rows
        carry = [part.new_zeros(places, self.cell.hidden_size) for part in self.blocks[0].states]
        for index in range((self.stop - 1) // self.slots, -1, -1):
            start = self.begin if index == 0 else 0
            stop = min(self.stop - index * self.slots, self.slots)
            part = None
            if d_inputs is not None:
                offset = index * self.slots + start - self.begin
                part = d_inputs[offset : offset + stop - start]
                if self.columns > 1:
                    part = torch.empty_like(d_inputs).view(stop - start, places, -1)
            self.blocks[index].backward(
                self.weights, self.buffers, start, stop, self.d_hidden[index], carry,
                fresh=self.fresh and index == 0, d_inputs=part,
            )  # fmt: skip
            if d_inputs is not None and part is not None and self.columns > 1:
                in_order = part.view(self.slots, self.columns, self.rows, -1).transpose(0, 1)
                d_inputs.view(self.columns, self.slots, self.rows, -1).copy_(in_order)
        return carry[0] if self.fresh and self.blocks[0].contexts else None

    @property
    def inputs(self) -> Tensor:
        """Those (slots, rows, ...) of the segment that runs now."""
        return self.blocks[0].inputs[:, self.column * self.rows : (self.column + 1) * self.rows]

    def forget(self) -> None:
        """All ticks have been differentiated; the state stays readable, it is the summary."""
        self.begin, self.reached = self.stop, False

    def gradients(self) -> dict[Tensor, Tensor]:
        """What has been gathered for the cell's parameters."""
        return self.cell.gradients(self.buffers)

    def moved(self) -> None:
        """The parameters have moved."""
        self.weights.again()
        for buffer in self.buffers.values():
            buffer.zero_()
