"""The LSTM: gates in the order input, forget, candidate, output, as in torch.

Both hyperbolic tangents are computed as tanh(a) = 1 - 2 sigmoid(-2a): on the CPU a tanh costs as much as four sigmoids, and
with the candidate's weights scaled by -2 beforehand all four gates are a single sigmoid over contiguous memory.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hrnn.cells.builtin import BuiltinCell
from hrnn.cells.contract import CellState


class LSTM(BuiltinCell):
    """Long short-term memory. The state is (h, c); c is reset with h and never leaves the level."""

    gate_blocks = 4
    input_blocks = hidden_blocks = slice(0, 4)
    state_parts = 2
    scratch_parts = 1  # sigmoid(-2c), which is tanh(c) in disguise

    def reset_parameters(self) -> None:
        """As torch, but the forget gate starts open: its bias is 1."""
        super().reset_parameters()
        nn.init.zeros_(self.bias)
        nn.init.ones_(self.bias[self.hidden_size : 2 * self.hidden_size])

    def scale(self) -> Tensor:
        scale = torch.ones_like(self.bias)
        scale[2 * self.hidden_size : 3 * self.hidden_size] = -2
        return scale

    def views(self, gates: Tensor, before: CellState, after: CellState, scratch: CellState) -> tuple[Tensor, ...]:
        return gates, *gates.chunk(4, -1), before[1], scratch[0], *after

    def activate(self, views: tuple[Tensor, ...]) -> None:
        gates, i, f, g, o, c_before, squashed, h, c = views
        gates.sigmoid_()
        torch.addcmul(i, f, c_before, out=c)
        c.addcmul_(i, g, value=-2)
        torch.mul(c, -2, out=squashed)
        squashed.sigmoid_()
        torch.addcmul(o, o, squashed, value=-2, out=h)

    def coefficients(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = gates.chunk(4, -1)
        squashed = scratch[0]
        torch.addcmul(gates, gates, gates, value=-1, out=out)  # the sigmoids' own derivatives
        d_i, d_f, d_g, d_o = out.chunk(4, -1)
        d_i.addcmul_(d_i, g, value=-2)
        d_f.mul_(before[1])
        d_g.mul_(i).mul_(4)
        d_o.addcmul_(d_o, squashed, value=-2)
        through = torch.addcmul(squashed, squashed, squashed, value=-1)
        return through.mul_(o).mul_(4), f

    def sweep(
        self,
        out: Tensor,
        extra: tuple[Tensor, Tensor],
        d_hidden: Tensor,
        back_hidden: Tensor,
        carry: CellState,
        keep: Tensor | None,
    ) -> None:
        ticks, rows, _ = out.shape
        (dc,) = carry
        by_cell = out.view(ticks, rows, 4, self.hidden_size)[:, :, :3].unbind(0)
        by_hidden = out[..., 3 * self.hidden_size :].unbind(0)
        all_gates, through, forget, d_h = out.unbind(0), extra[0].unbind(0), extra[1].unbind(0), d_hidden.unbind(0)
        kept = None if keep is None else keep.unbind(0)
        dc_column = dc.unsqueeze(1)
        for t in range(ticks - 1, -1, -1):
            dh = d_h[t]
            if t + 1 < ticks:
                if kept is None:
                    dh.addmm_(all_gates[t + 1], back_hidden)
                else:
                    dh.addcmul_(torch.mm(all_gates[t + 1], back_hidden), kept[t + 1])
            dc.addcmul_(dh, through[t])
            by_cell[t].mul_(dc_column)
            by_hidden[t].mul_(dh)
            dc.mul_(forget[t])
            if kept is not None:
                dc.mul_(kept[t])

    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        i, f, g, o = (entered + recurrent).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
