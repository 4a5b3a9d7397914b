"""The forward pass under autograd, chunk by chunk: levels that let autograd remember, fed by either schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, Cell, CellState, by_hand
from hrnn.cells.block import prepared, unroll
from hrnn.precision import Wide
from hrnn.schedules import Behind, InPhase, RowByRow
from hrnn.segments import Clock, Ending, Given, Moment, Period, Starts, Ticks
from hrnn.state import State
from hrnn.walk import Level, walk

_FEW = 4  # steps for which the cells' literal ticks are quicker than making weights for their blocks


@dataclass
class Ended:
    """Segments of one level that have just ended: what their local loss is computed from. n of them."""

    level: int
    summary: Tensor  # (n, hidden)
    row: Tensor  # (n,) row numbers
    ordinal: Tensor  # (n,)
    ticks: Tensor | int  # (n,)
    span: Tensor | int  # (n,) in steps
    recent: Callable[[Tensor], Tensor]  # index (m, n) to the index-th most recent inputs (m, n, ...)
    index: Tensor | None = None  # (m, n) what to decode, where that has been drawn already


Listener = Callable[[Ended], None]


class AutogradLevel(Level):
    """A level whose ticks autograd remembers. `listener` is told of its segments that end. `restricted`: no gradient goes back
    along the upward edge that it reads from."""

    def __init__(self, level: int, cell: Cell, state: State, listener: Listener | None, restricted: bool = False):
        self.level, self.cell, self.row, self.listener = level, cell, state.row, listener
        self._cut = restricted and level > 0
        self.state = state.cells[level]
        self.history = state.history[level].clone() if level < len(state.history) else None
        self.weights: Any = None  # with them ticks run as blocks, without them one by one
        self._wide = Wide(cell)

    @property
    def hidden(self) -> Tensor:
        return self.state[0]

    def _columns(self, rows: Tensor | None) -> Tensor:
        return torch.arange(len(self.row), device=self.row.device) if rows is None else rows

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        assert inputs is not None
        inputs = inputs.detach() if self._cut else inputs
        if self.history is not None:
            self._remember(inputs.detach(), ticks)
        starts, context = self._started()
        if self.weights is not None and isinstance(self.cell, BuiltinCell):
            fresh = starts is not None
            output, self.state = unroll(self.cell, self.weights, inputs, self.state, fresh, context, self._wide)
            return output
        rows = ticks.rows
        state = self.state if rows is None else tuple(part[rows] for part in self.state)
        outputs = []
        for x in inputs:
            state = self._tick(x, state, starts, context)
            outputs.append(state[0])
            starts = context = None
        if rows is None:
            self.state = state
        else:
            self.state = tuple(p.index_copy(0, rows, n) for p, n in zip(self.state, state, strict=True))
        return outputs[0][None] if len(outputs) == 1 else torch.stack(outputs)

    def _tick(self, x: Tensor, state: CellState, starts: Starts | None, context: Tensor | None) -> CellState:
        mask = where = None
        if starts is not None and starts.mask is None and isinstance(self.cell, BuiltinCell):
            state = self.cell.initial_state(x.shape[0])
        elif starts is not None:
            mask, where = x.new_ones(x.shape[0], dtype=torch.bool) if starts.mask is None else starts.mask, starts.where
        after: CellState = self._wide(x, state, None if mask is None else mask[:, None], where, context)
        return after

    def _remember(self, inputs: Tensor, ticks: Ticks) -> None:
        assert self.history is not None
        if isinstance(ticks.place, int):
            self.history[ticks.place : ticks.place + len(inputs)] = inputs
        else:
            self.history[ticks.place % self.history.shape[0], self._columns(ticks.rows)] = inputs[0]

    def end(self, moment: Moment) -> None:
        if self.listener is not None and self.history is not None and (ending := moment.ending(self.level)) is not None:
            self.listener(self._ended(ending, self.history))

    def _ended(self, ending: Ending, history: Tensor) -> Ended:
        rows, ordinal, ticks, span = ending
        summary, row = (self.hidden, self.row) if rows is None else (self.hidden[rows], self.row[rows])
        columns = self._columns(rows)
        return Ended(self.level, summary, row, ordinal, ticks, span, lambda i: history[(ticks - i) % history.shape[0], columns])


@dataclass(frozen=True)
class Midway:
    """Where a forward pass is within its window: `Forward.resumed` goes on from it as if nothing had been in between.

    state:  of which the clock is open: complete segments have not ended yet
    random: torch's random state, where steps that are run again would need it
    """

    state: State
    behind: Behind
    steps: int
    random: tuple[Tensor, ...] = ()


class Forward:
    """A forward pass that can be fed in chunks. `listener` is told of every segment below the top that ends. `restricted`: no
    gradient will go back along the upward edges. `shows_all`: the output has the hidden states of all levels."""

    def __init__(
        self,
        cells: Sequence[Cell],
        periods: Sequence[Period],
        state: State,
        listener: Listener | None = None,
        restricted: bool = False,
        *,
        shows_all: bool = False,
    ):
        self.shows_all = shows_all
        self.cells, self.periods, self.row, self._start = cells, periods, state.row, state.clock
        self.levels = [AutogradLevel(level, cell, state, listener, restricted) for level, cell in enumerate(cells)]
        self.behind = Behind()
        self.schedule: InPhase | RowByRow | None = None  # of the last chunk
        self.steps = 0

    @staticmethod
    def resumed(
        cells: Sequence[Cell],
        periods: Sequence[Period],
        at: Midway,
        listener: Listener | None = None,
        restricted: bool = False,
        *,
        shows_all: bool = False,
    ) -> Forward:
        """One that goes on in the middle of a window."""
        forward = Forward(cells, periods, at.state, listener, restricted, shows_all=shows_all)
        forward.behind, forward.steps = copy(at.behind), at.steps
        return forward

    def midway(self) -> Midway:
        """Where it is now; copies, without a graph."""
        cells = tuple(tuple(part.detach().clone() for part in level.state) for level in self.levels)
        history = tuple(level.history.clone() for level in self.levels if level.history is not None)
        clock = self._start if self.schedule is None else self.schedule.clock
        return Midway(State.of(cells, clock, self.row, history), copy(self.behind), self.steps)

    def feed(self, x: Tensor, boundaries: Tensor | None, lengths: Tensor | None, reset: Tensor | None) -> Tensor:
        """Checked inputs of n steps to the hidden states (n, batch, hidden) of the lowest level, or of all."""
        if self.cells[0].tokens:
            x = x.long()  # whole numbers of any dtype, e.g. bytes, are tokens
        clock = self._start if self.schedule is None else self.schedule.clock
        together = lengths is None and reset is None and in_phase(self.cells, self.periods, clock)
        output = self._in_phase(x, clock) if together else self._row_by_row(x, clock, boundaries, lengths, reset)
        self.steps += x.shape[0]
        return output

    def _in_phase(self, x: Tensor, clock: Clock) -> Tensor:
        if x.shape[0] > _FEW and self.levels[0].weights is None:
            self._prepare(True)
        self.schedule = InPhase(self.periods, clock)
        moments = walk(self.schedule.moments(x.shape[0]), self.levels, x)
        outputs = [self._shown(hidden) for _, hidden in moments if hidden is not None]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _row_by_row(
        self, x: Tensor, clock: Clock, boundaries: Tensor | None, lengths: Tensor | None, reset: Tensor | None
    ) -> Tensor:
        steps = x.shape[0]
        self._prepare(False)
        self.schedule = plan = RowByRow(
            self.periods,
            clock,
            steps,
            boundaries=None if boundaries is None else boundaries[:steps],
            following=self.behind.after(boundaries, lengths, steps),
            lengths=lengths,
            reset=reset,
            start=self.steps,
            learned=[not isinstance(cell, BuiltinCell) for cell in self.cells],
        )
        output = torch.cat([self._shown(self.levels[0].hidden[None]) for _ in walk(plan.moments(), self.levels, x)])
        return output if plan.valid is None else output.masked_fill(~plan.valid[..., None], 0.0)

    def _shown(self, hidden: Tensor) -> Tensor:
        """The output of steps (n, batch, hidden) of the lowest level, in which no other ticks."""
        return joined(hidden, [level.hidden for level in self.levels[1:]]) if self.shows_all else hidden

    def _prepare(self, blocks: bool) -> None:
        for level in self.levels:
            level.weights = prepared(level.cell) if blocks and isinstance(level.cell, BuiltinCell) else None

    def close(self) -> State:
        """End the window: the last complete segments end, and the state is that after all chunks."""
        assert self.schedule is not None
        moment, clock = self.schedule.close(), self.schedule.closed()
        for level in self.levels[:-1]:
            level.end(moment)
        kept = (level.history for level in self.levels)
        history = tuple(cleared(h, clock.position[:, i]) for i, h in enumerate(kept) if h is not None)
        # Copies: the output is cut out of the same buffers, and a state must neither change with it nor keep them alive.
        cells = tuple(tuple(part.clone() for part in level.state) for level in self.levels)
        return State(cells, clock, self.row, history)


def joined(hidden: Tensor, above: Sequence[Tensor]) -> Tensor:
    """The hidden states (n, batch, hidden) of some steps beside those (batch, hidden) that the levels above have meanwhile."""
    return torch.cat([hidden, *(one.expand(len(hidden), *one.shape) for one in above)], -1)


def in_phase(cells: Sequence[Cell], periods: Sequence[Period], clock: Clock) -> bool:
    """Can all rows run together, in blocks? With built-in cells and fixed periods, at the same places of them."""
    if not all(by_hand(cell) for cell in cells) or any(isinstance(period, Given) for period in periods):
        return False
    return not periods or bool((clock.position == clock.position[0]).all())


def cleared(history: Tensor, position: Tensor) -> Tensor:
    """Without the inputs of segments that are over, so that equal situations have equal states."""
    live = torch.arange(history.shape[0], device=history.device)[:, None] < position
    return history.masked_fill(~live.view(*live.shape, *[1] * (history.dim() - 2)), 0)
