"""What the built-in cells share: parameters, and the products that enter and leave a tick.

A tick is `gates = bias + W_input u + W_context context` (first tick of a segment) or `bias + W_input u + W_hidden h`
(every other), then activations that each cell supplies. Differentiating ticks by hand splits in three:

    coefficients   everything that does not depend on the recurrence, once for many ticks
    sweep          the loop backward through time, with only what is truly sequential in it
    add_gradients  one product for many ticks and each weight

Shapes are (tick, row, feature). `gates` holds `self.gate_blocks` blocks of `hidden_size` columns; the input's products go
into the columns `input_columns`, the recurrent one into `hidden_columns` (they differ for the GRU only).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.cells.contract import CellState, Prepared
from hrnn.native.functions import scatter
from hrnn.precision import summed_in, wide


@dataclass
class Weights(Prepared):
    """For ticks in torch. The forward ones are scaled, see `scale`."""

    cell: BuiltinCell
    back_input: Tensor
    back_context: Any
    table: Tensor | None  # tokens: (vocabulary, gates), biases included
    input: Any  # vectors: (input_size, input gates); None for tokens
    bias: Tensor  # (gates,)
    context: Any  # (context_size, input gates); None at the top
    hidden: Tensor  # (hidden_size, hidden gates)
    back_hidden: Tensor  # unscaled

    def again(self) -> Prepared:
        cell, fields = self.cell, vars(self)
        fields.clear()  # first, or at the peak of memory there are two of everything
        fields.update(vars(cell.prepare()))
        return self


class BuiltinCell(nn.Module, ABC):
    """Parameters in the layout of `torch.nn.LSTM` and its kin, with one bias where theirs have two that only add up."""

    gate_blocks: ClassVar[int]  # blocks of hidden_size columns that a tick computes
    input_blocks: ClassVar[slice]  # which of them the input, the context and the bias enter
    hidden_blocks: ClassVar[slice]  # which of them the recurrent product enters
    state_parts: ClassVar[int]  # tensors in the cell's state, the hidden state first
    scratch_parts: ClassVar[int]  # further tensors of the state's size that a tick keeps for its differentiation

    def __init__(self, input_size: int, context_size: int, hidden_size: int, tokens: bool):
        super().__init__()
        self.input_size, self.context_size, self.hidden_size, self.tokens = (
            input_size,
            context_size,
            hidden_size,
            tokens,
        )
        size = hidden_size
        self.input_columns = slice(self.input_blocks.start * size, self.input_blocks.stop * size)
        self.hidden_columns = slice(self.hidden_blocks.start * size, self.hidden_blocks.stop * size)
        entering = self.input_columns.stop - self.input_columns.start
        recurrent = self.hidden_columns.stop - self.hidden_columns.start
        self.weight_input = nn.Parameter(torch.empty(entering, input_size))
        self.weight_context = nn.Parameter(torch.empty(entering, context_size)) if context_size else None
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

    # What a cell supplies.

    def scale(self) -> Tensor | None:
        """Factors (gates,) on the gates' inputs that turn all activations into one sigmoid, or None."""
        return None

    def extra_bias(self) -> Tensor | None:
        """The bias of the gate columns that the input does not enter, or None where it enters all."""
        return None

    @abstractmethod
    def views(self, gates: Tensor, before: CellState, after: CellState, scratch: CellState) -> tuple[Tensor, ...]:
        """The tensors that `activate` wants for one tick, cut out of the buffers."""

    @abstractmethod
    def activate(self, views: tuple[Tensor, ...]) -> None:
        """From summed products in `gates` and the state before to the state after, all in place."""

    @abstractmethod
    def backward_views(self, gates: Tensor, before: CellState, scratch: CellState, out: Tensor, d_hidden: Tensor) -> Any:
        """The tensors that the next three want for a block of ticks, cut out of the buffers; all are (ticks, rows, ...).

        `out`, of the shape of `gates`, first holds coefficients, then the gradients of the gates' inputs. `d_hidden` is the
        gradient that reaches each hidden state from outside, and is added to.
        """

    @abstractmethod
    def coefficients(self, views: Any) -> None:
        """Write what `sweep` multiplies by."""

    @abstractmethod
    def sweep(self, views: Any, back_hidden: Tensor, carry: CellState, keep: Tensor | None) -> None:
        """Backward through the ticks of a block: turn coefficients into gradients of the gates' inputs.

        `carry` is the gradient of the state after the last tick, part by part without the hidden state, and becomes that of
        the state before the first. `keep` (ticks, rows, 1) is zero where a tick starts a segment.
        """

    @abstractmethod
    def carry_hidden(self, views: Any, back_hidden: Tensor) -> Tensor:
        """After the sweep: the gradient (rows, hidden) of the hidden state before the block's first tick."""

    # Products.

    def prepare(self, own: bool = False) -> Weights:
        """Weights for many ticks; to be made again when the parameters have changed. `own`: they share no memory with the
        parameters, and stay what they are when these move."""
        with torch.no_grad():
            scale, extra = self.scale(), self.extra_bias()
            weight_input, weight_hidden = self.weight_input.detach(), self.weight_hidden.detach()
            context = None if self.weight_context is None else self.weight_context.detach()
            if own:
                weight_input, weight_hidden = weight_input.clone(), weight_hidden.clone()
                context = None if context is None else context.clone()
            bias = self.bias.detach() if extra is None else torch.cat([extra.detach(), self.bias.detach()])
            entering, forward_context, recurrent = weight_input, context, weight_hidden
            if scale is not None:
                entering, recurrent, bias = weight_input * scale[:, None], weight_hidden * scale[:, None], bias * scale
                forward_context = None if context is None else context * scale[:, None]
            table = None
            if self.tokens:
                table = bias.expand(self.input_size, -1).clone()
                table[:, self.input_columns] += entering.t()
            return Weights(
                self,
                table=table,
                input=None if self.tokens else entering.t(),
                bias=bias,
                context=None if forward_context is None else forward_context.t(),
                hidden=recurrent.t(),
                back_input=weight_input,
                back_context=context,
                back_hidden=weight_hidden,
            )

    def enter(self, weights: Weights, inputs: Tensor, gates: Tensor) -> None:
        """Fill `gates` (n, gates) with biases and the products of `inputs` (n,) or (n, input_size)."""
        if weights.table is not None:
            torch.index_select(weights.table, 0, inputs, out=gates)
        elif self.extra_bias() is None:
            if self.input_size == 1:  # an outer product is quicker than a matrix product of this shape
                torch.addcmul(weights.bias, inputs, weights.input, out=gates)
            else:
                torch.addmm(weights.bias, inputs, weights.input, out=gates)
        else:
            gates.copy_(weights.bias.expand_as(gates))
            gates[:, self.input_columns].addmm_(inputs, weights.input)

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

    # The slow, literal tick, differentiable by autograd, for rows that each go their own way.

    def tick(
        self, inputs: Tensor, state: CellState, first: Tensor | None, rows: Tensor | None, context: Tensor | None
    ) -> CellState:
        """One tick of some rows, under autograd; arguments as in `UserCell.tick`."""
        if first is not None:
            state = tuple(s.masked_fill(first, 0.0) for s in state)
        entered = (
            F.embedding(inputs, self.weight_input.t()) + self.bias
            if self.tokens
            else F.linear(inputs, self.weight_input, self.bias)
        )
        if context is not None:
            assert self.weight_context is not None
            product = F.linear(context, self.weight_context)
            entered = entered + product if rows is None else entered.index_add(0, rows, product)
        return self.literal(entered, F.linear(state[0], self.weight_hidden), state)

    forward = tick  # so that hooks, and torch.func.functional_call, find it

    @abstractmethod
    def literal(self, entered: Tensor, recurrent: Tensor, state: CellState) -> CellState:
        """The textbook equations: the input's products (rows, input gates), the recurrent ones, the state before."""
