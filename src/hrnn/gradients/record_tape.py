"""Ticks of rows that each go their own way: a record for every tick of every row, in the order of time.

A tape runs ticks forward into records and later differentiates some of them: `BuiltinTape` by hand, on records gathered so that
the rows' ticks stand in line; `UserTape` by autograd, tick by tick.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from hrnn.cells import Cell
from hrnn.forward import Ended
from hrnn.gradients.records import Records
from hrnn.schedules import LevelSteps
from hrnn.segments import Moment
from hrnn.state import State
from hrnn.walk import Level


class RecordTape(Level):
    """What both kinds share: for each record what came in, the hidden state after it, and the gradient of that.

    state:    the level's state now, all rows
    records:  the bookkeeping
    inputs:   (room, ...), output and d_output: (room, hidden); the first `count` are in use
    reached:  (room,) has a gradient been added to that of the record? One that has none stays as it is made: zero
    """

    def __init__(self, level: int, cell: Cell, state: State):
        self.level, self.row = level, state.row
        self.state = tuple(part.clone() for part in state.cells[level])
        self.history = state.history[level] if level < len(state.history) else None  # inputs of the windows before
        self.records = Records(state.batch, state.row.device)
        self.count = 0
        self.version = 0  # how often the level has moved in this window
        new = self.state[0].new_empty
        self.inputs = new(0, dtype=torch.int64) if cell.tokens else new(0, cell.input_size)
        self.output, self.d_output = new(0, cell.hidden_size), new(0, cell.hidden_size)
        self.reached = new(0, dtype=torch.bool)

    @property
    def hidden(self) -> Tensor:
        return self.state[0]

    def end(self, moment: Moment) -> None:
        """Nothing happens: `Rounds` computes the local losses of a round at once, and sweeps later."""

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change every buffer that has a row for each record, one after the other: only one is there twice."""
        self.inputs = change(self.inputs)
        self.output = change(self.output)
        self.d_output = change(self.d_output)
        self.reached = change(self.reached)

    def reserve(self, count: int) -> None:
        """Make room for `count` more records; if there are records already, for some beyond, so that it is not done often."""
        needed, room = self.count + count, self.output.shape[0]
        if needed <= room:
            return

        def grown(old: Tensor) -> Tensor:
            new = old.new_empty(max(needed, room * 3 // 2), *old.shape[1:])
            new[: self.count] = old[: self.count]
            return new

        self._each(grown)

    def add(self, at: Tensor, gradient: Tensor) -> None:
        """Add to the gradient of the hidden states after the records `at` (n,): (n, hidden)."""
        self.d_output.index_add_(0, at, gradient)
        self.reached[at] = True

    def plan(self, steps: LevelSteps, parents: Tensor | None, step: int, below: LevelSteps | None) -> slice:
        """Expect the ticks of a round that begins at `step`, `below` being those of the level below; which records they will
        be."""
        self.reserve(len(steps.rows))
        return self.records.append(steps, parents, step, self.version, below)

    def forget_before(self, ticks: Tensor) -> Tensor:
        """Forget records as `Records.forget_before` does; the new number of each old one."""
        stay, renumbered = self.records.forget_before(ticks)

        def kept(buffer: Tensor) -> Tensor:
            buffer[: len(stay)] = buffer[stay]
            return buffer

        self._each(kept)
        self.count = len(stay)
        return renumbered

    @abstractmethod
    def enter(self, inputs: Tensor) -> None:
        """The inputs (n, ...) of the next n records, where they are known beforehand."""

    @abstractmethod
    def sweep(self, order: Tensor, above: RecordTape | None, d_inputs: Tensor | None) -> None:
        """Differentiate records. order (ticks, rows): the record that is each row's next tick, -1 where there is none. `above`
        gets the gradient of contexts, d_inputs (records, input_size) that of the inputs."""

    @abstractmethod
    def gradients(self) -> dict[Tensor, Tensor]:
        """What has been gathered for the cell's parameters."""

    @abstractmethod
    def moved(self) -> None:
        """The parameters have moved: new weights from now on, the old ones for records that stay."""

    def segments(self, rows: Tensor, last: Tensor, ordinal: Tensor, span: Tensor) -> Ended:
        """What the local loss of segments of `rows` (n,), whose last records are `last` (n,), is computed from."""
        facts, history = self.records.facts, self.history
        assert history is not None
        tick, place = facts.tick[last], facts.place[last]

        def recent(index: Tensor) -> Tensor:
            old = history[(place + 1 - index) % history.shape[0], rows]
            in_window = (index - 1 <= torch.minimum(place, tick)).view(*index.shape, *[1] * (old.dim() - 2))
            return torch.where(in_window, self.inputs[self.records.at(rows, tick - (index - 1)).clamp(min=0)], old)

        return Ended(self.level, self.output[last], self.row[rows], ordinal, place + 1, span, recent)

    def remember(self, rows: Tensor, position: Tensor, history: Tensor) -> Tensor:
        """`history` with the inputs of the open segments of `rows` (B,), which have `position` (B,) ticks so far."""
        facts, reach = self.records.facts, history.shape[0]
        live = (facts.tick >= self.records.open[facts.row]) & (facts.place >= position[facts.row] - reach)
        at = (live & rows[facts.row]).nonzero()[:, 0]
        return history.index_put((facts.place[at] % reach, facts.row[at]), self.inputs[at])
