"""A short step in C: one call for all levels, the clock and the history. native/step.h has the other half."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_char_p, c_int64
from functools import cache
from struct import Struct

import torch
from torch import Tensor

from hrnn import native
from hrnn.cells import GRU, LSTM, RNN
from hrnn.segments import Clock
from hrnn.state import State
from hrnn.streaming.plan import Plan, kept, ticking

MOST_ROWS = 8  # beyond which torch's products of matrices are quicker than those of one row after the other
_KINDS: dict[type, int] = {LSTM: 0, GRU: 1, RNN: 2}
_NAMES = {torch.float32: "f32", torch.float64: "f64"}


@cache
def function(dtype: torch.dtype) -> Callable[[bytes, bytes], int] | None:
    """The step for numbers of this dtype, or None where there is no native code."""
    found = getattr(native.library(), f"hrnn_{_NAMES[dtype]}_step_{native.level()}", None)
    if found is not None:
        found.argtypes, found.restype = [c_char_p, c_char_p], c_int64
    return found


def step(plan: Plan, run: Callable[[bytes, bytes], int], x: Tensor, state: State, finite: bool) -> tuple[Tensor, State] | None:
    """The output and the state after; None if numbers are not in order, or rows at different places."""
    clock = state.clock
    top = ticking(clock.position.tolist()[0])
    if plan.tokens:
        x = x.long()
    old = [[_contiguous(part) for part in cell] for cell in state.cells]
    new = [tuple([torch.empty_like(part) for part in cell]) for cell in old[: top + 1]]
    history = [_contiguous(slots) for slots in state.history]
    remembered = [torch.empty_like(slots) for slots in history[: top + 1]]
    output = torch.empty_like(old[0][0])
    counts = [_contiguous(t) for t in (x, state.row, clock.ticked, clock.position, clock.span, clock.ordinal, clock.skipped)]
    position, span = torch.empty_like(counts[3]), torch.empty_like(counts[4])
    ordinal = torch.empty_like(counts[5]) if top else None
    words = [x.shape[0], top, finite, counts[0].data_ptr(), output.data_ptr(), *[t.data_ptr() for t in counts[1:]]]
    words += [position.data_ptr(), span.data_ptr(), 0 if ordinal is None else ordinal.data_ptr()]
    for i, cell in enumerate(old):
        words += [cell[0].data_ptr(), cell[1].data_ptr() if len(cell) > 1 else 0]
        words += [new[i][0].data_ptr(), new[i][1].data_ptr() if len(cell) > 1 else 0] if i <= top else [0, 0]
        words.append(history[i].data_ptr() if i < len(history) else 0)
        words.append(remembered[i].data_ptr() if i < len(remembered) else 0)
    if run(packed(plan), _words(len(words)).pack(*words)):
        return None
    new += [tuple([kept(part) for part in cell]) for cell in state.cells[top + 1 :]]
    remembered += [kept(slots) for slots in state.history[top + 1 :]]
    after = Clock(position, span, clock.ordinal if ordinal is None else ordinal, clock.ticked, clock.skipped)
    return output, State.of(tuple(new), after, state.row, tuple(remembered))


def packed(plan: Plan) -> bytes:
    """Sizes and the places of the weights, as C reads them; made again when a weight has gone elsewhere."""
    places = [p.data_ptr() for p, _ in plan.shapes]
    known = plan.packed
    if known is None or known[0] != places:
        words = [len(plan.levels), plan.tokens]
        for level, period in zip(plan.levels, [*plan.periods, 0], strict=True):
            words += [_KINDS[level.kind], level.inputs, level.context, level.hidden, period]
            parts = level.weight_input, level.weight_context, level.weight_hidden, level.bias, level.bias_hidden
            words += [0 if part is None else part.data_ptr() for part in parts]
        plan.packed = known = places, _words(len(words)).pack(*words)
    return known[1]


@cache
def _words(count: int) -> Struct:
    return Struct(f"={count}q")


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_contiguous() else tensor.contiguous()
