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
    packed = staticmethod(torch._VF.rnn_tanh)

    def torch_weights(self) -> list[Tensor]:
        return [self.weight_input, self.weight_hidden, self.bias, torch.zeros_like(self.bias)]

    def literal(self, entered: Tensor, recurrent: Tensor | None, state: CellState) -> CellState:
        return ((entered if recurrent is None else entered + recurrent).tanh(),)
