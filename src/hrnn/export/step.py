"""One streaming step in torch's operators, without a branch that depends on data, to be exported.

All rows go the same way, whatever place of their segments they are at: every level computes a tick at every step, and masks
decide for each row whether it counts, and whether it starts a segment. The state is one tensor (batch, size), all zeros before
a sequence: the cells' states from the lowest level up, then the position of each level below the top in its segment.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.arguments import shown
from hrnn.cells import BuiltinCell, CellState, UserCell, by_hand
from hrnn.hierarchy import HRNN
from hrnn.segments import Given
from hrnn.state import State

WIDEST = 2**24  # whole numbers that float32 has without a gap: positions are kept among the floats


class Step(nn.Module):
    """One input of a stream, with the head that reads the hierarchy's output, as `HRNN.step` computes it.

    model:  of built-in cells in float32 or float64; its weights are copied, to the CPU
    head:   reads (batch, hidden); without one, the output is that of the model
    before: turns inputs as they come into what the model reads, row by row: preprocessing

        step = Step(model, head)
        output, state = step(x, step.initial_state(batch))
        output, state = step(more, state)

    A row of the state that is set to zero starts a new sequence.
    """

    def __init__(self, model: HRNN, head: nn.Module | None = None, before: nn.Module | None = None):
        super().__init__()
        check(model)
        for name, module in (("head", head), ("before", before)):
            if module is not None and not isinstance(module, nn.Module):
                raise TypeError(f"{name} is {shown(module)}; give an nn.Module, or None")
        self.cells = copy.deepcopy(model.cells).cpu()
        self.head = nn.Identity() if head is None else copy.deepcopy(head).cpu()
        self.before = nn.Identity() if before is None else copy.deepcopy(before).cpu()
        self.periods = list(model.periods)
        self.shows_all = model.shows_all
        self.tokens, self.input_size, self.dtype = model.tokens, model.input_size, model.dtype
        self.sizes = [cell.hidden_size for cell in self._levels for _ in range(cell.state_parts)] + [1] * len(self.periods)
        self.eval().requires_grad_(False)

    @property
    def _levels(self) -> list[BuiltinCell]:
        return list(self.cells)  # type: ignore[arg-type]

    @property
    def given(self) -> int:
        """How many levels have given boundaries."""
        return sum(isinstance(period, Given) for period in self.periods)

    def parts(self) -> dict[str, slice]:
        """What stands where in a row of the state."""
        names = [
            f"{('hidden', 'cell')[part]} {level}" for level, cell in enumerate(self._levels) for part in range(cell.state_parts)
        ] + [f"position {level}" for level in range(len(self.periods))]
        return {name: slice(*place) for name, place in zip(names, pairwise(accumulate(self.sizes, initial=0)), strict=True)}

    def initial_state(self, batch: int) -> Float[Tensor, "batch size"]:
        """Before the first step of a sequence: zeros."""
        return torch.zeros(batch, sum(self.sizes), dtype=self.dtype)

    def forward(
        self,
        x: Shaped[Tensor, "batch ..."],
        state: Float[Tensor, "batch size"],
        boundaries: Bool[Tensor, "batch ..."] | None = None,
    ) -> tuple[Shaped[Tensor, "batch ..."], Float[Tensor, "batch size"]]:
        """x (batch,) or (batch, input_size); boundaries as `HRNN.step` takes them, where levels have given ones. A boundary
        of a level that does not tick is ignored. Returns the head's output and the state after."""
        inputs, (cells, positions) = self.before(x), self._split(state)
        ticks, positions = self.ticking(positions, boundaries)
        new: list[CellState] = []
        for i in range(len(cells) - 1, -1, -1):
            held, context = cells[i], None
            if new:  # the level above may have ticked
                held = tuple(part.masked_fill(ticks[i + 1], 0.0) for part in held)
                context = new[-1][0].masked_fill(~ticks[i + 1], 0.0)
            after = tick(self._levels[i], cells[i - 1][0] if i else inputs, held, context)
            if i:
                after = tuple(torch.where(ticks[i], now, old) for now, old in zip(after, cells[i], strict=True))
            new.append(after)
        return self.read(new[::-1]), torch.cat([part for cell in reversed(new) for part in cell] + positions, 1)

    def read(self, cells: Sequence[CellState]) -> Tensor:
        """What the head makes of the states of all levels, the lowest first."""
        output: Tensor = self.head(torch.cat([cell[0] for cell in cells], 1) if self.shows_all else cells[0][0])
        return output

    def ticking(self, positions: Sequence[Tensor], boundaries: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        """From the positions (batch, 1) before a step, for each level below the top: which rows tick, for every level, and
        the positions after. A position counts ticks up to the period; of given boundaries it only says that there was one."""
        flags = None if boundaries is None else boundaries.unsqueeze(1) if boundaries.dim() == 1 else boundaries
        ticks, after, column = [torch.ones_like(positions[0], dtype=torch.bool)] if positions else [], [], 0
        for period, position in zip(self.periods, positions, strict=True):
            starts = position == 0
            if isinstance(period, Given):
                if flags is None:
                    raise ValueError(f"boundaries is None; give them, for {self.given} of the levels")
                starts = starts | flags[:, column : column + 1]
                column, moved = column + 1, torch.ones_like(position)
            else:
                moved = torch.where(position + 1 == period, torch.zeros_like(position), position + 1)
            after.append(torch.where(ticks[-1], moved, position))
            ticks.append(starts & ticks[-1])
        return ticks, after

    def _split(self, state: Tensor) -> tuple[list[CellState], list[Tensor]]:
        parts = list(state.split(self.sizes, 1))
        cells = []
        for cell in self._levels:
            cells.append(tuple(parts[: cell.state_parts]))
            parts = parts[cell.state_parts :]
        return cells, parts

    def flat(self, state: State) -> Float[Tensor, "batch size"]:
        """A `State` of the model as the step carries it, so that it goes on where the model was."""
        clock = state.clock.position
        positions = [
            clock[:, i].clamp(max=1) if isinstance(period, Given) else clock[:, i] % period
            for i, period in enumerate(self.periods)
        ]
        parts = [part for cell in state.cells for part in cell] + [position[:, None] for position in positions]
        return torch.cat([part.detach().to("cpu", self.dtype) for part in parts], 1)


def tick(cell: BuiltinCell, inputs: Tensor, state: CellState, context: Tensor | None) -> CellState:
    """One tick of all rows; the context is zero for those that start no segment."""
    if cell.tokens:
        entered = F.embedding(inputs, cell.weight_input.t()) + cell.bias
    else:
        entered = F.linear(inputs, cell.weight_input, cell.bias)
    if context is not None and cell.weight_context is not None:
        entered = entered + F.linear(context, cell.weight_context)
    return cell.literal(entered, F.linear(state[0], cell.weight_hidden), state)


def check(model: Any) -> None:
    """Refuse what has no such step, and say what to do."""
    if not isinstance(model, HRNN):
        raise TypeError(f"model is {shown(model)}; give an hrnn.HRNN, of a run: hrnn.load(folder).network.levels")
    for level, cell in enumerate(model.levels):
        if isinstance(cell, UserCell):
            raise ValueError(
                f"level {level} has a cell of your own, {type(cell.module).__name__}, which only its own code can compute; "
                "export a model of lstm, gru or rnn cells"
            )
        if not by_hand(cell):
            raise ValueError(
                f"the cell of level {level} has hooks, parametrisations or other changes; remove them, so that its weights are "
                "plain parameters"
            )
    if model.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"model is {model.dtype}; export model.float() or model.double()")
    for period in model.periods:
        if isinstance(period, int) and period > WIDEST:
            raise ValueError(f"periods has {period}; the state of an exported step counts up to {WIDEST}")
