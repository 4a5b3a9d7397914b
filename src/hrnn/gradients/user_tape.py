"""The ticks of a user's cell, or of a built-in one that a user has changed, differentiated by autograd."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from hrnn.cells import Cell, CellState
from hrnn.gradients.gathered import muted
from hrnn.gradients.record_tape import RecordTape
from hrnn.precision import summed_in
from hrnn.segments import Ticks
from hrnn.state import State


@dataclass
class _Tick:
    records: Tensor  # (n,), -1 for those that are done
    rows: Tensor  # (n,)
    state: CellState  # leaves
    inputs: Tensor
    context: Tensor | None
    context_at: Tensor | None  # which of the n ticks the context was for, None: all
    after: CellState
    values: dict[str, Tensor]  # the parameters that it ran with


class UserTape(RecordTape):
    """The ticks of a user's cell: each has a graph of its own, with the weights that it ran with."""

    def __init__(self, level: int, cell: Cell, state: State, wants_inputs: bool, moves: bool):
        super().__init__(level, cell, state)
        self.cell, self.wants_inputs, self.moves = cell, wants_inputs, moves
        self.parameters = {name: p for name, p in cell.named_parameters() if p.requires_grad}
        self.values = self._copied()
        self.sums: dict[Tensor, Tensor] = {}
        self.ticks: list[_Tick] = []

    def _copied(self) -> dict[str, Tensor]:
        """The parameters as ticks use them: copies if they may move while a graph still needs what they were."""
        if not self.moves:
            return dict(self.parameters)
        return {name: p.detach().clone().requires_grad_() for name, p in self.parameters.items()}

    def enter(self, inputs: Tensor) -> None:
        self.inputs[self.count : self.count + inputs.shape[0]] = inputs

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        rows = torch.arange(len(self.row), device=self.row.device) if ticks.rows is None else ticks.rows
        at = slice(self.count, self.count + len(rows))
        if inputs is not None:
            self.inputs[at] = inputs[0]
        starts, context = self._started()
        first = where = None
        if starts is not None:
            where = starts.where
            first = (rows >= 0 if starts.mask is None else starts.mask)[:, None]
        with torch.enable_grad():
            leaves = tuple(part[rows].detach().requires_grad_(part.is_floating_point()) for part in self.state)
            given = self.inputs[at].clone()
            if self.wants_inputs:
                given.requires_grad_()
            sent = None if context is None else context.clone().requires_grad_()  # the tape is written on
            arguments = (given, leaves, first, where, sent)
            after = functional_call(self.cell, self.values, arguments) if self.moves else self.cell(*arguments)
        for part, new in zip(self.state, after, strict=True):
            part[rows] = new.detach()
        self.output[at] = after[0].detach()
        self.d_output[at], self.reached[at] = 0, False
        records = torch.arange(at.start, at.stop, device=rows.device)
        self.ticks.append(_Tick(records, rows, leaves, given, sent, where, after, self.values))
        self.count = at.stop
        return self.output[None, at]

    def sweep(self, order: Tensor, above: RecordTape | None, d_inputs: Tensor | None) -> None:
        """In the order of time, last tick first."""
        parent = self.records.facts.parent
        now = torch.zeros(self.count, dtype=torch.bool, device=self.row.device)
        now[order[order >= 0]] = True
        carry = tuple(torch.zeros_like(part) for part in self.state)
        for tick in reversed(self.ticks):
            active = (tick.records >= 0) & now[tick.records.clamp(min=0)]
            if not bool(active.any()):
                continue
            upstream = [part[tick.rows] for part in carry]
            upstream[0] = upstream[0] + self.d_output[tick.records.clamp(min=0)]
            upstream = [g.masked_fill(~active.view(-1, *[1] * (g.dim() - 1)), 0.0) for g in upstream]
            outputs = [(out, g) for out, g in zip(tick.after, upstream, strict=True) if out.requires_grad]
            wanted = [*(leaf for leaf in tick.state if leaf.requires_grad), *tick.values.values()]
            wanted += [tick.inputs] if self.wants_inputs else []
            wanted += [] if tick.context is None else [tick.context]
            left = bool(((tick.records >= 0) & ~active).any())
            with muted(tick.values.values()):
                gradients = torch.autograd.grad(
                    [out for out, _ in outputs], wanted, [g for _, g in outputs], retain_graph=left, allow_unused=True
                )
            results = iter(gradients)
            for part, leaf in zip(carry, tick.state, strict=True):
                gradient = next(results) if leaf.requires_grad else None
                rows = tick.rows[active]
                part[rows] = 0 if gradient is None else gradient[active]
            for parameter in self.parameters.values():
                gradient = next(results)
                if gradient is None:
                    continue
                if parameter in self.sums:
                    self.sums[parameter].add_(gradient)
                else:  # autograd may hand out one tensor for several parameters
                    self.sums[parameter] = gradient.to(summed_in(gradient.dtype), copy=True)
            d_given = next(results) if self.wants_inputs else None
            if d_given is not None and d_inputs is not None:
                d_inputs.index_add_(0, tick.records[active], d_given[active])
            d_context = next(results) if tick.context is not None else None
            if d_context is not None and above is not None:
                at = torch.arange(len(tick.rows), device=active.device) if tick.context_at is None else tick.context_at
                at_now = active[at]
                above.add(parent[tick.records[at[at_now]]], d_context[at_now])

    def forget_before(self, ticks: Tensor) -> Tensor:
        renumbered = super().forget_before(ticks)
        for tick in self.ticks:
            tick.records = torch.where(tick.records >= 0, renumbered[tick.records], -1)
        self.ticks = [tick for tick in self.ticks if bool((tick.records >= 0).any())]
        return renumbered

    def gradients(self) -> dict[Tensor, Tensor]:
        return dict(self.sums)

    def moved(self) -> None:
        self.values, self.sums = self._copied(), {}
        self.version += 1
