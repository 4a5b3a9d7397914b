"""`State`: all that a hierarchy remembers between two calls, one explicit object for training, streaming and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hrnn import tensors as files
from hrnn.arguments import LARGEST, entries, shown
from hrnn.cells import CellState
from hrnn.formats import check_format, numbered
from hrnn.segments import Clock
from hrnn.tensors import INTEGERS, device_of, in_memory

_CLOCK = ("position", "span", "ordinal", "skipped")
_RAW = ("inputs", "recent")


@dataclass(frozen=True)
class State:
    """Nothing in it is ever modified in place; a call returns a new one.

    cells:   for each level, lowest first, the cell's state: a tuple of (batch, ...), the hidden state first
    clock:   where each row is in its segments; `clock.skipped` counts the local losses that had to be left out
    row:     (batch,) each row's number, which sampled indices depend on: with it, rows may be split over processes
    history: for each level below the top that has a decoder, (reach, batch, ...): the inputs of the current segment that
             the local loss may still have to decode; the input at place p of the segment is in slot p modulo reach; no
             slots where nobody reads the level's summary
    inputs:  (places, batch, ...) the raw inputs that the highest level which reads any may still want: those of the latest
             segment of the level below it, part by part, the latest first. None where no level reads any
    recent:  (burn_in, batch, ...) the latest raw inputs, the latest first; None without burn-in

    Of both, what is absent is a zero vector, or the token -1.
    """

    cells: tuple[CellState, ...]
    clock: Clock
    row: Tensor
    history: tuple[Tensor, ...]
    inputs: Tensor | None = None
    recent: Tensor | None = None

    def __post_init__(self) -> None:
        self.check_parts()

    @staticmethod
    def of(
        cells: tuple[CellState, ...], clock: Clock, row: Tensor, history: tuple[Tensor, ...], inputs: Tensor | None = None,
        recent: Tensor | None = None,
    ) -> State:  # fmt: skip
        """Of parts that were made to fit together: nothing is checked, which takes longer than a short step."""
        state = object.__new__(State)
        facts = {"cells": cells, "clock": clock, "row": row, "history": history, "inputs": inputs, "recent": recent}
        object.__setattr__(state, "__dict__", facts)
        return state

    @property
    def raw(self) -> dict[str, Tensor]:
        """The raw inputs that are kept."""
        return {name: part for name in _RAW if (part := getattr(self, name)) is not None}

    def check_parts(self) -> None:
        """Refuse what does not fit together, by kind and shape alone; again wherever a state is used, as it may be tampered
        with in between."""
        if problem := self._mismatch():
            raise ValueError(f"state {problem}; it does not describe a State")

    def _mismatch(self) -> str:
        clock, below = self.clock, len(self.cells) - 1 if isinstance(self.cells, tuple) else -1
        groups = [*self.cells, self.history] if below >= 0 else []
        if below < 0 or not all(isinstance(group, tuple) and all(isinstance(t, Tensor) for t in group) for group in groups):
            return "has cells or a history that are no tuples of tensors"
        if not isinstance(clock, Clock) or not all(isinstance(t, Tensor) for t in (self.row, *vars(clock).values())):
            return "has a clock or row numbers that are no tensors"
        if self.row.dim() != 1 or not all(self.cells):
            return "has no row numbers of shape (batch,), or a cell without tensors"
        batch = self.row.shape[0]
        if any(cell[0].dim() != 2 or any(t.dim() < 1 or t.shape[0] != batch for t in cell) for cell in self.cells):
            return f"has {batch} row numbers and cells of other shapes"
        if any(t.shape != (batch, below) for t in vars(clock).values()):
            return f"has a clock whose shapes are not ({batch}, {below})"
        if len(self.history) not in (0, below) or any(h.dim() < 2 or h.shape[1] != batch for h in self.history):
            return f"has a history that is not one of {batch} rows for each level below the top"
        if any(not isinstance(part, Tensor) or part.dim() < 2 or part.shape[1] != batch for part in self.raw.values()):
            return f"has raw inputs that are not of {batch} rows"
        return ""

    def check(self) -> None:
        """Refuse numbers that no engine can work with, wherever the state comes from: a file, another program, a hand."""
        clock = self.clock
        for name, tensor in (*self._named(), ("ticked", clock.ticked)):
            if problem := in_memory(tensor):
                raise ValueError(f"state has {name}, which is {problem}")
        if len({tensor.device for _, tensor in self._named()}) > 1:
            raise ValueError("state has tensors on several devices; bring them together with state.to(device)")
        counts = [getattr(clock, name) for name in _CLOCK]
        if any(t.dtype != torch.int64 for t in (*counts, self.row)) or clock.ticked.dtype != torch.bool:
            raise ValueError("state has a clock or row numbers that are not int64; it does not describe a State")
        if any(not cell[0].is_floating_point() for cell in self.cells):
            raise ValueError("state has a hidden state that is not of floating-point numbers; it does not describe a State")
        numbers = torch.cat([*(t.flatten() for t in counts), self.row])
        if numbers.numel():
            low, high = (int(v) for v in torch.aminmax(numbers))
            if low < 0 or high > LARGEST // 2:  # twice as far, and counting on would overflow
                raise ValueError(f"state counts to {low if low < 0 else high}; it does not describe a State")

    def _named(self) -> list[tuple[str, Tensor]]:
        cells = [(f"cells.{i}.{j}", part) for i, cell in enumerate(self.cells) for j, part in enumerate(cell)]
        clock = [(name, getattr(self.clock, name)) for name in _CLOCK]
        history = [(f"history.{i}", h) for i, h in enumerate(self.history)]
        return [*cells, *clock, *history, *self.raw.items(), ("row", self.row)]

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
        kept = tuple(history(h) for h in self.history)
        return State(cells, clock, integers(self.row), kept, **{name: history(part) for name, part in self.raw.items()})

    def detach(self) -> State:
        """Without the graph that led to it."""
        return self._map(Tensor.detach, Tensor.detach, Tensor.detach)

    def clone(self) -> State:
        """A copy that shares no memory."""
        return self._map(Tensor.clone, Tensor.clone, Tensor.clone)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> State:
        """On another device, or with its floating-point tensors in another dtype."""
        if device is not None:
            device = device_of(device)
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise TypeError(f"dtype is {shown(dtype)}; give one of floating-point numbers, e.g. torch.float64")

        def floats(t: Tensor) -> Tensor:
            return t.to(device=device, dtype=dtype if t.is_floating_point() else None)

        return self._map(floats, lambda t: t.to(device=device), floats)

    def select(self, rows: Tensor) -> State:
        """Only the rows that `rows`, numbers or booleans, picks, in that order."""
        if not isinstance(rows, Tensor) or in_memory(rows) or rows.dim() != 1:
            raise TypeError(f"rows is {shown(rows)}; give a tensor of row numbers, or of {self.batch} booleans")
        if rows.dtype == torch.bool:
            if len(rows) != self.batch:
                raise ValueError(f"rows has {len(rows)} booleans for {self.batch} rows; give one for each")
            rows = rows.nonzero()[:, 0]
        elif rows.dtype not in INTEGERS:
            raise TypeError(f"rows is {shown(rows)}; give a tensor of row numbers, or of {self.batch} booleans")
        rows = rows.to(self.row.device, torch.int64)
        if len(rows) == 0 or bool((rows < -self.batch).any() | (rows >= self.batch).any()):
            raise ValueError(f"rows is {shown(rows.tolist())}; give at least one, each of 0 to {self.batch - 1}")
        return self._map(lambda t: t[rows], lambda t: t[rows], lambda t: t[:, rows])

    @staticmethod
    def together(states: Sequence[State]) -> State:
        """The rows of several states as one, in that order; `select` takes them apart again."""
        states = entries("states", states, "[state, other]")
        if not states or not all(isinstance(state, State) for state in states):
            raise TypeError(f"states is {shown(states)}; give at least one State, and nothing else")
        first = states[0]
        kinds = [
            [(len(state.cells), len(state.history))]
            + [(name, t.shape[:1] + t.shape[2:] if "history" in name or name in _RAW else t.shape[1:], t.dtype, t.device)
               for name, t in state._named()]
            for state in states
        ]  # fmt: skip
        if other := [i for i, kind in enumerate(kinds) if kind != kinds[0]]:
            raise ValueError(f"states[{other[0]}] is of another model, dtype or device than states[0]; give those of one model")
        clocks = [state.clock for state in states]
        return State(
            tuple(
                tuple(torch.cat(parts) for parts in zip(*cells, strict=True))
                for cells in zip(*(state.cells for state in states), strict=True)
            ),
            Clock(**{name: torch.cat([getattr(clock, name) for clock in clocks]) for name in (*_CLOCK, "ticked")}),
            torch.cat([state.row for state in states]),
            tuple(torch.cat([state.history[i] for state in states], 1) for i in range(len(first.history))),
            **{name: torch.cat([state.raw[name] for state in states], 1) for name in first.raw},
        )

    def tensors(self) -> dict[str, Tensor]:
        """All of it as named tensors, for a checkpoint; `from_tensors` is the way back."""
        return {name: t.detach().contiguous() for name, t in self._named()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> State:
        """The state that `tensors` came from."""
        if not isinstance(tensors, Mapping) or not all(isinstance(t, Tensor) for t in tensors.values()):
            raise TypeError(f"tensors is {shown(tensors)}; give a dict of tensors, as state.tensors() returns")
        missing = [name for name in (*_CLOCK, "row", "cells.0.0") if name not in tensors]
        if missing:
            raise ValueError(
                f"tensors has no {missing[0]!r}; it does not describe a State (it has {shown(sorted(map(str, tensors))[:6])})"
            )
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
        raw = {name: tensors[name] for name in _RAW if name in tensors}
        state = State(tuple(cells), clock, tensors["row"], tuple(history), **raw)
        state.check()
        if extra := sorted(map(str, set(tensors) - {name for name, _ in state._named()})):
            raise ValueError(f"tensors has {shown(extra[0])}; it does not describe a State")
        return state

    def save(self, path: str | Path) -> None:
        """Write it as safetensors."""
        files.write(path, self.tensors(), numbered("state", {"kind": "state"}))

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> State:
        """Read what `save` wrote. A file that is damaged, or was made to do harm, gets a ValueError."""
        device = device_of(device)
        tensors, metadata = files.read(path)
        if check_format("state", metadata or {}, path).get("kind") != "state":
            raise ValueError(f"{path} holds no State; give what State.save wrote")
        try:
            # Copies: tensors in a file are not aligned as torch's own are, and products then differ in the last bit.
            return State.from_tensors({name: t.clone() for name, t in tensors.items()}).to(device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} holds no State: {error}") from None

    def with_rows(self, row: Tensor) -> State:
        """With other row numbers: for a process that has rows `row` of a larger batch."""
        if not isinstance(row, Tensor) or in_memory(row) or row.dtype not in INTEGERS:
            raise TypeError(f"row is {shown(row)}; give a tensor of whole numbers, one for each row")
        if row.shape != self.row.shape:
            raise ValueError(f"row has shape {tuple(row.shape)}; expected {tuple(self.row.shape)}, one number for each row")
        if bool((row < 0).any()):
            raise ValueError(f"row has {int(row.min())}; row numbers are not negative")
        return replace(self, row=row.to(self.row))
