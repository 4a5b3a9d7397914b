"""The records of a built-in cell, differentiated by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell
from hrnn.cells.block import BACKWARD_TICKS
from hrnn.cells.native import Buffers, NativeWeights, Rows
from hrnn.gradients.record_tape import RecordTape
from hrnn.segments import Starts, Ticks
from hrnn.state import State


class BuiltinTape(RecordTape):
    """The records of a built-in cell: beside the rest the gates, the state before and the scratch of each tick."""

    def __init__(self, level: int, cell: BuiltinCell, state: State, moves: bool):
        super().__init__(level, cell, state)
        self.cell = cell
        self.weights = self.older = self._prepared(moves)
        self.buffers = cell.zero_gradients()
        new, size = self.output.new_empty, cell.hidden_size
        self.gates = new(0, cell.gate_blocks * size)
        self.before = [new(0, size) for _ in range(cell.state_parts)]
        self.scratch = [new(0, size) for _ in range(cell.scratch_parts)]

    def _prepared(self, own: bool) -> Any:
        """The cell's weights for ticks from now on; `own`: they stay what they are when the parameters move."""
        return self.cell.prepare(own)

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        super()._each(change)
        self.gates = change(self.gates)
        for parts in (self.before, self.scratch):
            for index, part in enumerate(parts):
                parts[index] = change(part)

    def enter(self, inputs: Tensor) -> None:
        at = slice(self.count, self.count + inputs.shape[0])
        self.inputs[at] = inputs
        self.cell.enter(self.weights, self.inputs[at], self.gates[at])

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        rows = ticks.rows
        at = slice(self.count, self.count + (len(self.row) if rows is None else len(rows)))
        if inputs is not None:
            self.enter(inputs[0])
        self._tick(at, rows, *self._started())
        self.d_output[at], self.reached[at] = 0, False
        self.count = at.stop
        return self.output[None, at]

    def _tick(self, at: slice, rows: Tensor | None, starts: Starts | None, context: Tensor | None) -> None:
        """The next tick of some rows, whose inputs have entered the records `at`: the state after, and what is kept of it."""
        cell = self.cell
        before = tuple(part[at] for part in self.before)
        for part, out in zip(self.state, before, strict=True):
            if rows is None:
                out.copy_(part)
            else:
                torch.index_select(part, 0, rows, out=out)
            if starts is not None:
                _clear(out, starts)
        gates = self.gates[at]
        if starts is None or starts.mask is not None:
            gates[:, cell.hidden_columns].addmm_(before[0], self.weights.hidden)
        if starts is not None and context is not None:
            product = torch.mm(context, self.weights.context)
            entering = gates[:, cell.input_columns]
            if starts.where is None:
                entering.add_(product)
            else:
                entering.index_add_(0, starts.where, product)
        output = self.output[at]
        after = self.state if rows is None else (output, *(torch.empty_like(output) for _ in self.state[1:]))
        cell.activate(cell.views(gates, before, after, tuple(part[at] for part in self.scratch)))
        if rows is None:
            output.copy_(self.state[0])
        else:
            for part, new in zip(self.state, after, strict=True):
                part.index_copy_(0, rows, new)

    def sweep(self, order: Tensor, above: RecordTape | None, d_inputs: Tensor | None) -> None:
        carry = [self.output.new_zeros(order.shape[1], self.cell.hidden_size) for _ in self.state]
        older = self.records.older_than(self.version)
        if older is not None:  # of those that are swept now: an unfinished segment may have more
            older = older.minimum((order >= 0).sum(0))
        if older is None or not bool(older.any()):
            self._sweep(order, carry, self.weights, above, d_inputs)
            return
        # First what ran with the new weights, all rows starting in line; then what ran with the old ones, ending in line.
        ticks = torch.arange(order.shape[0], device=order.device)[:, None]
        self._sweep(_pick(order, ticks + older), carry, self.weights, above, d_inputs)
        before = _pick(order, ticks[: int(older.max())] - (int(older.max()) - older))
        for part in carry:
            part.masked_fill_((before[-1] < 0)[:, None], 0.0)
        self._sweep(before, carry, self.older, above, d_inputs)

    def _sweep(
        self, order: Tensor, carry: list[Tensor], weights: Any, above: RecordTape | None, d_inputs: Tensor | None
    ) -> None:
        """As `sweep`; carry, the gradient of the state after the last ticks, becomes that of the state before the first."""
        cell, facts = self.cell, self.records.facts
        ticks, rows = order.shape
        straight = order.numel() == self.count and bool(
            (order.flatten() == torch.arange(self.count, device=order.device)).all()
        )
        space = self.gates.new_empty(min(ticks, BACKWARD_TICKS), rows, self.gates.shape[1])
        for stop in range(ticks, 0, -BACKWARD_TICKS):
            start = max(0, stop - BACKWARD_TICKS)
            records = order[start:stop].flatten()
            at: Any = slice(start * rows, stop * rows) if straight else records.clamp(min=0)
            shape = (stop - start, rows, -1)
            gates = self.gates[at].view(shape)
            before = tuple(part[at].view(shape) for part in self.before)
            scratch = tuple(part[at].view(shape) for part in self.scratch)
            d_hidden = self.d_output[at].view(shape)
            starts = facts.first[at].view(stop - start, rows)
            if not straight:
                missing = (records < 0).view(stop - start, rows)
                d_hidden.masked_fill_(missing[..., None], 0.0)
                starts = starts & ~missing
            cut = starts
            if not straight:  # nor does a gradient go where a row has no tick
                before_first = order[start - 1] < 0 if start else missing[0]
                cut = starts | torch.cat([before_first[None], missing[:-1]])
            keep = (~cut)[..., None].to(gates.dtype)
            out = space[: stop - start]
            d_hidden[-1].add_(carry[0])
            self._back(weights, gates, before, scratch, d_hidden, carry, out, keep)
            flat, hidden = out.flatten(0, 1), before[0].flatten(0, 1)
            ticked = None if straight else (records >= 0).nonzero()[:, 0]
            if ticked is not None and len(ticked) < 0.8 * len(records):  # else gathering costs more than it saves
                cell.add_gradients(self.buffers, flat[ticked], self.inputs[records[ticked]], hidden[ticked])
            else:
                cell.add_gradients(self.buffers, flat, self.inputs[at], hidden)
            if d_inputs is not None:
                d_inputs.index_add_(0, records.clamp(min=0), torch.mm(flat[:, cell.input_columns], weights.back_input))
            if above is not None:
                which = starts.flatten().nonzero()[:, 0]
                sender = facts.parent[records[which]]
                cell.add_context_gradients(self.buffers, flat[which], above.output[sender])
                above.add(sender, torch.mm(flat[which][:, cell.input_columns], weights.back_context))

    def _back(
        self,
        weights: Any,
        gates: Tensor,
        before: tuple[Tensor, ...],
        scratch: tuple[Tensor, ...],
        d_hidden: Tensor,
        carry: list[Tensor],
        out: Tensor,
        keep: Tensor,
    ) -> None:
        """Backward through records in line, (ticks, rows, ...): out gets the gradients of the gates' inputs, carry that of the
        state before the first. keep (ticks, rows, 1): 0 where there is no state before."""
        views = self.cell.backward_views(gates, before, scratch, out, d_hidden)
        self.cell.coefficients(views)
        self.cell.sweep(views, weights.back_hidden, tuple(carry[1:]), keep)
        carry[0] = self.cell.carry_hidden(views, weights.back_hidden).mul_(keep[0])

    def gradients(self) -> dict[Tensor, Tensor]:
        return self.cell.gradients(self.buffers)

    def moved(self) -> None:
        self.older, self.weights = self.weights, self._prepared(True)
        self.buffers = self.cell.zero_gradients()
        self.version += 1


