"""The Elman network: one tanh."""

from __future__ import annotations

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

    def coefficients(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor) -> None:
        torch.mul(gates, gates, out=out)
        out.neg_().add_(1)

    def sweep(
        self, out: Tensor, extra: None, d_hidden: Tensor, back_hidden: Tensor, carry: CellState, keep: Tensor | None
    ) -> None:
        for t in range(out.shape[0] - 1, -1, -1):
            if t + 1 < out.shape[0]:
                if keep is None:
                    d_hidden[t].addmm_(out[t + 1], back_hidden)
                else:
                    d_hidden[t].addcmul_(torch.mm(out[t + 1], back_hidden), keep[t + 1])
            out[t].mul_(d_hidden[t])

    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        return ((entered + recurrent).tanh(),)
