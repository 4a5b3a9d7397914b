"""The GRU, as torch has it: the reset gate multiplies the recurrent product of the candidate, bias included.

A tick's gate columns are [recurrent part of the candidate, reset, update, entering part of the candidate], so that both the
input's product (the last three) and the recurrent one (the first three) go into one contiguous range. The rows of
`weight_hidden` are therefore in the order candidate, reset, update; those of `weight_input` reset, update, candidate.
"""

from __future__ import annotations

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
    packed = staticmethod(torch._VF.gru)

    def __init__(self, input_size: int, context_size: int, hidden_size: int, tokens: bool, context: str = "input"):
        super().__init__(input_size, context_size, hidden_size, tokens, context)
        self.bias_hidden = nn.Parameter(self.bias.detach()[:hidden_size].clone())

    def extra_bias(self) -> Tensor:
        return self.bias_hidden

    def add_gradients(self, buffers: dict[str, Tensor], d_gates: Tensor, inputs: Tensor, before: Tensor | None) -> None:
        super().add_gradients(buffers, d_gates, inputs, before)
        buffers["bias_hidden"].add_(wide(d_gates[:, : self.hidden_size]).sum(0))

    def torch_weights(self) -> list[Tensor]:
        size, zeros = self.hidden_size, torch.zeros_like(self.bias)
        recurrent = torch.cat([self.weight_hidden[size:], self.weight_hidden[:size]])
        return [self.weight_input, recurrent, self.bias, torch.cat([zeros[size:], self.bias_hidden])]

    def literal(self, entered: Tensor, recurrent: Tensor | None, state: CellState) -> CellState:
        r, z, n = entered.chunk(3, 1)
        if recurrent is None:
            n = (n + r.sigmoid() * self.bias_hidden).tanh()
            return (n - z.sigmoid() * n,)
        m_h, r_h, z_h = recurrent.chunk(3, 1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        n = (n + r * (m_h + self.bias_hidden)).tanh()
        return (n + z * (state[0] - n),)
