"""Consecutive ticks of a built-in cell, all rows together: run forward into buffers, then differentiated from them.

`Block` is what both gradient methods are made of. `Restricted` keeps a few and reuses their buffers from segment to segment;
`unroll` makes one for each piece of a sequence and lets autograd call its backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hrnn.cells.builtin import BuiltinCell, Weights
from hrnn.cells.contract import CellState
from hrnn.precision import Wide

BACKWARD_TICKS = 16  # how many ticks are differentiated at once: bounds the temporaries, whatever the block's length


class Block:
    """Buffers for up to `ticks` ticks of `rows` rows. Slot t of a state is the state *before* tick t. `reused`: the same slots
    are run again and again, so that the views of them are worth keeping; a tick's take about 7 kB."""

    def __init__(self, cell: BuiltinCell, ticks: int, rows: int, inputs: Tensor | None = None, reused: bool = False):
        new, size = cell.weight_hidden.new_empty, cell.hidden_size
        self.cell = cell
        self.gates = new(ticks, rows, cell.gate_blocks * size)
        self.states = tuple(new(ticks + 1, rows, size) for _ in range(cell.state_parts))
        self.scratch = tuple(new(ticks, rows, size) for _ in range(cell.scratch_parts))
        if inputs is None:
            shape = (ticks, rows) if cell.tokens else (ticks, rows, cell.input_size)
            inputs = torch.empty(shape, dtype=torch.int64, device=self.gates.device) if cell.tokens else new(shape)
        self.inputs = inputs
        self.context: Tensor | None = None
        self._cuts: dict[int, tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]] | None = {} if reused else None

    def set_state(self, slot: int, state: CellState | None) -> None:
        """Write the state before tick `slot`; None is zero."""
        for index, part in enumerate(self.states):
            if state is None:
                part[slot].zero_()
            else:
                part[slot].copy_(state[index])

    def state(self, slot: int) -> CellState:
        """The state before tick `slot`, a view of the buffers."""
        return tuple(part[slot] for part in self.states)

    def run(self, weights: Weights, start: int, stop: int, fresh: bool, context: Tensor | None = None) -> None:
        """Ticks start to stop. `fresh`: the state before the first is zero, so there is no recurrent product; then
        `context` (rows, context_size) may enter."""
        cell = self.cell
        cell.enter(weights, self.inputs[start:stop].flatten(0, 1), self.gates[start:stop].flatten(0, 1))
        for slot in range(start, stop):
            cut = None if self._cuts is None else self._cuts.get(slot)
            if cut is None:
                cut = self._cut(slot)
                if self._cuts is not None:
                    self._cuts[slot] = cut
            entering, recurrent, before, views = cut
            if slot > start or not fresh:
                recurrent.addmm_(before, weights.hidden)
            elif context is not None:
                entering.addmm_(context, weights.context)
            cell.activate(views)
        if fresh:
            self.context = context

    def _cut(self, slot: int) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        cell, gates = self.cell, self.gates[slot]
        before, after = self.state(slot), self.state(slot + 1)
        views = cell.views(gates, before, after, tuple(part[slot] for part in self.scratch))
        return gates[:, cell.input_columns], gates[:, cell.hidden_columns], before[0], views

    def backward(
        self,
        weights: Weights,
        buffers: dict[str, Tensor],
        start: int,
        stop: int,
        d_hidden: Tensor,
        carry: list[Tensor],
        workspace: Tensor,
        *,
        fresh: bool,
        d_inputs: Tensor | None = None,
        cache: dict[tuple[int, int], Any] | None = None,
    ) -> None:
        """Differentiate ticks start to stop.

        d_hidden (slots, rows, hidden): the gradient of the hidden state after each tick, from outside; overwritten.
        carry: the gradient of the whole state after the last tick; becomes that of the state before the first, or, where
        that is `fresh`, its first entry that of the context.
        workspace: (at least min(stop - start, BACKWARD_TICKS), rows, gates). d_inputs (stop - start, rows, input_size),
        contiguous, is filled if given. cache: kept from call to call where d_hidden and workspace are always the same.
        """
        cell, rows = self.cell, self.gates.shape[1]
        for last in range(stop, start, -BACKWARD_TICKS):
            first = max(start, last - BACKWARD_TICKS)
            out, d_h = workspace[: last - first], d_hidden[first:last]
            hidden = self.states[0][first:last].flatten(0, 1)
            views = None if cache is None else cache.get((first, last))
            if views is None:
                before = tuple(part[first:last] for part in self.states)
                scratch = tuple(part[first:last] for part in self.scratch)
                views = cell.backward_views(self.gates[first:last], before, scratch, out, d_h)
                if cache is not None:
                    cache[first, last] = views
            d_h[-1].add_(carry[0])
            cell.coefficients(views)
            cell.sweep(views, weights.back_hidden, tuple(carry[1:]), None)
            flat = out.flatten(0, 1)
            starts = fresh and first == start
            cell.add_gradients(buffers, flat, self.inputs[first:last].flatten(0, 1), None if starts else hidden)
            if starts:  # zero before the first tick: no product with it
                if last - first > 1:
                    cell.add_hidden_gradients(buffers, flat[rows:], hidden[rows:])
                if self.context is not None:
                    cell.add_context_gradients(buffers, out[0], self.context)
                    carry[0] = torch.mm(out[0][:, cell.input_columns], weights.back_context)
            else:
                carry[0] = cell.carry_hidden(views, weights.back_hidden)
            if d_inputs is not None:
                d_flat = d_inputs[first - start : last - start].view(-1, cell.input_size)  # never a copy
                torch.mm(flat[:, cell.input_columns], weights.back_input, out=d_flat)


