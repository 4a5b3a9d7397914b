"""The LSTM: gates in the order input, forget, candidate, output, as in torch."""

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
    packed = staticmethod(torch._VF.lstm)

    def reset_parameters(self) -> None:
        """As torch, but the forget gate starts open: its bias is 1."""
        super().reset_parameters()
        nn.init.zeros_(self.bias)
        nn.init.ones_(self.bias[self.hidden_size : 2 * self.hidden_size])

    def torch_weights(self) -> list[Tensor]:
        return [self.weight_input, self.weight_hidden, self.bias, torch.zeros_like(self.bias)]

    def literal(self, entered: Tensor, recurrent: Tensor | None, state: CellState) -> CellState:
        i, f, g, o = (entered if recurrent is None else entered + recurrent).chunk(4, 1)
        c = i.sigmoid() * g.tanh()
        if recurrent is not None:
            c = torch.addcmul(c, f.sigmoid(), state[1])
        return o.sigmoid() * c.tanh(), c
