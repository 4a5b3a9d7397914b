"""Consecutive ticks of one level for rows of which ever fewer go on, under autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from hrnn.cells import LSTM, BuiltinCell, Cell, CellState, by_hand
from hrnn.cells.contract import one_hot
from hrnn.room import ceiling

_WASTE, _SPARE = 1.5, 128  # ticks that may be run for nothing: half of those that are wanted, and so many
_ROUND = 16  # rows of a rectangle are so many, or twice, or three times


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
    at_once = plain and len(sizes) > 1 and reset is None and context is None and cell.input_size <= 4 * cell.hidden_size
    runs = list(_runs(cell, sizes, inputs.device)) if at_once else [[size] for size in sizes]
    done = 0
    for run, u in zip(runs, inputs.split([sum(run) for run in runs]), strict=True):
        size, state = run[0], None if state is None else shrunk(state, run[0], ends)
        if len(run) > 1:
            assert state is not None
            output, state = _packed(cell, u, run, state)
            outputs.append(output)
        else:
            first = None if reset is None else reset[done : done + size, None]
            state = call(u, state, first, None, None if context is None else context[:size])
            assert state is not None
            outputs.append(state[0])
        context, done = None, done + len(u)
    assert state is not None
    hidden = outputs[0] if len(outputs) == 1 else torch.cat(outputs) if outputs else state[0][:0]
    return hidden, grown(state, ends)


def _runs(cell: Any, sizes: list[int], device: torch.device) -> Iterator[list[int]]:
    """Ticks by their sizes, as torch's operation gets them. For its LSTM on a CPU these are rectangles: where sizes change it
    takes two to three times as long."""
    if not _in_rectangles(cell, device):
        yield sizes
        return
    begin = total = 0
    for i, size in enumerate(sizes):
        total += size
        if sizes[begin] * (i + 1 - begin) > _WASTE * total + _SPARE:
            yield sizes[begin:i]
            begin, total = i, size
    yield sizes[begin:]


def _in_rectangles(cell: Any, device: torch.device) -> bool:
    return isinstance(cell, LSTM) and device.type == "cpu"


def _packed(cell: Any, inputs: Tensor, sizes: list[int], state: CellState) -> tuple[Tensor, CellState]:
    """Several ticks by one operation of torch's, that of its own layers for packed sequences."""
    if sizes[-1] < sizes[0] and _in_rectangles(cell, inputs.device):
        return _rectangle(cell, inputs, sizes, state)
    return _by_torch(cell, inputs, sizes, state, cell.torch_weights())


def _rectangle(cell: LSTM, inputs: Tensor, sizes: list[int], state: CellState) -> tuple[Tensor, CellState]:
    """The same for an LSTM all of whose rows run to the last tick. Of rows that have had theirs the hidden state is forgotten,
    and c is kept as it is by one more input, which is 1 there and 0 elsewhere."""
    # oneDNN makes and keeps code for every shape: so there are not many.
    rows, step = sizes[0], max(1, len(sizes) // 5)
    n, length = _ROUND * ceiling(rows, _ROUND), step * ceiling(len(sizes), step)
    there = np.arange(n) < np.array(sizes + [0] * (length - len(sizes)))[:, None]
    at = torch.from_numpy(np.flatnonzero(there))
    last = torch.from_numpy((there.sum(0)[:rows] - 1) * n + np.arange(rows))
    weights = cell.torch_weights()
    weights[0] = torch.cat([weights[0], cell.keeping()], 1)
    if cell.tokens:
        over = inputs.new_full((n * length,), cell.input_size)
    else:
        inputs, over = F.pad(inputs, (0, 1)), F.pad(inputs.new_zeros(n * length, cell.input_size), (0, 1), value=1.0)
    state = tuple(F.pad(part, (0, 0, 0, n - rows)) for part in state) if n > rows else state
    output, (_, c) = _by_torch(cell, over.index_copy(0, at, inputs), [n] * length, state, weights)
    return output.index_select(0, at), (output.index_select(0, last), c[:rows])


def _by_torch(cell: Any, inputs: Tensor, sizes: list[int], state: CellState, weights: list[Tensor]) -> tuple[Tensor, CellState]:
    if cell.tokens:
        inputs = one_hot(inputs, weights[0].shape[1], cell.bias.dtype)
    before = [part[None] for part in state]
    output, *after = cell.packed(
        inputs, torch.tensor(sizes), before if len(before) > 1 else before[0], weights, True, 1, 0.0, True, False
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
