"""What a short step relies on: which models and states it serves, and how to see quickly that they are still these."""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from hrnn.cells import GRU, BuiltinCell, by_hand
from hrnn.checks import Hierarchy
from hrnn.segments import Clock
from hrnn.state import State

_DTYPES = (torch.float32, torch.float64)
_NAMED = hasattr(Tensor, "names")  # torch no longer has named dimensions


class Streamed(Hierarchy, Protocol):
    """A hierarchy that can be stepped."""

    cells: nn.ModuleList
    stream_plan: Plan | None

    paper_edges: bool


class Level(NamedTuple):
    """A cell, its sizes and its parameters: an attribute of a module takes long to be found, and may be set to anything."""

    cell: BuiltinCell
    kind: type[BuiltinCell]
    inputs: int
    context: int
    hidden: int
    parameters: list[nn.Parameter | None]
    weight_input: Tensor
    weight_context: Tensor | None
    weight_hidden: Tensor
    bias: Tensor
    bias_hidden: Tensor | None  # a GRU's


class Plan:
    """What stays the same from step to step while nobody touches the model; `holds` sees whether somebody has.

    model: of built-in cells as they were made, with fixed periods, in float32 or float64 on the CPU; ValueError otherwise
    """

    def __init__(self, model: Streamed):
        self.cells = [cell for cell in model.cells if isinstance(cell, BuiltinCell) and by_hand(cell)]
        self.periods = [period for period in model.periods if type(period) is int]
        self.dtype = model.dtype
        if not model.paper_edges:
            raise ValueError("the model has other edges than the paper's")
        if len(self.cells) != len(model.cells) or self.periods != model.periods or self.dtype not in _DTYPES:
            raise ValueError("the model is of another kind")
        if any(type(n) is not int or n < 1 for n in (*self.periods, *model.hidden_sizes, model.input_size)):
            raise ValueError("the model has sizes of another kind")
        sizes = [model.input_size, *model.hidden_sizes, 0]
        self.levels = [
            Level(
                cell,
                type(cell),
                sizes[i],
                sizes[i + 2],
                sizes[i + 1],
                [*cell._parameters.values()],
                cell.weight_input,
                cell.weight_context,
                cell.weight_hidden,
                cell.bias,
                cell.bias_hidden if isinstance(cell, GRU) else None,
            )
            for i, cell in enumerate(self.cells)
        ]
        self.shapes = [pair for level in self.levels for pair in _shapes(level)]
        if any(type(p) is not nn.Parameter for p, _ in self.shapes):
            raise ValueError("the model has parameters of another kind")
        self.inputs, self.tokens, self.decoders = model.input_size, model.tokens, model.decoders is not None
        self.hidden = [*model.hidden_sizes]
        self.parts = [cell.state_parts for cell in self.cells]
        self.packed: tuple[list[int], bytes] | None = None  # see hrnn.streaming.in_c
        self._kinds: tuple[int, list[torch.dtype], list[tuple[int, ...]]] | None = None
        self._constants: dict[tuple[int, ...], Tensor] = {}

    def __reduce__(self) -> Any:
        return type(None), ()  # a copy of a model makes its own

    def holds(self, model: Streamed) -> bool:
        """Is the model what it was?"""
        cells = [*model.cells._modules.values()]
        if cells != self.cells or model.periods != self.periods or (model.decoders is not None) != self.decoders:
            return False
        if (model.input_size, model.tokens) != (self.inputs, self.tokens) or model.hidden_sizes != self.hidden:
            return False
        for level in self.levels:
            facts, own = vars(level.cell), level.cell._parameters
            if len(own) != len(level.parameters) or not all(map(is_, own.values(), level.parameters)):
                return False
            if type(level.cell) is not level.kind or hooked(facts) or "forward" in facts:
                return False
        dtype = self.dtype
        for p, shape in self.shapes:  # which a parameter changes when the model moves
            if p.dtype is not dtype or not p.is_cpu or p.shape != shape or not p.is_contiguous():
                return False
        return True

    def constant(self, *numbers: int) -> Tensor:
        """These numbers, to be read only. A plan meets few: a place in a segment, what is added to the clock."""
        found = self._constants.get(numbers)
        if found is None:
            if len(self._constants) > 1000:  # of very long periods
                self._constants.clear()
            found = self._constants[numbers] = torch.tensor(numbers, device="cpu")
        return found

    def fits(self, state: State, batch: int) -> bool:
        """Has the state the parts of this model's, in ordinary memory? What numbers they hold is another question."""
        cells, clock, history = state.cells, state.clock, state.history
        if type(clock) is not Clock or type(cells) is not tuple or type(history) is not tuple:
            return False
        if [len(cell) for cell in cells if type(cell) is tuple] != self.parts:
            return False
        if len(history) != len(self.periods) * self.decoders:
            return False
        tensors = [part for cell in cells for part in cell]
        tensors += [clock.position, clock.span, clock.ordinal, clock.skipped, clock.ticked, state.row, *history]
        return all(map(plain, tensors, *self._kinds_of(batch)))

    def _kinds_of(self, batch: int) -> tuple[list[torch.dtype], list[tuple[int, ...]]]:
        """dtype and shape of each tensor of a state, in the order of `fits`."""
        known = self._kinds
        if known is None or known[0] != batch:
            below = len(self.periods)
            parts = [(batch, level.hidden) for level in self.levels for _ in range(level.cell.state_parts)]
            dtypes, shapes = [self.dtype] * len(parts), [*parts, *[(batch, below)] * 5, (batch,)]
            dtypes += [torch.int64] * 4 + [torch.bool, torch.int64]
            for i, period in enumerate(self.periods if self.decoders else []):
                tokens = self.tokens and i == 0
                dtypes.append(torch.int64 if tokens else self.dtype)
                shapes.append((period, batch) if tokens else (period, batch, self.levels[i].inputs))
            self._kinds = known = batch, dtypes, shapes
        return known[1:]


