"""One streaming step in torch's operators, without a branch that depends on data, to be exported.

All rows go the same way, whatever place of their segments they are at: every level computes a tick at every step, and masks
decide for each row whether it counts, and whether it starts a segment. The state is one tensor (batch, size), all zeros before
a sequence: the cells' states from the lowest level up, then the position of each level below the top in its segment, then the
raw inputs that levels may still read, as `State` has them, row by row; a token is its number plus 1, so that zero is none.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.arguments import shown
from hrnn.cells import BuiltinCell, CellState, UserCell, by_hand
from hrnn.hierarchy import HRNN
from hrnn.readers import Reader
from hrnn.segments import Given, reach_of
from hrnn.state import State

WIDEST = 2**24  # whole numbers that float32 has without a gap: positions and tokens are kept among the floats
Which = Tensor | bool  # rows (batch, 1); True or False: all or none, which a window knows beforehand


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
        self.readers = copy.deepcopy(model.readers).cpu()
        for reader in self.readers:
            if isinstance(reader, Reader):
                reader.bags = False
        self.head = nn.Identity() if head is None else copy.deepcopy(head).cpu()
        self.before = nn.Identity() if before is None else copy.deepcopy(before).cpu()
        self.periods, self.edges = list(model.periods), model.edges
        self.shows_all = model.shows_all
        self.tokens, self.input_size, self.dtype = model.tokens, model.input_size, model.dtype
        self.numbers = 1 if self.tokens else self.input_size  # of an input that is remembered
        remembered = {"inputs": self.edges.places(self.edges.highest), "recent": self.edges.burn_in}
        self.raw = {name: count * self.numbers for name, count in remembered.items() if count}
        self.sizes = [cell.hidden_size for cell in self._levels for _ in range(cell.state_parts)]
        self.sizes += [1] * len(self.periods) + [*self.raw.values()]
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
        ] + [*(f"position {level}" for level in range(len(self.periods))), *self.raw]
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
        inputs, (cells, positions, raw) = self.before(x), self.split(state)
        ticks, positions = self.ticking(positions, boundaries)
        cells, raw = self.after(inputs, cells, raw, ticks)
        return self.read(cells), torch.cat([*(part for cell in cells for part in cell), *positions, *raw.values()], 1)

    def read(self, cells: Sequence[CellState]) -> Tensor:
        """What the head makes of the states of all levels, the lowest first."""
        output: Tensor = self.head(torch.cat([cell[0] for cell in cells], 1) if self.shows_all else cells[0][0])
        return output

    def after(
        self, inputs: Tensor, cells: Sequence[CellState], raw: dict[str, Tensor], ticks: Sequence[Which]
    ) -> tuple[list[CellState], dict[str, Tensor]]:
        """The states of all levels and the remembered inputs after a step, from those before it. ticks: of each level."""
        new: list[CellState] = []  # the highest first
        for i in range(len(cells) - 1, -1, -1):
            if ticks[i] is False:
                new.append(cells[i])
                continue
            held, context = cells[i], None
            if new and ticks[i + 1] is not False:
                held, context = self._begun(i, held, new[-1][0], ticks[i + 1], raw)
            after = tick(self._levels[i], self._entering(i, inputs, cells, raw), held, context)
            new.append(tuple(chosen(ticks[i], now, old) for now, old in zip(after, cells[i], strict=True)))
        if self.raw:
            own = (inputs.long() + 1).to(self.dtype).unsqueeze(1) if self.tokens else inputs
            raw = dict(raw)
            if "inputs" in raw:
                raw["inputs"] = self._pushed(self.edges.highest - 1, raw["inputs"], own, ticks)
            if "recent" in raw:
                raw["recent"] = torch.cat([own, raw["recent"][:, : -self.numbers]], 1)
        return new[::-1], raw

    def _begun(
        self, i: int, state: CellState, above: Tensor, starts: Which, raw: dict[str, Tensor]
    ) -> tuple[CellState, Tensor | None]:
        """The state before a tick of a level where some rows start a segment, and the context that enters by this tick."""
        cell = self._levels[i]
        fresh, context = (
            (cell.from_context(above), None)
            if cell.starts_from_context
            else (tuple(torch.zeros_like(part) for part in state), above)
        )
        for entered in self._before(raw["recent"]) if i == 0 and "recent" in raw else ():
            fresh, context = tick(cell, entered, fresh, context), None
        held = tuple(chosen(starts, new, old) for new, old in zip(fresh, state, strict=True))
        return held, None if context is None else chosen(starts, context, torch.zeros_like(context))

    def _before(self, recent: Tensor) -> list[Tensor]:
        """What enters the lowest level of each of the latest inputs, the oldest first."""
        cell, places = self._levels[0], self._places(recent)
        entered = entering(cell, places.clamp(min=0) if self.tokens else places)
        if self.tokens:
            entered = torch.where((places < 0).unsqueeze(2), cell.bias, entered)
        return [*entered.unbind(1)][::-1]

    def _entering(self, i: int, inputs: Tensor, cells: Sequence[CellState], raw: dict[str, Tensor]) -> Tensor:
        """What enters a level by what it reads."""
        if i:
            parts = [cells[i - 1][0]] if self.edges.sends(i - 1) else []
            if self.edges.takes(i):  # of the segment below it, which is the latest, whatever a higher level may read
                places = raw["inputs"][:, : self.edges.places(i) * self.numbers]
                parts.append(self.readers[i - 1](self._places(places)))
            inputs = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        return entering(self._levels[i], inputs)

    def _places(self, raw: Tensor) -> Tensor:
        """Remembered inputs as readers take them: (batch, places) tokens, -1 where there is none, or vectors."""
        return raw.long() - 1 if self.tokens else raw.unflatten(1, (-1, self.input_size))

    def _pushed(self, level: int, old: Tensor, own: Tensor, ticks: Sequence[Which]) -> Tensor:
        """The latest segment of a level, part by part, with one more input: it goes to the latest part. Where the level ticks,
        a part begins and the others move back; where the level above ticks, a segment begins and there are no others."""
        each = self.numbers * prod(map(reach_of, self.periods[:level]))
        latest = self._pushed(level - 1, old[:, :each], own, ticks) if level else own
        if old.shape[1] == each:
            return latest
        others = chosen(ticks[level], old[:, :-each], old[:, each:])
        return torch.cat([latest, chosen(ticks[level + 1], torch.zeros_like(others), others)], 1)

    def ticking(self, positions: Sequence[Tensor], boundaries: Tensor | None) -> tuple[list[Which], list[Tensor]]:
        """From the positions (batch, 1) before a step, for each level below the top: which rows tick, for every level, and
        the positions after. A position counts ticks up to the period; of given boundaries it only says that there was one."""
        flags = None if boundaries is None else boundaries.unsqueeze(1) if boundaries.dim() == 1 else boundaries
        ticks: list[Which] = [True]
        after, column = [], 0
        for period, position in zip(self.periods, positions, strict=True):
            starts = position == 0
            if isinstance(period, Given):
                if flags is None:
                    raise ValueError(f"boundaries is None; give them, for {self.given} of the levels")
                starts = starts | flags[:, column : column + 1]
                column, moved = column + 1, torch.ones_like(position)
            else:
                moved = torch.where(position + 1 == period, torch.zeros_like(position), position + 1)
            after.append(chosen(ticks[-1], moved, position))
            ticks.append(starts if len(ticks) == 1 else starts & ticks[-1])
        return ticks, after

    def split(self, state: Tensor) -> tuple[list[CellState], list[Tensor], dict[str, Tensor]]:
        """The cells' states, the positions and the remembered inputs in a state."""
        parts = iter(state.split(self.sizes, 1))
        cells = [tuple(next(parts) for _ in range(cell.state_parts)) for cell in self._levels]
        positions = [next(parts) for _ in self.periods]
        return cells, positions, {name: next(parts) for name in self.raw}

    def flat(self, state: State) -> Float[Tensor, "batch size"]:
        """A `State` of the model as the step carries it, so that it goes on where the model was."""
        clock = state.clock.position
        positions = [
            clock[:, i].clamp(max=1) if isinstance(period, Given) else clock[:, i] % period
            for i, period in enumerate(self.periods)
        ]
        parts = [part for cell in state.cells for part in cell] + [position[:, None] for position in positions]
        parts += [(part + int(self.tokens)).transpose(0, 1).flatten(1) for part in state.raw.values()]
        return torch.cat([part.detach().to("cpu", self.dtype) for part in parts], 1)


def chosen(which: Which, ours: Tensor, others: Tensor) -> Tensor:
    """Of these rows ours, of the rest the others."""
    if isinstance(which, bool):
        return ours if which else others
    return torch.where(which, ours, others)


def entering(cell: BuiltinCell, inputs: Tensor) -> Tensor:
    """What inputs (..., input_size), or tokens (...), give to the gates."""
    if cell.tokens:
        return F.embedding(inputs, cell.weight_input.t()) + cell.bias
    return F.linear(inputs, cell.weight_input, cell.bias)


def tick(cell: BuiltinCell, entered: Tensor, state: CellState, context: Tensor | None) -> CellState:
    """One tick of all rows; the context is zero for those that start no segment."""
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
    if model.tokens and model.edges.highest and model.input_size > WIDEST:
        raise ValueError(f"inputs is Tokens({model.input_size}); an exported step remembers tokens of up to {WIDEST} kinds")
