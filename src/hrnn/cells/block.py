"""Consecutive ticks of a built-in cell, all rows together: run forward into buffers, then differentiated from them.

`Block` is what both gradient methods are made of. `Restricted` keeps a few and reuses their buffers from segment to segment;
`unroll` makes one for each piece of a sequence and lets autograd call its backward. Ticks run in torch, or, in a `NativeBlock`,
in C: `block_of` and `prepared` choose, the same for a cell as long as it is not moved to another device or dtype.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hrnn.cells import native
from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState, Prepared
from hrnn.precision import Wide
from hrnn.room import BACKWARD_TICKS as BACKWARD_TICKS


class Block:
    """Buffers for up to `ticks` ticks of `rows` rows, in up to `columns` segments side by side: they run through the same slots
    one after the other, each in rows of its own, and are differentiated together.

    Slot t of a state is the state *before* tick t. `reused`: the same slots are run again and again, so that the views of them
    are worth keeping; a tick's take about 7 kB.
    """

    in_place = False  # can gates give their room to their gradients? Then no scratch is kept, either

    def __init__(
        self,
        cell: BuiltinCell,
        ticks: int,
        rows: int,
        inputs: Tensor | None = None,
        columns: int = 1,
        reused: bool = False,
    ):
        self.cell, self.rows, self.columns = cell, rows, columns
        size, places = cell.hidden_size, rows * columns
        new = cell.weight_hidden.new_empty
        self.gates = new(ticks, places, cell.gate_blocks * size)
        self.states = tuple(new(ticks + 1, places, size) for _ in range(cell.state_parts))
        parts = 0 if self.in_place else cell.scratch_parts
        self.scratch = tuple(new(ticks, places, size) for _ in range(parts))
        if inputs is None:
            kind = torch.int64 if cell.tokens else cell.weight_hidden.dtype
            inputs = new((ticks, places) if cell.tokens else (ticks, places, cell.input_size), dtype=kind)
        self.inputs = inputs
        self.contexts: list[Tensor] = []
        self._whole = self.gates, self.states, self.scratch, self.inputs
        self._reused = reused
        self._cuts: dict[tuple[int, int, int], tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]] = {}
        self._laid_out()

    def lay_out(self, columns: int) -> None:
        """Cut the buffers for so many segments, whose ticks are still to come."""
        self.contexts = []
        if columns != self.columns:
            self.columns, places = columns, self.rows * columns
            gates, states, scratch, inputs = self._whole
            self.gates, self.inputs = first_rows(gates, places), first_rows(inputs, places)
            self.states, self.scratch = (tuple(first_rows(part, places) for part in parts) for parts in (states, scratch))
            self._laid_out()

    def _laid_out(self) -> None:
        """The buffers have been cut."""

    def set_state(self, slot: int, state: CellState | None, column: int = 0) -> None:
        """Write the state before tick `slot`; None is zero."""
        for index, part in enumerate(self.state(slot, column)):
            if state is None:
                part.zero_()
            else:
                part.copy_(state[index])

    def state(self, slot: int, column: int = 0) -> CellState:
        """The state before tick `slot`, a view of the buffers."""
        at = self._at(slot, column)
        return tuple(part[at] for part in self.states)

    def _at(self, slot: int, column: int) -> Any:
        """Where in the buffers a column's tick is."""
        return slot if self.columns == 1 else (slot, slice(column * self.rows, (column + 1) * self.rows))

    def enter(self, weights: Any, start: int, stop: int) -> None:
        """The inputs of ticks start to stop are known, those of all columns."""
        self.cell.enter(weights, self.inputs[start:stop].flatten(0, 1), self.gates[start:stop].flatten(0, 1))

    def run(self, weights: Any, start: int, stop: int, fresh: bool, context: Tensor | None = None, column: int = 0) -> None:
        """Ticks start to stop of one column, which have been entered. `fresh`: the state before the first is zero, so there is
        no recurrent product; then `context` (rows, context_size) may enter."""
        for slot in range(start, stop):
            cut = self._cuts.get((slot, column, self.columns)) if self._reused else None
            if cut is None:
                cut = self._cut(slot, column)
                if self._reused:
                    self._cuts[slot, column, self.columns] = cut
            entering, recurrent, before, views = cut
            if slot > start or not fresh:
                recurrent.addmm_(before, weights.hidden)
            elif context is not None:
                entering.addmm_(context, weights.context)
            self.cell.activate(views)
        if fresh and context is not None:
            self.contexts.append(context)

    def _cut(self, slot: int, column: int) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        cell, at = self.cell, self._at(slot, column)
        gates, before, after = self.gates[at], self.state(slot, column), self.state(slot + 1, column)
        views = cell.views(gates, before, after, tuple(part[at] for part in self.scratch))
        return gates[:, cell.input_columns], gates[:, cell.hidden_columns], before[0], views

    def backward(
        self,
        weights: Any,
        buffers: dict[str, Tensor],
        start: int,
        stop: int,
        d_hidden: Tensor,
        carry: list[Tensor],
        workspace: Tensor | None,
        *,
        fresh: bool,
        d_inputs: Tensor | None = None,
        cache: dict[tuple[int, int, int], Any] | None = None,
    ) -> None:
        """Differentiate ticks start to stop of all columns, whose rows stand side by side: `places` of them.

        d_hidden (slots, places, hidden): the gradient of the hidden state after each tick, from outside; overwritten.
        carry: the gradient of the whole state after the last tick; becomes that of the state before the first, or, where
        that is `fresh`, its first entry that of the contexts.
        workspace: (at least min(stop - start, BACKWARD_TICKS), places, gates); None, if `in_place`: gates are used up.
        d_inputs (stop - start, places, input_size), contiguous, is filled if given. cache: kept from call to call if d_hidden
        and workspace are always the same.
        """
        cell, places = self.cell, self.gates.shape[1]
        for last in range(stop, start, -BACKWARD_TICKS):
            first = max(start, last - BACKWARD_TICKS)
            out = self.gates[first:last] if workspace is None else workspace[: last - first]
            d_h = d_hidden[first:last]
            hidden = self.states[0][first:last].flatten(0, 1)
            d_h[-1].add_(carry[0])
            starts = fresh and first == start
            self._sweep(weights, first, last, d_h, carry, out, starts, cache)
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

    def _sweep(
        self, weights: Any, first: int, last: int, d_hidden: Tensor, carry: list[Tensor], out: Tensor, starts: bool, cache: Any
    ) -> None:
        """Backward through ticks: out (ticks, places, gates) gets the gradients of the gates' inputs, carry that of the state
        before the first; of its hidden state only if that is not zero because a segment `starts`."""
        cell, places = self.cell, self.gates.shape[1]
        views = None if cache is None else cache.get((first, last, places))
        if views is None:
            before = tuple(part[first:last] for part in self.states)
            scratch = tuple(part[first:last] for part in self.scratch)
            views = cell.backward_views(self.gates[first:last], before, scratch, out, d_hidden)
            if cache is not None:
                cache[first, last, places] = views
        cell.coefficients(views)
        cell.sweep(views, weights.back_hidden, tuple(carry[1:]), None)
        if not starts:
            carry[0] = cell.carry_hidden(views, weights.back_hidden)


