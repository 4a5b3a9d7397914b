"""Consecutive ticks of one level for rows of which ever fewer go on, under autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, Cell, CellState, by_hand
from hrnn.cells.contract import one_hot


def run_ticks(
    cell: Cell, call: Callable[..., Any], inputs: Tensor, sizes: list[int], state: CellState | None, context: Tensor | None,
    reset: Tensor | None = None,
) -> tuple[Tensor, CellState]:  # fmt: skip
    """Inputs (ticks, ...), of which tick j has those of the first sizes[j] rows, to the hidden states (ticks, hidden) and the
    state (n, ...) that each row has after its last tick.

    call: the cell, or what stands for it; state: None where segments start; context (n, context): of the first tick; reset
    (ticks,): a sequence starts
    """
    plain = call is cell and by_hand(cell)
    outputs: list[Tensor] = []
    ends: list[CellState] = []
    if state is None and plain and cell.starts_from_context:
        assert context is not None
        state, context = cell.from_context(context), None
    elif state is None and plain:
        assert isinstance(cell, BuiltinCell)
        state = cell.start(inputs[: sizes[0]], context)
        outputs, inputs, sizes, context = [state[0]], inputs[sizes[0] :], sizes[1:], None
    elif state is None and not cell.starts_from_context:
        state = cell.initial_state(sizes[0])
    # For a single tick torch's operation is hardly quicker, and its LSTM allocates 26 vectors for it: by hand they are 8.
    if plain and len(sizes) > 1 and reset is None and context is None and cell.input_size <= 4 * cell.hidden_size:
        assert state is not None
        state = shrunk(state, sizes[0], ends)
        output, state = _packed(cell, inputs, sizes, state)
        outputs.append(output)
    else:
        done = 0
        for size, u in zip(sizes, inputs.split(sizes), strict=True):
            state = None if state is None else shrunk(state, size, ends)
            first = None if reset is None else reset[done : done + size, None]
            state = call(u, state, first, None, None if context is None else context[:size])
            assert state is not None
            outputs.append(state[0])
            context, done = None, done + size
    assert state is not None
    hidden = outputs[0] if len(outputs) == 1 else torch.cat(outputs) if outputs else state[0][:0]
    return hidden, grown(state, ends)


def _packed(cell: Any, inputs: Tensor, sizes: list[int], state: CellState) -> tuple[Tensor, CellState]:
    """All ticks by one operation of torch's, that of its own layers for packed sequences."""
    if cell.tokens:
        inputs = one_hot(inputs, cell.input_size, cell.bias.dtype)
    before = [part[None] for part in state]
    output, *after = cell.packed(
        inputs, torch.tensor(sizes), before if len(before) > 1 else before[0], cell.torch_weights(), True, 1, 0.0, True, False
    )
    return output, tuple(part[0] for part in after)


def shrunk(state: CellState, size: int, ends: list[CellState]) -> CellState:
    """That of the first rows; the others have had their last tick."""
    if size == len(state[0]):
        return state
    ends.append(tuple(part[size:] for part in state))
    return tuple(part[:size] for part in state)


def grown(state: CellState, ends: list[CellState]) -> CellState:
    """That of all rows again."""
    return tuple(torch.cat(parts) for parts in zip(state, *ends[::-1], strict=True)) if ends else state
