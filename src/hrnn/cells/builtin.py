"""What the built-in cells share: parameters, the literal tick, and gradients of weights from those of many ticks' gates.

A tick is `gates = bias + W_input u + W_context context` (first tick of a segment) or `bias + W_input u + W_hidden h`
(every other), then the textbook's equations, which each cell supplies. Shapes are (tick, row, feature). `gates` holds
`self.gate_blocks` blocks of `hidden_size` columns; the input's products go into the columns `input_columns`, the recurrent one
into `hidden_columns` (they differ for the GRU only).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.cells.contract import CellState
from hrnn.native.functions import scatter
from hrnn.precision import summed_in, wide


class BuiltinCell(nn.Module, ABC):
    """Parameters in the layout of `torch.nn.LSTM` and its kin, with one bias where theirs have two that only add up."""

    gate_blocks: ClassVar[int]  # blocks of hidden_size columns that a tick computes
    input_blocks: ClassVar[slice]  # which of them the input, the context and the bias enter
    hidden_blocks: ClassVar[slice]  # which of them the recurrent product enters
    state_parts: ClassVar[int]  # tensors in the cell's state, the hidden state first
    packed: ClassVar[Any]  # torch's operation for ticks of packed rows

    def __init__(self, input_size: int, context_size: int, hidden_size: int, tokens: bool, context: str = "input"):
        super().__init__()
        self.input_size, self.context_size, self.hidden_size, self.tokens = (
            input_size,
            context_size,
            hidden_size,
            tokens,
        )
        self.starts_from_context = context == "state" and context_size > 0
        size = hidden_size
        self.input_columns = slice(self.input_blocks.start * size, self.input_blocks.stop * size)
        self.hidden_columns = slice(self.hidden_blocks.start * size, self.hidden_blocks.stop * size)
        entering = self.input_columns.stop - self.input_columns.start
        recurrent = self.hidden_columns.stop - self.hidden_columns.start
        self.weight_input = nn.Parameter(torch.empty(entering, input_size))
        columns = self.state_parts * size if self.starts_from_context else entering
        self.weight_context = nn.Parameter(torch.empty(columns, context_size)) if context_size else None
        self.bias_context = nn.Parameter(torch.empty(columns)) if self.starts_from_context else None
        self.weight_hidden = nn.Parameter(torch.empty(recurrent, size))
        self.bias = nn.Parameter(torch.empty(entering))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in plus or minus one over the root of the hidden size, as in torch; the cells adjust their biases."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def initial_state(self, batch: int) -> CellState:
        """The state of `batch` rows before their first tick: zeros."""
        return tuple(self.weight_hidden.new_zeros(batch, self.hidden_size) for _ in range(self.state_parts))

    def from_context(self, context: Tensor) -> CellState:
        """The state before a segment's first tick, where that is what the context (n, context_size) becomes."""
        assert self.weight_context is not None
        hidden, *rest = F.linear(context, self.weight_context, self.bias_context).chunk(self.state_parts, -1)
        return hidden.tanh(), *rest

    def extra_bias(self) -> Tensor | None:
        """The bias of the gate columns that the input does not enter, or None where it enters all."""
        return None

    # Gradients of many ticks at once, from those of their gates, which compiled code has found.

    def zero_gradients(self) -> dict[str, Tensor]:
        """Private buffers that gradients are gathered in; `gradients` turns them into the parameters' own."""
        dtype = summed_in(self.bias.dtype)
        buffers = {name: torch.zeros_like(parameter, dtype=dtype) for name, parameter in self.named_parameters()}
        if self.tokens:  # rows are added to, so they must be rows
            buffers["weight_input"] = self.weight_input.new_zeros(self.input_size, self.weight_input.shape[0], dtype=dtype)
        return buffers

    def add_gradients(self, buffers: dict[str, Tensor], d_gates: Tensor, inputs: Tensor, before: Tensor | None) -> None:
        """Add what n ticks contribute: d_gates (n, gates), inputs (n, ...), before (n, hidden) the hidden states before."""
        entering = wide(d_gates[:, self.input_columns])
        if self.tokens:  # the bias is the sum over the vocabulary: see `gradients`
            scatter(buffers["weight_input"], inputs, entering)
        else:
            buffers["weight_input"].addmm_(entering.t(), wide(inputs))
            buffers["bias"].add_(entering.sum(0))
        if before is not None:
            self.add_hidden_gradients(buffers, d_gates, before)

    def add_hidden_gradients(self, buffers: dict[str, Tensor], d_gates: Tensor, before: Tensor) -> None:
        """The recurrent weights' share of `add_gradients`."""
        buffers["weight_hidden"].addmm_(wide(d_gates[:, self.hidden_columns]).t(), wide(before))

    def add_context_gradients(self, buffers: dict[str, Tensor], d_gates: Tensor, context: Tensor) -> None:
        """Add what the first ticks of segments contribute: d_gates (n, gates), context (n, context_size)."""
        buffers["weight_context"].addmm_(wide(d_gates[:, self.input_columns]).t(), wide(context))

    def gradients(self, buffers: dict[str, Tensor]) -> dict[Tensor, Tensor]:
        """Each parameter's gradient from the gathered buffers."""
        if self.tokens:
            table = buffers["weight_input"]
            buffers = {**buffers, "weight_input": table.t(), "bias": table.sum(0)}
        return {parameter: buffers[name] for name, parameter in self.named_parameters()}

    # The literal tick, differentiable by autograd.

    def tick(
        self, inputs: Tensor, state: CellState | None, first: Tensor | None, rows: Tensor | None, context: Tensor | None
    ) -> CellState:
        """One tick of some rows, under autograd; arguments as in `UserCell.tick`."""
        if state is None:
            assert context is not None
            state, context = self.from_context(context), None
        if first is not None:
            state = tuple(s.masked_fill(first, 0.0) for s in state)
        entered = self._entered(inputs)
        if context is not None:
            assert self.weight_context is not None
            product = F.linear(context, self.weight_context)
            entered = entered + product if rows is None else entered.index_add(0, rows, product)
        return self.literal(entered, F.linear(state[0], self.weight_hidden), state)

    forward = tick  # so that hooks, and torch.func.functional_call, find it

    def start(self, inputs: Tensor, context: Tensor | None) -> CellState:
        """The first tick of a segment: from zero, so there is no recurrent product."""
        entered = self._entered(inputs)
        if context is not None and self.weight_context is not None:
            entered = torch.addmm(entered, context, self.weight_context.t())
        return self.literal(entered, None, ())

    def _entered(self, inputs: Tensor) -> Tensor:
        if self.tokens:
            entered = F.embedding(inputs.clamp(min=0), self.weight_input.t())
            there = inputs >= 0  # before a sequence's start there are ticks without a token
            return (entered if bool(there.all()) else entered * there[:, None]) + self.bias
        return F.linear(inputs, self.weight_input, self.bias)

    @abstractmethod
    def literal(self, entered: Tensor, recurrent: Tensor | None, state: CellState) -> CellState:
        """The textbook equations: the input's products (rows, input gates), the recurrent ones, the state before; without
        these two where it is zero."""

    @abstractmethod
    def torch_weights(self) -> list[Tensor]:
        """Those of the input, the recurrent ones and both biases, in the order of torch's own layers."""
