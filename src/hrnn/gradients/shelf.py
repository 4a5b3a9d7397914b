"""Where states wait while steps are run: in buffers that are made once. States that are allocated one by one, between pieces
that come and go, would leave holes in the process's memory that nothing fits into."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hrnn.forward import Midway
from hrnn.segments import Clock
from hrnn.state import State


class Shelf:
    """Room for some states, one in each slot."""

    def __init__(self, slots: int, like: State):
        self._cells = tuple(tuple(_buffer(part, slots) for part in cell) for cell in like.cells)
        self._clock = {name: _buffer(part, slots) for name, part in vars(like.clock).items()}
        self._history = tuple(_buffer(part, slots) for part in like.history)

    def keep(self, slot: int, at: Midway) -> Midway:
        """The same, its state in a slot, whose last one is gone."""
        state = at.state
        cells = tuple(
            tuple(_kept(buffer, slot, part) for buffer, part in zip(buffers, cell, strict=True))
            for buffers, cell in zip(self._cells, state.cells, strict=True)
        )
        clock = Clock(**{name: _kept(self._clock[name], slot, part) for name, part in vars(state.clock).items()})
        history = tuple(_kept(buffer, slot, part) for buffer, part in zip(self._history, state.history, strict=True))
        return replace(at, state=State.of(cells, clock, state.row, history))


def _buffer(part: Tensor, slots: int) -> Tensor:
    return torch.empty(slots, *part.shape, dtype=part.dtype, device=part.device)


def _kept(buffer: Tensor, slot: int, part: Tensor) -> Tensor:
    return buffer[slot].copy_(part)
