"""Consecutive ticks of a built-in cell in C, all rows together: run forward into buffers, then differentiated from them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import native
from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState
from hrnn.room import BACKWARD_TICKS


class Block:
    """Buffers for up to `ticks` ticks of `rows` rows, in up to `columns` segments side by side: they run through the same slots
    one after the other, each in rows of its own, and are differentiated together. Slot t of a state is that *before* tick t."""

    def __init__(self, cell: BuiltinCell, ticks: int, rows: int, columns: int = 1):
        self.cell, self.rows, self.columns = cell, rows, columns
        size, places = cell.hidden_size, rows * columns
        new = cell.weight_hidden.new_empty
        self.gates = new(ticks, places, cell.gate_blocks * size)
        self.states = tuple(new(ticks + 1, places, size) for _ in range(cell.state_parts))
        kind = torch.int64 if cell.tokens else cell.weight_hidden.dtype
        self.inputs = new((ticks, places) if cell.tokens else (ticks, places, cell.input_size), dtype=kind)
        self.contexts: list[Tensor] = []
        self._whole = self.gates, self.states, self.inputs
        self._native = native.Buffers(cell, self.gates, self.states, self.inputs)

    def lay_out(self, columns: int) -> None:
        """Cut the buffers for so many segments, whose ticks are still to come."""
        self.contexts = []
        if columns != self.columns:
            self.columns, places = columns, self.rows * columns
            gates, states, inputs = self._whole
            self.gates, self.inputs = first_rows(gates, places), first_rows(inputs, places)
            self.states = tuple(first_rows(part, places) for part in states)
            self._native = native.Buffers(self.cell, self.gates, self.states, self.inputs)

    def set_state(self, slot: int, state: CellState | None, column: int = 0) -> None:
        """Write the state before tick `slot`; None is zero."""
        for index, part in enumerate(self.state(slot, column)):
            if state is None:
                part.zero_()
            else:
                part.copy_(state[index])

    def state(self, slot: int, column: int = 0) -> CellState:
        """The state before tick `slot`, a view of the buffers."""
        at: Any = slot if self.columns == 1 else (slot, slice(column * self.rows, (column + 1) * self.rows))
        return tuple(part[at] for part in self.states)

    def run(self, weights: Any, start: int, stop: int, fresh: bool, context: Tensor | None = None, column: int = 0) -> None:
        """Ticks start to stop of one column. `fresh`: the state before the first is zero, so there is no recurrent product;
        then `context` (rows, context_size) may enter."""
        if fresh and context is not None:
            context = context.contiguous()
            self.contexts.append(context)
        self._native.forward(weights, start, stop, column * self.rows, self.rows, fresh, context)

    def backward(
        self,
        weights: Any,
        buffers: dict[str, Tensor],
        start: int,
        stop: int,
        d_hidden: Tensor,
        carry: list[Tensor],
        *,
        fresh: bool,
        d_inputs: Tensor | None = None,
    ) -> None:
        """Differentiate ticks start to stop of all columns, whose rows stand side by side: `places` of them. Their gates are
        used up: the gradients of a tick's gates take their place.

        d_hidden (slots, places, hidden): the gradient of the hidden state after each tick, from outside; overwritten.
        carry: the gradient of the whole state after the last tick; becomes that of the state before the first, or, where
        that is `fresh`, its first entry that of the contexts.
        d_inputs (stop - start, places, input_size), contiguous, is filled if given.
        """
        cell, places = self.cell, self.gates.shape[1]
        for last in range(stop, start, -BACKWARD_TICKS):
            first = max(start, last - BACKWARD_TICKS)
            out, d_h = self.gates[first:last], d_hidden[first:last]
            hidden = self.states[0][first:last].flatten(0, 1)
            d_h[-1].add_(carry[0])
            starts = fresh and first == start
            self._native.sweep(weights, first, last, d_h, carry, out, starts)
            flat = out.flatten(0, 1)
            cell.add_gradients(buffers, flat, self.inputs[first:last].flatten(0, 1), None if starts else hidden)
            if starts:  # zero before the first tick: no product with it
                if last - first > 1:
                    cell.add_hidden_gradients(buffers, flat[places:], hidden[places:])
                if self.contexts:
                    context = self.contexts[0] if len(self.contexts) == 1 else torch.cat(self.contexts)
                    cell.add_context_gradients(buffers, out[0], context)
                    carry[0] = torch.mm(out[0][:, cell.input_columns], weights.back_context)
            if d_inputs is not None:
                d_flat = d_inputs[first - start : last - start].view(-1, cell.input_size)  # never a copy
                torch.mm(flat[:, cell.input_columns], weights.back_input, out=d_flat)


def first_rows(buffer: Tensor, rows: int) -> Tensor:
    """A buffer (slots, more rows, ...) cut for fewer rows, without gaps."""
    shape = (buffer.shape[0], rows, *buffer.shape[2:])
    return buffer.view(-1)[: math.prod(shape)].view(shape)
