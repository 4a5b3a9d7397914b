"""The GRU, as torch has it: the reset gate multiplies the recurrent product of the candidate, bias included.

A tick's gate columns are [recurrent part of the candidate, reset, update, entering part of the candidate], so that both the
input's product (the last three) and the recurrent one (the first three) go into one contiguous range. The rows of
`weight_hidden` are therefore in the order candidate, reset, update; those of `weight_input` reset, update, candidate.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState
from hrnn.precision import wide


class GRU(BuiltinCell):
    """Gated recurrent unit. The state is (h,)."""

    gate_blocks = 4
    input_blocks = slice(1, 4)
    hidden_blocks = slice(0, 3)
    state_parts = 1
    scratch_parts = 0

    def __init__(self, input_size: int, context_size: int, hidden_size: int, tokens: bool):
        super().__init__(input_size, context_size, hidden_size, tokens)
        self.bias_hidden = nn.Parameter(self.bias.detach()[:hidden_size].clone())

    def extra_bias(self) -> Tensor:
        return self.bias_hidden

    def views(self, gates: Tensor, before: CellState, after: CellState, scratch: CellState) -> tuple[Tensor, ...]:
        size = self.hidden_size
        m, r, z, n = gates.chunk(4, -1)
        return gates[..., size : 3 * size], m, r, z, n, before[0], after[0]

    def activate(self, views: tuple[Tensor, ...]) -> None:
        both, m, r, z, n, h_before, h = views
        both.sigmoid_()
        n.addcmul_(r, m).tanh_()
        torch.lerp(n, h_before, z, out=h)

    def backward_views(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor, d_hidden: Tensor) -> Any:
        ticks, rows, _ = out.shape
        return SimpleNamespace(
            gate=gates.chunk(4, -1),
            h_before=before[0],
            d_gate=out.chunk(4, -1),
            recurrent=out[..., self.hidden_columns].unbind(0),
            blocks=out.view(ticks, rows, 4, self.hidden_size).unbind(0),
            update=gates.chunk(4, -1)[2].unbind(0),
            d_hidden=d_hidden.unbind(0),
        )

    def coefficients(self, views: Any) -> None:
        m, r, z, n = views.gate
        d_m, d_r, d_z, d_n = views.d_gate
        d_n.copy_((1 - z) * (1 - n * n))
        torch.mul(d_n, r, out=d_m)
        torch.mul(d_m, m, out=d_r)
        d_r.mul_(1 - r)
        torch.sub(views.h_before, n, out=d_z)
        d_z.mul_(z).mul_(1 - z)

    def sweep(self, views: Any, back_hidden: Tensor, carry: CellState, keep: Tensor | None) -> None:
        recurrent, update, d_h = views.recurrent, views.update, views.d_hidden
        last = len(d_h) - 1
        for t in range(last, -1, -1):
            if t < last:
                if keep is None:
                    d_h[t].addmm_(recurrent[t + 1], back_hidden).addcmul_(d_h[t + 1], update[t + 1])
                else:
                    before = torch.mm(recurrent[t + 1], back_hidden).addcmul_(d_h[t + 1], update[t + 1])
                    d_h[t].addcmul_(before, keep[t + 1])
            views.blocks[t].mul_(d_h[t].unsqueeze(1))

    def carry_hidden(self, views: Any, back_hidden: Tensor) -> Tensor:
        return torch.mm(views.recurrent[0], back_hidden).addcmul_(views.d_hidden[0], views.update[0])

    def add_gradients(self, buffers: dict[str, Tensor], d_gates: Tensor, inputs: Tensor, before: Tensor | None) -> None:
        super().add_gradients(buffers, d_gates, inputs, before)
        buffers["bias_hidden"].add_(wide(d_gates[:, : self.hidden_size]).sum(0))

    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        r, z, n = entered.chunk(3, 1)
        m_h, r_h, z_h = recurrent.chunk(3, 1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        n = (n + r * (m_h + self.bias_hidden)).tanh()
        return (n + z * (state[0] - n),)