def first_rows(buffer: Tensor, rows: int) -> Tensor:
    """A buffer (slots, more rows, ...) cut for fewer rows, without gaps."""
    shape = (buffer.shape[0], rows, *buffer.shape[2:])
    return buffer.view(-1)[: math.prod(shape)].view(shape)


def workspace(cell: BuiltinCell, ticks: int, rows: int) -> Tensor:
    """Room for `Block.backward` over up to `ticks` ticks."""
    return cell.weight_hidden.new_empty(min(ticks, BACKWARD_TICKS), rows, cell.gate_blocks * cell.hidden_size)


class NativeBlock(Block):
    """The same in C. Inputs are entered tick by tick, on the way forward."""

    in_place = True

    def _laid_out(self) -> None:
        self._native = native.Buffers(self.cell, self.gates, self.states, self.inputs)

    def enter(self, weights: Any, start: int, stop: int) -> None:
        """Nothing to do yet."""

    def run(self, weights: Any, start: int, stop: int, fresh: bool, context: Tensor | None = None, column: int = 0) -> None:
        if fresh and context is not None:
            context = context.contiguous()
            self.contexts.append(context)
        self._native.forward(weights, start, stop, column * self.rows, self.rows, fresh, context)

    def _sweep(
        self, weights: Any, first: int, last: int, d_hidden: Tensor, carry: list[Tensor], out: Tensor, starts: bool, cache: Any
    ) -> None:
        self._native.sweep(weights, first, last, d_hidden, carry, out, starts)


