"""Ticks of rows that each go their own way: a record for every tick of every row, in the order of time.

A log runs ticks forward into records and later differentiates some of them: `BuiltinLog` by hand, on records gathered so that
the rows' ticks stand in line; `UserLog`, in a file of its own, by autograd, tick by tick. Both have the same verbs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, CellState, UserCell
from hrnn.cells.block import BACKWARD_TICKS
from hrnn.cells.builtin import Weights


class Log:
    """What both kinds share: for each record what came in, the hidden state after it, and the gradient of that.

    state:    the level's state now, all rows
    inputs:   (records, ...), hidden and d_hidden: (records, hidden)
    """

    def __init__(self, cell: BuiltinCell | UserCell, state: CellState):
        self.state = tuple(part.clone() for part in state)
        self.count = 0
        self.version = 0  # how often the level has moved in this window
        self.inputs = state[0].new_empty(0, *(() if cell.tokens else (cell.input_size,)))
        if cell.tokens:
            self.inputs = self.inputs.long()
        self.hidden = state[0].new_empty(0, cell.hidden_size)
        self.d_hidden = state[0].new_empty(0, cell.hidden_size)
        self.names = ["inputs", "hidden", "d_hidden"]

    def reserve(self, count: int) -> None:
        """Make room for `count` more records; if there are records already, for some beyond, so that it is not done often."""
        needed = self.count + count
        if needed <= self.hidden.shape[0]:
            return
        size = max(needed, self.hidden.shape[0] * 3 // 2)
        for name in self.names:
            old = getattr(self, name)
            new = old.new_empty(size, *old.shape[1:])
            new[: self.count] = old[: self.count]
            setattr(self, name, new)

    def keep(self, records: Tensor) -> None:
        """Forget all but these records (n,), which are numbered anew in this order."""
        for name in self.names:
            buffer = getattr(self, name)
            buffer[: len(records)] = buffer[records]
        self.count = len(records)


class BuiltinLog(Log):
    """The records of a built-in cell."""

    def __init__(self, cell: BuiltinCell, state: CellState, moves: bool):
        super().__init__(cell, state)
        self.cell = cell
        self.weights = self.older = cell.prepare(own=moves)
        self.buffers = cell.zero_gradients()
        new = state[0].new_empty
        self.gates = new(0, cell.gate_blocks * cell.hidden_size)
        self.names.append("gates")
        for kind, parts in (("before", cell.state_parts), ("scratch", cell.scratch_parts)):
            for part in range(parts):
                setattr(self, f"{kind}{part}", new(0, cell.hidden_size))
                self.names.append(f"{kind}{part}")

    def _cut(self, kind: str, parts: int, at: Any) -> CellState:
        return tuple(getattr(self, f"{kind}{part}")[at] for part in range(parts))

    def enter(self, inputs: Tensor) -> None:
        """The inputs (n, ...) of the next n records, all known beforehand."""
        at = slice(self.count, self.count + inputs.shape[0])
        self.inputs[at] = inputs
        self.cell.enter(self.weights, self.inputs[at], self.gates[at])

    def tick(
        self,
        rows: Tensor | None,
        inputs: Tensor | None,
        keep: Tensor | None,
        where: Tensor | None,
        context: Tensor | None,
    ) -> Tensor:
        """One tick of `rows` (None: all) and its hidden states (n, hidden). inputs: None where `enter` had them. keep (n, 1):
        zero where a segment starts. context (m, context) is for the ticks numbered by `where` (None: all)."""
        cell = self.cell
        n = self.state[0].shape[0] if rows is None else len(rows)
        at = slice(self.count, self.count + n)
        if inputs is not None:
            self.enter(inputs)
        before = self._cut("before", cell.state_parts, at)
        for part, out in zip(self.state, before, strict=True):
            if rows is None:
                out.copy_(part)
            else:
                torch.index_select(part, 0, rows, out=out)
            if keep is not None:
                out.mul_(keep)
        gates = self.gates[at]
        gates[:, cell.hidden_columns].addmm_(before[0], self.weights.hidden)
        if context is not None:
            product = torch.mm(context, self.weights.context)
            entering = gates[:, cell.input_columns]
            if where is None:
                entering.add_(product)
            else:
                entering.index_add_(0, where, product)
        hidden = self.hidden[at]
        after = self.state if rows is None else (hidden, *(torch.empty_like(hidden) for _ in self.state[1:]))
        cell.activate(cell.views(gates, before, after, self._cut("scratch", cell.scratch_parts, at)))
        if rows is None:
            hidden.copy_(self.state[0])
        else:
            for part, new in zip(self.state, after, strict=True):
                part.index_copy_(0, rows, new)
        self.d_hidden[at] = 0
        self.count += n
        return hidden

    def sweep(
        self,
        order: Tensor,
        first: Tensor,
        parent: Tensor,
        above: Log | None,
        d_inputs: Tensor | None,
        older: Tensor | None,
    ) -> None:
        """Differentiate records. order (ticks, rows): the record that is each row's next tick, -1 where there is none. first
        and parent (records,): which start a segment, and the record above whose hidden state was their context. `above` gets
        the gradient of contexts, d_inputs (records, input_size) that of the inputs. older (rows,): how many of each row's
        records, the first ones, ran with the weights from before the last move."""
        carry = [self.hidden.new_zeros(order.shape[1], self.cell.hidden_size) for _ in self.state]
        given = (first, parent, above, d_inputs)
        if older is not None:  # of those that are swept now: an unfinished segment may have more
            older = older.minimum((order >= 0).sum(0))
        if older is None or not bool(older.any()):
            self._sweep(order, carry, self.weights, *given)
            return
        # First what ran with the new weights, all rows starting in line; then what ran with the old ones, ending in line.
        ticks = torch.arange(order.shape[0], device=order.device)[:, None]
        self._sweep(_pick(order, ticks + older), carry, self.weights, *given)
        before = _pick(order, ticks[: int(older.max())] - (int(older.max()) - older))
        for part in carry:
            part.masked_fill_((before[-1] < 0)[:, None], 0.0)
        self._sweep(before, carry, self.older, *given)

    def _sweep(
        self,
        order: Tensor,
        carry: list[Tensor],
        weights: Weights,
        first: Tensor,
        parent: Tensor,
        above: Log | None,
        d_inputs: Tensor | None,
    ) -> None:
        """As `sweep`; carry, the gradient of the state after the last ticks, becomes that of the state before the first."""
        cell = self.cell
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
            before = tuple(part.view(shape) for part in self._cut("before", cell.state_parts, at))
            scratch = tuple(part.view(shape) for part in self._cut("scratch", cell.scratch_parts, at))
            d_hidden = self.d_hidden[at].view(shape)
            starts = first[at].view(stop - start, rows)
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
            views = cell.backward_views(gates, before, scratch, out, d_hidden)
            cell.coefficients(views)
            cell.sweep(views, weights.back_hidden, tuple(carry[1:]), keep)
            carry[0] = cell.carry_hidden(views, weights.back_hidden).mul_(keep[0])
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
                sender = parent[records[which]]
                cell.add_context_gradients(self.buffers, flat[which], above.hidden[sender])
                above.d_hidden.index_add_(0, sender, torch.mm(flat[which][:, cell.input_columns], weights.back_context))

    def gradients(self) -> dict[Tensor, Tensor]:
        return self.cell.gradients(self.buffers)

    def moved(self) -> None:
        """The parameters have moved: new weights from now on, the old ones for records that stay."""
        self.older, self.weights = self.weights, self.cell.prepare(own=True)
        self.buffers = self.cell.zero_gradients()
        self.version += 1


def _pick(order: Tensor, ticks: Tensor) -> Tensor:
    """order[ticks[t, row], row], -1 where that is outside."""
    inside = (ticks >= 0) & (ticks < order.shape[0])
    return order.gather(0, ticks.clamp(0, order.shape[0] - 1)).masked_fill(~inside, -1)
