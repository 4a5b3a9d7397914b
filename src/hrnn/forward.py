"""The forward pass under autograd, chunk by chunk: DESIGN's semantics and nothing else.

At every step, from the top down, each level that ticks reads the hidden state that the level below had *before* the step,
and, if the level above has just ticked, starts from zero with that level's *new* hidden state as context.

Two ways to the same numbers: all rows in phase with built-in cells run in pieces between boundaries, on the cells' blocks;
anything else goes step by step, each level computing only the rows that tick.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, CellState, UserCell
from hrnn.cells.block import unroll
from hrnn.cells.builtin import Weights
from hrnn.precision import Wide
from hrnn.segments import Behind, Clock, Given, Piece, Schedule, known_in_advance, pieces, reach_of, schedule
from hrnn.state import State

if TYPE_CHECKING:
    from hrnn.hierarchy import HRNN


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


def phase(model: HRNN, clock: Clock) -> list[int] | None:
    """Each level's position where the dense path can run: built-in cells, fixed periods, all rows in phase."""
    if not model.builtin or any(isinstance(p, Given) for p in model.periods):
        return None
    position = clock.position
    if not model.periods:
        return []
    return position[0].tolist() if bool((position == position[0]).all()) else None


def advanced(periods: list[int], clock: Clock, before: list[int], after: list[int], steps: int) -> Clock:
    """The clock after `steps` steps in phase, positions as `pieces` leaves them."""
    position, span, ordinal, ticked = (t.clone() for t in (clock.position, clock.span, clock.ordinal, clock.ticked))
    size = 1  # steps of one tick
    ticks = steps
    for i, period in enumerate(periods):
        started = 0 if not ticks else (before[i] % period + ticks - 1) // period + (before[i] % period == 0)
        position[:, i] = after[i]
        ticked[:, i] |= ticks > 0
        ordinal[:, i] += started
        # Within a segment, as many steps as its complete ticks below span, and those of the tick under way.
        inner = after[0] if i == 0 else (after[i] - 1) * size + int(span[0, i - 1])
        span[:, i] = inner if started else span[:, i] + steps
        ticks, size = started, size * period
    return replace(clock, position=position, span=span, ordinal=ordinal, ticked=ticked)


def recent_from(history: Tensor, columns: Tensor, ticks: Tensor | int) -> Callable[[Tensor], Tensor]:
    """The index-th most recent inputs of segments that had `ticks` ticks, out of a state's history."""
    return lambda index: history[(ticks - index) % history.shape[0], columns]


