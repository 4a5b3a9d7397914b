"""`State`: all that a hierarchy remembers between two calls, one explicit object for training, streaming and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hrnn.cells import CellState
from hrnn.segments import Clock

_CLOCK = ("position", "span", "ordinal", "skipped")


@dataclass(frozen=True)
class State:
    """Nothing in it is ever modified in place; a call returns a new one.

    cells:   for each level, lowest first, the cell's state: a tuple of (batch, ...), the hidden state first
    clock:   where each row is in its segments; `clock.skipped` counts the local losses that had to be left out
    row:     (batch,) each row's number, which sampled indices depend on: with it, rows may be split over processes
    history: for each level below the top that has a decoder, (reach, batch, ...): the inputs of the current segment that
             the local loss may still have to decode; the input at place p of the segment is in slot p modulo reach
    """

    cells: tuple[CellState, ...]
    clock: Clock
    row: Tensor
    history: tuple[Tensor, ...]

    @property
    def batch(self) -> int:
        """How many rows there are."""
        return self.row.shape[0]

    @property
    def hidden(self) -> tuple[Tensor, ...]:
        """The hidden state of each level, (batch, hidden), lowest first."""
        return tuple(cell[0] for cell in self.cells)

    @property
    def skipped(self) -> Tensor:
        """(batch, levels below the top): local losses left out because a segment's end was not known in time."""
        return self.clock.skipped

    def _map(self, floats: Any, integers: Any, history: Any) -> State:
        clock = Clock(**{name: integers(getattr(self.clock, name)) for name in (*_CLOCK, "ticked")})
        cells = tuple(tuple(floats(part) for part in cell) for cell in self.cells)
        return State(cells, clock, integers(self.row), tuple(history(h) for h in self.history))

    def detach(self) -> State:
        """Without the graph that led to it."""
        return self._map(Tensor.detach, Tensor.detach, Tensor.detach)

    def clone(self) -> State:
        """A copy that shares no memory."""
        return self._map(Tensor.clone, Tensor.clone, Tensor.clone)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> State:
        """On another device, or with its floating-point tensors in another dtype."""

        def floats(t: Tensor) -> Tensor:
            return t.to(device=device, dtype=dtype if t.is_floating_point() else None)

        return self._map(floats, lambda t: t.to(device=device), floats)

    def select(self, rows: Tensor) -> State:
        """Only the rows that `rows`, numbers or booleans, picks, in that order."""
        if rows.dtype == torch.bool:
            rows = rows.nonzero()[:, 0]
        return self._map(lambda t: t[rows], lambda t: t[rows], lambda t: t[:, rows])

    @staticmethod
    def together(states: Sequence[State]) -> State:
        """The rows of several states as one, in that order; `select` takes them apart again."""
        first = states[0]
        clocks = [state.clock for state in states]
        return State(
            tuple(
                tuple(torch.cat(parts) for parts in zip(*cells, strict=True))
                for cells in zip(*(state.cells for state in states), strict=True)
            ),
            Clock(**{name: torch.cat([getattr(clock, name) for clock in clocks]) for name in (*_CLOCK, "ticked")}),
            torch.cat([state.row for state in states]),
            tuple(torch.cat([state.history[i] for state in states], 1) for i in range(len(first.history))),
        )

    def tensors(self) -> dict[str, Tensor]:
        """All of it as named tensors, for a checkpoint; `from_tensors` is the way back."""
        named = {f"cells.{i}.{j}": part for i, cell in enumerate(self.cells) for j, part in enumerate(cell)}
        named |= {name: getattr(self.clock, name) for name in _CLOCK}
        named |= {f"history.{i}": h for i, h in enumerate(self.history)}
        return {name: t.detach().contiguous() for name, t in (named | {"row": self.row}).items()}

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> State:
        """The state that `tensors` came from."""
        missing = [name for name in (*_CLOCK, "row", "cells.0.0") if name not in tensors]
        if missing:
            raise ValueError(f"tensors has no {missing[0]!r}; it does not describe a State (it has {sorted(tensors)[:6]})")
        cells: list[CellState] = []
        while f"cells.{len(cells)}.0" in tensors:
            parts: list[Tensor] = []
            while (name := f"cells.{len(cells)}.{len(parts)}") in tensors:
                parts.append(tensors[name])
            cells.append(tuple(parts))
        history = [tensors[f"history.{i}"] for i in range(len(cells)) if f"history.{i}" in tensors]
        clock = Clock(
            **{name: tensors[name] for name in _CLOCK}, ticked=torch.zeros_like(tensors["position"], dtype=torch.bool)
        )
        return State(tuple(cells), clock, tensors["row"], tuple(history))

    def save(self, path: str | Path) -> None:
        """Write it as safetensors."""
        save_file({name: t.clone() for name, t in self.tensors().items()}, str(path))

    @staticmethod
    def load(path: str | Path, device: str = "cpu") -> State:
        """Read what `save` wrote."""
        # Copies: tensors in a file are not aligned as torch's own are, and products then differ in the last bit.
        return State.from_tensors({name: t.clone() for name, t in load_file(str(path), device=device).items()})

    def with_rows(self, row: Tensor) -> State:
        """With other row numbers: for a process that has rows `row` of a larger batch."""
        if row.shape != self.row.shape:
            raise ValueError(f"row has shape {tuple(row.shape)}; expected {tuple(self.row.shape)}, one number for each row")
        return replace(self, row=row.to(self.row))