def _shapes(level: Level) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The parameters of a level, each with the shape that it must have."""
    cell, hidden = level.cell, level.hidden
    entering = hidden * (cell.input_blocks.stop - cell.input_blocks.start)
    recurrent = hidden * (cell.hidden_blocks.stop - cell.hidden_blocks.start)
    shapes: list[tuple[Tensor, tuple[int, ...]]] = [(level.weight_input, (entering, level.inputs))]
    if level.weight_context is not None:
        shapes.append((level.weight_context, (entering, level.context)))
    shapes += [(level.weight_hidden, (recurrent, hidden)), (level.bias, (entering,))]
    return shapes if level.bias_hidden is None else [*shapes, (level.bias_hidden, (hidden,))]


def ticking(position: list[int]) -> int:
    """The highest level that ticks, where these are the ticks so far in each segment: every segment below it starts."""
    for i, at in enumerate(position):
        if at:
            return i
    return len(position)


def plain(t: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> bool:
    """Ordinary numbers in ordinary memory, of this kind?"""
    return (
        type(t) is Tensor
        and t.dtype is dtype
        and t.shape == shape  # a nested tensor has none, and raises
        and t.is_cpu
        and t.layout is torch.strided
        and not t.is_neg()
        and not (_NAMED and any(getattr(t, "names", ())))
    )


def hooked(facts: dict[str, Any]) -> Any:
    """Has a module of these facts hooks?"""
    return facts["_forward_hooks"] or facts["_forward_pre_hooks"] or facts["_backward_hooks"] or facts["_backward_pre_hooks"]


def kept(part: Tensor) -> Tensor:
    """A tensor that the new state shares with the old one, without a graph, and one that training can go on from."""
    return part.clone() if part.requires_grad or (part.is_inference() and not torch.is_inference_mode_enabled()) else part