class Run:
    """A forward pass that can be fed in chunks. `listener` is told of every segment below the top that ends."""

    def __init__(self, model: HRNN, state: State, listener: Callable[[Ended], None] | None = None):
        self.model, self.listener = model, listener
        self.cells: list[CellState] = list(state.cells)
        self.clock, self.row = state.clock, state.row
        self.history = [h.clone() for h in state.history]
        self.behind = Behind()
        self.schedule: Schedule | None = None  # of the last chunk, where that was not in phase
        self.steps = 0
        self.weights: list[Weights] = []  # made when they are first worth it
        self.wide = [Wide(cell) for cell in model.cells]
        self.everyone = torch.arange(state.batch, device=state.row.device)

    def feed(self, x: Tensor, boundaries: Tensor | None, lengths: Tensor | None, reset: Tensor | None) -> Tensor:
        """Checked inputs of n steps to the lowest level's hidden states (n, batch, hidden)."""
        if self.model.tokens:
            x = x.long()  # whole numbers of any dtype, e.g. bytes, are tokens
        position = phase(self.model, self.clock) if lengths is None and reset is None else None
        output = self._by_step(x, boundaries, lengths, reset) if position is None else self._in_phase(x, position)
        self.steps += x.shape[0]
        return output

    def close(self) -> State:
        """End the window: the last complete segments end, and the state is that after all chunks."""
        periods = self.model.periods
        if self.schedule is None:
            for i, period in enumerate(periods):
                if int(self.clock.position[0, i]) == period and self.clock.ticked[0, i]:
                    self._ended_in_phase(i, self.clock.ordinal[:, i])
            fixed = torch.tensor([reach_of(p) for p in periods], device=self.row.device)
            position = self.clock.position % fixed if periods else self.clock.position
            clock = replace(self.clock, position=position, ticked=torch.zeros_like(self.clock.ticked))
        else:
            for i in range(len(periods)):
                rows = self.schedule.levels[i].closes.nonzero()[:, 0]
                at = self.schedule.clock
                self._tell(i, rows, at.ordinal[rows, i] - 1, at.position[rows, i], at.span[rows, i])
            clock = self.schedule.settled(periods)
        history = tuple(cleared(h, clock.position[:, i]) for i, h in enumerate(self.history))
        # Copies: the output is cut out of the same buffers, and a state must neither change with it nor keep them alive.
        cells = tuple(tuple(part.clone() for part in cell) for cell in self.cells)
        return State(cells, clock, self.row, history)

    def _in_phase(self, x: Tensor, position: list[int]) -> Tensor:
        model, cells = self.model, self.cells
        periods = [reach_of(p) for p in model.periods]
        before, outputs, top = list(position), [], len(model.cells) - 1
        if not self.weights and x.shape[0] > _FEW:
            self.weights = [cell.prepare() for cell in model.cells if isinstance(cell, BuiltinCell)]
        ordinal = self.clock.ordinal.clone()
        for piece in pieces(periods, position, x.shape[0]):
            for level in piece.ended:
                self._ended_in_phase(level, ordinal[:, level])
            ordinal[:, : piece.ticking] += 1
            self._tick_in_phase(piece, position, top)
            inputs = x[piece.start : piece.stop]
            fresh = piece.ticking > 0
            context = cells[1][0] if fresh else None
            output, cells[0] = self._unroll(0, inputs, cells[0], fresh, context)
            outputs.append(output)
            if self.history:
                self.history[0][piece.place : piece.place + len(inputs)] = inputs.detach()
        self.clock = advanced(periods, self.clock, before, position, x.shape[0])
        self.schedule = None
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _tick_in_phase(self, piece: Piece, position: list[int], top: int) -> None:
        cells = self.cells
        for level in range(piece.ticking, 0, -1):
            fresh = level < piece.ticking
            summary = cells[level - 1][0]
            context = cells[level + 1][0] if fresh else None
            _, cells[level] = self._unroll(level, summary[None], cells[level], fresh, context)
            if self.history and level < top:
                self.history[level][position[level] - 1] = summary.detach()

    def _unroll(
        self, level: int, inputs: Tensor, state: CellState, fresh: bool, context: Tensor | None
    ) -> tuple[Tensor, CellState]:
        cell = self.model.cell(level)
        assert isinstance(cell, BuiltinCell)
        if self.weights:
            return unroll(cell, self.weights[level], inputs, state, fresh, context, self.wide[level])
        state = cell.initial_state(inputs.shape[1]) if fresh else state
        outputs = []
        for step, x in enumerate(inputs):
            state = self.wide[level](x, state, None, None, None if step else context)
            outputs.append(state[0])
        return torch.stack(outputs), state

    def _ended_in_phase(self, level: int, ordinal: Tensor) -> None:
        if self.listener is not None and self.history:
            periods = [reach_of(p) for p in self.model.periods]
            span = math.prod(periods[: level + 1])
            recent = recent_from(self.history[level], self.everyone, periods[level])
            self.listener(Ended(level, self.cells[level][0], self.row, ordinal - 1, periods[level], span, recent))

    def _tell(self, level: int, rows: Tensor, ordinal: Tensor, ticks: Tensor, span: Tensor) -> None:
        if self.listener is not None and self.history and rows.numel():
            if known_in_advance(self.model.periods)[level]:  # complete with its last tick, even if a reset came soon after
                span = torch.full_like(span, math.prod(reach_of(p) for p in self.model.periods[: level + 1]))
            recent = recent_from(self.history[level], rows, ticks)
            self.listener(Ended(level, self.cells[level][0][rows], self.row[rows], ordinal, ticks, span, recent))

    def _by_step(self, x: Tensor, boundaries: Tensor | None, lengths: Tensor | None, reset: Tensor | None) -> Tensor:
        model, batch = self.model, x.shape[1]
        steps = x.shape[0]
        plan = schedule(
            model.periods,
            self.clock,
            steps,
            boundaries=None if boundaries is None else boundaries[:steps],
            following=self.behind.after(boundaries, lengths, steps),
            lengths=lengths,
            reset=reset,
            start=self.steps,
        )
        top = len(model.cells) - 1
        offsets = [[0] * (top + 1) for _ in range(x.shape[0] + 1)]
        for step in range(x.shape[0]):
            offsets[step + 1] = [offsets[step][i] + plan.levels[i].counts[step] for i in range(top + 1)]
        outputs = []
        for step in range(x.shape[0]):
            slices = [slice(a, b) for a, b in zip(offsets[step], offsets[step + 1], strict=True)]
            for i in range(top):
                self._tell_ended(plan, i, slices[i])
            if plan.reset is not None and bool(plan.reset[step].any()):
                self._start_over(plan.reset[step])
            context: Tensor | None = None
            for i in range(top, -1, -1):
                level, at = plan.levels[i], slices[i]
                if at.start == at.stop:
                    context = None
                    continue
                rows = level.rows[at]
                whole = at.stop - at.start == batch
                state = self.cells[i] if whole else tuple(part[rows] for part in self.cells[i])
                inputs = x[step] if i == 0 else self._summary(i - 1, plan, slices[i - 1])
                inputs = inputs if whole else inputs[rows]
                first = level.first[at] if level.first_counts[step] else None
                where = None if first is None or bool(first.all()) else first.nonzero()[:, 0]
                mask = None if first is None else first[:, None]
                new = self.wide[i](inputs, state, mask, where, context if i < top else None)
                if self.history and i < top:
                    self.history[i][level.place[at] % self.history[i].shape[0], rows] = inputs.detach()
                self.cells[i] = (
                    new if whole else tuple(p.index_copy(0, rows, n) for p, n in zip(self.cells[i], new, strict=True))
                )
                context = new[0]
            outputs.append(self.cells[0][0])
        self.clock, self.schedule = plan.clock, plan
        output = torch.stack(outputs)
        return output if plan.valid is None else output.masked_fill(~plan.valid[..., None], 0.0)

    def _summary(self, level: int, plan: Schedule, at: slice) -> Tensor:
        """What `level` sends up, (batch, hidden): zero before a sequence starts, whatever the cell starts from."""
        hidden = self.cells[level][0]
        if isinstance(self.model.cell(level), UserCell):
            lower = plan.levels[level]
            fresh = lower.rows[at][lower.first[at] & (lower.ordinal[at] == 0)]
            hidden = hidden.index_fill(0, fresh, 0.0)
        return hidden

    def _tell_ended(self, plan: Schedule, i: int, at: slice) -> None:
        if self.listener is None or not self.history:
            return
        level = plan.levels[i]
        which = level.ended[at].nonzero()[:, 0] + at.start
        self._tell(i, level.rows[which], level.ordinal_before[which], level.ticks_before[which], level.span_before[which])

    def _start_over(self, rows: Tensor) -> None:
        for i in range(len(self.cells)):
            fresh = self.model.cell(i).initial_state(rows.shape[0])
            self.cells[i] = tuple(
                torch.where(rows.view(-1, *[1] * (old.dim() - 1)), new, old)
                for new, old in zip(fresh, self.cells[i], strict=True)
            )


def cleared(history: Tensor, position: Tensor) -> Tensor:
    """Without the inputs of segments that are over, so that equal situations have equal states."""
    live = torch.arange(history.shape[0], device=history.device)[:, None] < position
    return history.masked_fill(~live.view(*live.shape, *[1] * (history.dim() - 2)), 0)