def workspace(cell: BuiltinCell, ticks: int, rows: int) -> Tensor:
    """Room for `Block.backward` over up to `ticks` ticks."""
    return cell.weight_hidden.new_empty(min(ticks, BACKWARD_TICKS), rows, cell.gate_blocks * cell.hidden_size)


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: BuiltinCell,
        weights: Weights,
        fresh: bool,
        inputs: Tensor,
        context: Tensor | None,
        *rest: Tensor,
    ) -> Any:
        state = rest[: cell.state_parts]
        block = Block(cell, inputs.shape[0], inputs.shape[1], inputs.detach())
        block.set_state(0, None if fresh else state)
        block.run(weights, 0, inputs.shape[0], fresh, None if context is None else context.detach())
        ctx.block, ctx.weights, ctx.fresh = block, weights, fresh
        ctx.save_for_backward(inputs, context, *rest[cell.state_parts :])
        return block.states[0][1:], *block.state(inputs.shape[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, *d_state: Tensor) -> Any:
        block, cell, weights, fresh = ctx.block, ctx.block.cell, ctx.weights, ctx.fresh
        _ = ctx.saved_tensors  # raises if one of them was modified in place since
        ticks, rows, _ = block.gates.shape
        carry = [part.clone() for part in d_state]
        buffers = cell.zero_gradients()
        wants = ctx.needs_input_grad
        d_inputs = torch.empty_like(block.inputs, memory_format=torch.contiguous_format) if wants[3] else None
        space = workspace(cell, ticks, rows)
        block.backward(weights, buffers, 0, ticks, d_output.clone(), carry, space, fresh=fresh, d_inputs=d_inputs)
        gradients = cell.gradients(buffers)
        d_parameters = [gradients[parameter] for parameter in cell.parameters()]
        d_before = [None] * cell.state_parts if fresh else carry
        rest = [None] * (len(wants) - 5 - cell.state_parts - len(d_parameters))
        d_context = carry[0] if block.context is not None else None
        return None, None, None, d_inputs, d_context, *d_before, *d_parameters, *rest


def unroll(
    cell: BuiltinCell,
    weights: Weights,
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