def block_of(cell: BuiltinCell) -> type[Block]:
    """What runs the cell's ticks."""
    return NativeBlock if native.serves(cell) else Block


def prepared(cell: BuiltinCell) -> Prepared:
    """The weights that these blocks read, to be made again when the parameters have changed."""
    return native.NativeWeights(cell) if native.serves(cell) else cell.prepare()


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: BuiltinCell,
        weights: Any,
        fresh: bool,
        inputs: Tensor,
        context: Tensor | None,
        *rest: Tensor,
    ) -> Any:
        state = rest[: cell.state_parts]
        block = block_of(cell)(cell, inputs.shape[0], inputs.shape[1], inputs.detach().resolve_neg().contiguous())
        block.set_state(0, None if fresh else state)
        block.enter(weights, 0, inputs.shape[0])
        block.run(weights, 0, inputs.shape[0], fresh, None if context is None else context.detach())
        ctx.block, ctx.weights, ctx.fresh = block, weights, fresh
        output, after = block.states[0][1:], block.state(inputs.shape[0])
        ctx.save_for_backward(inputs, context, *rest[cell.state_parts :], output, *after)  # which is the tape itself
        return output, *after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, *d_state: Tensor) -> Any:
        block, cell, weights, fresh = ctx.block, ctx.block.cell, ctx.weights, ctx.fresh
        _ = ctx.saved_tensors  # raises if one of them was modified in place since
        ticks, rows, _ = block.gates.shape
        d_output, *carry = (part.clone(memory_format=torch.contiguous_format) for part in (d_output, *d_state))
        buffers = cell.zero_gradients()
        wants = ctx.needs_input_grad
        d_inputs = torch.empty_like(block.inputs, memory_format=torch.contiguous_format) if wants[3] else None
        space = workspace(cell, ticks, rows)
        block.backward(weights, buffers, 0, ticks, d_output, carry, space, fresh=fresh, d_inputs=d_inputs)
        gradients = cell.gradients(buffers)
        d_parameters = [gradients[parameter] for parameter in cell.parameters()]
        d_before = [None] * cell.state_parts if fresh else carry
        rest = [None] * (len(wants) - 5 - cell.state_parts - len(d_parameters))
        d_context = carry[0] if block.contexts else None
        return None, None, None, d_inputs, d_context, *d_before, *d_parameters, *rest


def unroll(
    cell: BuiltinCell,
    weights: Any,
    inputs: Tensor,
    state: CellState,
    fresh: bool,
    context: Tensor | None,
    called: Wide | None = None,
) -> tuple[Tensor, CellState]:
    """Consecutive ticks under autograd: inputs (ticks, rows, ...) to hidden states (ticks, rows, hidden) and the state after.

    `fresh`: a segment or sequence starts here, `state` counts as zero and `context` may enter. The parameters' gradients go to
    those of `called`, if it has any.
    """
    wide = () if called is None else called.parameters.values()
    arguments = (cell, weights, fresh, inputs, context, *state, *wide, *cell.parameters())
    output, *after = _Unroll.apply(*arguments)  # type: ignore[no-untyped-call]
    return output, tuple(after)
