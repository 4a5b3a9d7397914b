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

    def keeping(self) -> Tensor:
        """The weights (4 * hidden, 1) of an input that keeps c to the last bit where it is 1: no gate lets anything in, none
        forgets."""
        size, column = self.hidden_size, torch.zeros_like(self.bias)
        large = min(1e30, torch.finfo(column.dtype).max / 8)
        column[:size], column[size : 2 * size] = -large, large
        return column[:, None]

    def literal(self, entered: Tensor, recurrent: Tensor | None, state: CellState) -> CellState:
        i, f, g, o = (entered if recurrent is None else entered + recurrent).chunk(4, 1)
        c = i.sigmoid() * g.tanh()
        if recurrent is not None:
            c = torch.addcmul(c, f.sigmoid(), state[1])
        return o.sigmoid() * c.tanh(), c
