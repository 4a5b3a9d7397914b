"""The LSTM: gates in the order input, forget, candidate, output, as in torch.

Both hyperbolic tangents are computed as tanh(a) = 1 - 2 sigmoid(-2a): on the CPU a tanh costs as much as four sigmoids, and
with the candidate's weights scaled by -2 beforehand all four gates are a single sigmoid over contiguous memory.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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

    def backward_views(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor, d_hidden: Tensor) -> Any:
        ticks, rows, _ = out.shape
        through = torch.empty_like(d_hidden)
        return SimpleNamespace(
            gates=gates,
            gate=gates.chunk(4, -1),
            c_before=before[1],
            squashed=scratch[0],
            out=out,
            d_gate=out.chunk(4, -1),
            through=through,
            # What the loop reads, tick by tick.
            d_gates=out.unbind(0),
            by_cell=out.view(ticks, rows, 4, self.hidden_size)[:, :, :3].unbind(0),
            loop=list(
                zip(
                    d_hidden.unbind(0),
                    through.unbind(0),
                    gates.chunk(4, -1)[1].unbind(0),
                    out.chunk(4, -1)[3].unbind(0),
                    strict=True,
                )
            ),
        )

    def coefficients(self, views: Any) -> None:
        i, _, g, o = views.gate
        d_i, d_f, d_g, d_o = views.d_gate
        squashed, through = views.squashed, views.through
        torch.addcmul(views.gates, views.gates, views.gates, value=-1, out=views.out)  # the sigmoids' own derivatives
        d_i.addcmul_(d_i, g, value=-2)
        d_f.mul_(views.c_before)
        d_g.mul_(i).mul_(4)
        d_o.addcmul_(d_o, squashed, value=-2)
        torch.addcmul(squashed, squashed, squashed, value=-1, out=through)
        through.mul_(o).mul_(4)

    def sweep(self, views: Any, back_hidden: Tensor, carry: CellState, keep: Tensor | None) -> None:
        (dc,) = carry
        d_gates, by_cell, loop = views.d_gates, views.by_cell, views.loop
        dc_column = dc.unsqueeze(1)
        last = len(loop) - 1
        for t in range(last, -1, -1):
            dh, through, forget, by_hidden = loop[t]
            if t < last:
                if keep is None:
                    dh.addmm_(d_gates[t + 1], back_hidden)
                else:
                    dh.addcmul_(torch.mm(d_gates[t + 1], back_hidden), keep[t + 1])
            dc.addcmul_(dh, through)
            by_cell[t].mul_(dc_column)
            by_hidden.mul_(dh)
            dc.mul_(forget)
            if keep is not None:
                dc.mul_(keep[t])

    def carry_hidden(self, views: Any, back_hidden: Tensor) -> Tensor:
        return torch.mm(views.d_gates[0], back_hidden)

    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        i, f, g, o = (entered + recurrent).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