class NativeTape(BuiltinTape):
    """The same, its ticks compiled. An LSTM's scratch is its c after the tick."""

    def _prepared(self, own: bool) -> Any:
        return NativeWeights(self.cell, own)

    def enter(self, inputs: Tensor) -> None:
        at = slice(self.count, self.count + inputs.shape[0])
        self.inputs[at] = inputs
        Rows(self.cell, self.gates[at], (self.output[at],), self.inputs[at]).enter(self.weights)

    def _tick(self, at: slice, rows: Tensor | None, starts: Starts | None, context: Tensor | None) -> None:
        before, after = ([part[at] for part in parts] for parts in (self.before, self.scratch))
        records = Rows(self.cell, self.gates[at], before, self.inputs[at], after)
        mask, where = (None, None) if starts is None else starts
        records.tick(self.weights, rows, starts is not None, mask, context, where, self.state, self.output[at])

    def _back(
        self,
        weights: Any,
        gates: Tensor,
        before: tuple[Tensor, ...],
        scratch: tuple[Tensor, ...],
        d_hidden: Tensor,
        carry: list[Tensor],
        out: Tensor,
        keep: Tensor,
    ) -> None:
        Buffers(self.cell, gates, before, self.inputs, scratch).sweep(
            weights, 0, len(gates), d_hidden, carry, out, starts=False, keep=keep
        )


def _clear(part: Tensor, starts: Starts) -> None:
    if starts.mask is None:
        part.zero_()
    else:
        part.masked_fill_(starts.mask[:, None], 0.0)


def _pick(order: Tensor, ticks: Tensor) -> Tensor:
    """order[ticks[t, row], row], -1 where that is outside."""
    inside = (ticks >= 0) & (ticks < order.shape[0])
    return order.gather(0, ticks.clamp(0, order.shape[0] - 1)).masked_fill(~inside, -1)
