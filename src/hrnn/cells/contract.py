"""What a cell is, for whoever writes one.

A cell of the user's is an `nn.Module` with two methods:

    initial_state(batch) -> tuple of tensors, each (batch, ...)
    step(inputs, state) -> the next state, a tuple of the same shapes

The first tensor of the state is the hidden state, (batch, hidden_size): it is what the level outputs, sends up and sends
down. The rest is the cell's own. `inputs` is (batch, input_size + context_size): what comes from below (a one-hot vector
where the hierarchy reads tokens) and, behind it, the context from above, which is zero except at the first tick of a
segment. The hierarchy resets a cell by calling `initial_state`.

With `HRNN(context="state")` the context is no input: a segment starts from the state that a third method makes of it, and
`initial_state` is that of the top level and of what has not begun:

    from_context(context) -> tuple of tensors, as `initial_state`, from the hidden state above, (batch, context_size)

    class Minimal(nn.Module):
        def __init__(self, input_size, hidden_size):
            super().__init__()
            self.hidden_size = hidden_size
            self.gate = nn.Linear(input_size + hidden_size, hidden_size)
            self.value = nn.Linear(input_size, hidden_size)

        def initial_state(self, batch):
            return (self.value.weight.new_zeros(batch, self.hidden_size),)

        def step(self, inputs, state):
            (h,) = state
            keep = torch.sigmoid(self.gate(torch.cat([inputs, h], 1)))
            return (keep * h + (1 - keep) * torch.tanh(self.value(inputs)),)

    model = hrnn.HRNN(8, hidden_sizes=[32, 64], periods=[10], cell=Minimal)

Ticks are differentiated by autograd, so a cell may do whatever autograd can: normalise, drop out, zone out. Its random numbers
follow the batches: torch's own seed is put back after each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CellState = tuple[Tensor, ...]


def one_hot(tokens: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """Zeros where there is no token, -1."""
    return (tokens[..., None] == torch.arange(count, device=tokens.device)).to(dtype)


class UserCell(nn.Module):
    """A user's module behind the interface that the hierarchy uses; `BuiltinCell` is the other implementation of it."""

    def __init__(
        self, module: nn.Module, input_size: int, context_size: int, hidden_size: int, tokens: bool, context: str = "input"
    ):
        super().__init__()
        self.starts_from_context = context == "state" and context_size > 0
        for method in ("step", "initial_state", *["from_context"] * self.starts_from_context):
            if not callable(getattr(module, method, None)):
                also = ", and from_context(context) for context='state'" if self.starts_from_context else ""
                raise TypeError(
                    f"cell {type(module).__name__} has no method {method}(); a cell is an nn.Module with step(inputs, state) "
                    f"and initial_state(batch){also}"
                )
        self.module = module
        self.input_size, self.context_size, self.hidden_size, self.tokens = (
            input_size,
            context_size,
            hidden_size,
            tokens,
        )

    def initial_state(self, batch: int) -> CellState:
        """The state of `batch` rows before their first tick."""
        return self._checked(self.module.initial_state(batch), batch, "initial_state")  # type: ignore[operator]

    def from_context(self, context: Tensor) -> CellState:
        """The state before a segment's first tick."""
        return self._checked(self.module.from_context(context), len(context), "from_context")  # type: ignore[operator]

    def tick(
        self, inputs: Tensor, state: CellState | None, first: Tensor | None, rows: Tensor | None, context: Tensor | None
    ) -> CellState:
        """One tick of some rows, under autograd. The rows where `first` (batch, 1) is true start a segment; `context`
        (n, context) is for the rows numbered by `rows` (n), or for all of them where `rows` is None. state: None where all
        start from the context."""
        batch = inputs.shape[0]
        if state is None:
            assert context is not None
            state, context = self.from_context(context), None
        if self.tokens:
            inputs = one_hot(inputs, self.input_size, state[0].dtype)
        if self.context_size and not self.starts_from_context:
            full = inputs.new_zeros(batch, self.context_size)
            if context is not None:
                full = context if rows is None else full.index_copy(0, rows, context)
            inputs = torch.cat([inputs, full], 1)
        if first is not None:
            fresh = self.initial_state(batch)
            state = tuple(torch.where(first.view(-1, *[1] * (s.dim() - 1)), f, s) for f, s in zip(fresh, state, strict=True))
        return self._checked(self.module.step(inputs, state), batch, "step", state)  # type: ignore[operator]

    forward = tick  # hooks, and torch.func.functional_call, which runs it with other weights, want a call of the module

    def _checked(self, state: Any, batch: int, method: str, like: CellState | None = None) -> CellState:
        name = f"{type(self.module).__name__}.{method}"
        if not isinstance(state, tuple) or not all(isinstance(s, Tensor) for s in state) or not state:
            raise TypeError(f"cell {name} returned {type(state).__name__}; return a tuple of tensors, the hidden state first")
        if state[0].shape != (batch, self.hidden_size):
            raise ValueError(
                f"cell {name} returned a hidden state of shape {tuple(state[0].shape)}; expected "
                f"({batch}, {self.hidden_size}), that is (batch, hidden_size), as the first tensor of the tuple"
            )
        shapes = [tuple(s.shape) for s in state]
        if any(not shape or shape[0] != batch for shape in shapes):
            raise ValueError(f"cell {name} returned shapes {shapes}; the first dimension of each must be the batch, {batch}")
        if like is not None and shapes != (expected := [tuple(s.shape) for s in like]):
            raise ValueError(f"cell {name} returned shapes {shapes}; expected those of the state it was given, {expected}")
        return state
