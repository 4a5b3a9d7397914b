"""The Elman network: one tanh."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState


class RNN(BuiltinCell):
    """Elman's simple recurrent network. The state is (h,)."""

    gate_blocks = 1
    input_blocks = hidden_blocks = slice(0, 1)
    state_parts = 1
    scratch_parts = 0

    def views(self, gates: Tensor, before: CellState, after: CellState, scratch: CellState) -> tuple[Tensor, ...]:
        return gates, after[0]

    def activate(self, views: tuple[Tensor, ...]) -> None:
        gates, h = views
        h.copy_(gates.tanh_())

    def backward_views(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor, d_hidden: Tensor) -> Any:
        return gates, out, out.unbind(0), d_hidden.unbind(0)

    def coefficients(self, views: Any) -> None:
        hidden, out, _, _ = views
        torch.mul(hidden, hidden, out=out)
        out.neg_().add_(1)

    def sweep(self, views: Any, back_hidden: Tensor, carry: CellState, keep: Tensor | None) -> None:
        _, _, d_gates, d_h = views
        last = len(d_h) - 1
        for t in range(last, -1, -1):
            if t < last:
                if keep is None:
                    d_h[t].addmm_(d_gates[t + 1], back_hidden)
                else:
                    d_h[t].addcmul_(torch.mm(d_gates[t + 1], back_hidden), keep[t + 1])
            d_gates[t].mul_(d_h[t])

    def carry_hidden(self, views: Any, back_hidden: Tensor) -> Tensor:
        return torch.mm(views[2][0], back_hidden)

    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        return ((entered + recurrent).tanh(),)
