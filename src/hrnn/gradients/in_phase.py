"""Restricted gradients where all rows tick together: the fast path for built-in cells and fixed periods.

Each level has a tape. When a segment ends, the walk tells its tape, from the bottom up, and the tape runs backward: it gives
the gradient of the context that it started from, which is added to the tape above at the tick that sent it. The end of the
window closes every tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, CellState
from hrnn.cells.block import BACKWARD_TICKS, Block, workspace
from hrnn.forward import Ended, cleared
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Mover
from hrnn.gradients.window import Chunk, Differentiated, InputGradient, Window
from hrnn.schedules import InPhase
from hrnn.segments import Ending, Moment, Starts, Ticks
from hrnn.state import State
from hrnn.walk import Level, walk

_DRAWN = 64  # segments whose indices are drawn at once


class BlockTape(Level):
    """A level's ticks since it was last differentiated, in buffers that are used again and again.

    A level below the top needs `slots` = its period, where a tick's slot is its place in the segment. The top, whose
    segment is the window, gets further blocks of `slots` as it goes, and runs each of its slots but once.
    """

    def __init__(
        self, level: int, cell: BuiltinCell, rows: int, period: int | None, ended: Callable[[BlockTape, Moment], None]
    ):
        self.level, self.cell, self.rows, self.ended = level, cell, rows, ended
        self.top, self.slots = period is None, period or BACKWARD_TICKS
        self.weights = cell.prepare()
        self.buffers = cell.zero_gradients()
        self.blocks: list[Block] = []
        self.d_hidden: list[Tensor] = []
        self.begin = self.stop = 0  # ticks that have not been differentiated
        self.fresh = False  # does a segment start with the first of them?
        self.reached = False  # has a gradient reached one of them?
        self._context: Tensor | None = None
        self._workspace = workspace(cell, self.slots, rows)
        self._cache: dict[tuple[int, int], Any] = {}
        self._grow()

    def _grow(self) -> None:
        self.blocks.append(Block(self.cell, self.slots, self.rows, reused=not self.top))
        self.d_hidden.append(self.cell.weight_hidden.new_empty(self.slots, self.rows, self.cell.hidden_size))

    def resume(self, place: int, state: CellState, history: Tensor | None) -> None:
        """Before a window: in a segment, after `place` ticks of it, with the inputs of these."""
        self.begin = self.stop = place
        self.blocks[0].set_state(place, state)
        if history is not None:
            self.blocks[0].inputs[:place].copy_(history[:place])

    @property
    def state(self) -> CellState:
        """The level's state now: a view of the buffers."""
        block, slot = self._now()
        return self.blocks[block].state(slot)

    @property
    def hidden(self) -> Tensor:
        block, slot = self._now()
        return self.blocks[block].states[0][slot]

    def _now(self) -> tuple[int, int]:
        """The block of the last tick, and the slot behind it."""
        if not self.stop:
            return 0, 0
        block, slot = divmod(self.stop - 1, self.slots)
        return block, slot + 1

    def start(self, starts: Starts, context: Tensor | None) -> None:
        self.begin = self.stop = 0
        self.fresh, self.reached, self._context = True, False, context
        self.blocks[0].set_state(0, None)

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        """As many ticks as a block has left, at most. What reaches them from outside is zero, but at level 0: see `receive`."""
        assert inputs is not None
        index, slot = divmod(self.stop, self.slots)
        if index == len(self.blocks):
            self._grow()
        block, count = self.blocks[index], inputs.shape[0]
        if index and slot == 0:
            block.set_state(0, self.blocks[index - 1].state(self.slots))
        block.inputs[slot : slot + count].copy_(inputs)
        fresh = self.fresh and self.stop == self.begin
        block.run(self.weights, slot, slot + count, fresh, self._context if fresh else None)
        self.stop += count
        if self.level:
            self.d_hidden[index][slot : slot + count].zero_()
        return block.states[0][slot + 1 : slot + count + 1]

    def end(self, moment: Moment) -> None:
        self.ended(self, moment)

    def receive(self, gradient: Tensor | None, count: int) -> None:
        """The gradient (count, rows, hidden) of the hidden states after the last ticks; None: zero."""
        index, stop = divmod(self.stop - 1, self.slots)
        d_hidden = self.d_hidden[index][stop + 1 - count : stop + 1]
        if gradient is None:
            d_hidden.zero_()
        else:
            d_hidden.copy_(gradient)
            self.reached = True

    def add(self, gradient: Tensor) -> None:
        """Add to the gradient (rows, hidden) of the hidden state after the last tick."""
        block, slot = divmod(self.stop - 1, self.slots)
        self.d_hidden[block][slot].add_(gradient)
        self.reached = True

    def backward(self, d_inputs: Tensor | None = None) -> Tensor | None:
        """Differentiate all ticks; the gradient of the context, if one entered. d_inputs (ticks, rows, ...) is filled."""
        carry = [part.new_zeros(self.rows, self.cell.hidden_size) for part in self.blocks[0].states]
        for index in range((self.stop - 1) // self.slots, -1, -1):
            start = self.begin if index == 0 else 0
            stop = min(self.stop - index * self.slots, self.slots)
            part = None
            if d_inputs is not None:
                offset = index * self.slots + start - self.begin
                part = d_inputs[offset : offset + stop - start]
            self.blocks[index].backward(
                self.weights, self.buffers, start, stop, self.d_hidden[index], carry, self._workspace,
                fresh=self.fresh and index == 0, d_inputs=part, cache=self._cache if len(self.blocks) == 1 else None,
            )  # fmt: skip
        return carry[0] if self.fresh and self.blocks[0].context is not None else None

    def forget(self) -> None:
        """All ticks have been differentiated; the state stays readable, it is the summary."""
        self.begin, self.reached = self.stop, False

    def gradients(self) -> dict[Tensor, Tensor]:
        """What has been gathered for the cell's parameters."""
        return self.cell.gradients(self.buffers)

    def moved(self) -> None:
        """The parameters have moved. What there was is released first, or at the peak of memory there are two of everything."""
        del self.weights
        self.weights = self.cell.prepare()
        for buffer in self.buffers.values():
            buffer.zero_()


class SegmentBySegment:
    """One window, all rows in phase."""

    def __init__(self, window: Window, objective: Objective, mover: Mover):
        model, state = window.model, window.state
        self.window, self.objective, self.mover = window, objective, mover
        self.schedule = InPhase(model.periods, state.clock, most=BACKWARD_TICKS)
        self.everyone = torch.arange(state.batch, device=state.row.device)
        self.steps = 0
        self.drawn: dict[int, tuple[int, Tensor | None]] = {}
        self.d_x = InputGradient(window)
        self.tapes: list[BlockTape] = []
        periods, places = [*self.schedule.periods, None], [*self.schedule.position, 0]
        for level, (period, place) in enumerate(zip(periods, places, strict=True)):
            cell = model.cell(level)
            assert isinstance(cell, BuiltinCell)
            tape = BlockTape(level, cell, state.batch, period, self._ended)
            tape.resume(place, state.cells[level], state.history[level] if level < len(state.history) else None)
            self.tapes.append(tape)

    def run(self) -> State:
        """Everything: forward, backward, and the state after the window. Gradients are in the objective's `gathered`."""
        for chunk in self.window:
            for moment, hidden in walk(self.schedule.moments(chunk.x.shape[0]), self.tapes, chunk.x.detach()):
                assert hidden is not None
                self._task(chunk, moment, hidden)
        moment = self.schedule.close()
        for tape in self.tapes:
            tape.end(moment)
            if self.mover.closed[tape.level]:
                self._move(tape, final=True)
        self.mover.gather(self.tapes, self.objective.gathered)
        self.d_x.gather(self.objective.gathered)
        return self._state()

    def _task(self, chunk: Chunk, moment: Moment, hidden: Tensor) -> None:
        leaf = hidden.clone().requires_grad_()  # the loss may keep it; the buffer is used again
        at = slice(moment.start, moment.stop)
        with torch.enable_grad():
            loss = self.objective.task(
                leaf, None if chunk.y is None else chunk.y[at], None if chunk.mask is None else chunk.mask[at]
            )
        self.tapes[0].receive(self.objective.differentiate(loss, leaf), len(hidden))
        self.steps += len(hidden)

    def _ended(self, tape: BlockTape, moment: Moment) -> None:
        """Differentiate a level's ticks, all losses that depend on them being known."""
        if tape.stop == tape.begin:
            return
        level = tape.level
        if not tape.top and self.window.betas[level] and (ending := moment.ending(level)) is not None:
            tape.add(self.objective.local_gradient(self._segments(tape, ending)))
        if tape.reached:
            self.mover.touched[level] = True
            ticks = tape.stop - tape.begin
            d_context = tape.backward(None if level else self.d_x.steps(self.steps - ticks, self.steps))
            if d_context is not None:
                self.tapes[level + 1].add(d_context)
        if self.window.on_segment is not None:
            self.window.on_segment(Differentiated(level, self.steps, tape.gradients))
        tape.forget()
        if self.mover.due(level):
            self._move(tape, final=False)

    def _move(self, tape: BlockTape, final: bool) -> None:
        """Let a level's parameters move; what it does from now on, it does with the new ones."""
        moved = self.mover.move(tape.level, self.steps, tape, self.objective.gathered, final)
        if moved and not final:  # after the last move nothing ticks any more, and `.grad` may be a view of the buffers
            tape.moved()

    def _segments(self, tape: BlockTape, ending: Ending) -> Ended:
        """What the local loss of all rows' segments is computed from."""
        inputs, period = tape.blocks[0].inputs, tape.slots
        index, row = self._index(tape.level, ending), self.window.state.row
        recent = lambda index: inputs[period - index, self.everyone]  # noqa: E731
        return Ended(tape.level, tape.hidden, row, ending.ordinal, ending.ticks, ending.span, recent, index)

    def _index(self, level: int, ending: Ending) -> Tensor:
        """What to decode, drawn for many segments at once: hashing a few numbers takes as long as hashing thousands."""
        passed, drawn = self.drawn.get(level, (0, None))
        if drawn is None or passed == drawn.shape[1]:
            later = ending.ordinal + torch.arange(_DRAWN, device=ending.ordinal.device)[:, None]
            row = self.window.state.row.expand_as(later).flatten()
            drawn = self.window.model.decoder(level).draw(self.window.seed, level, row, later.flatten(), ending.ticks)
            passed, drawn = 0, drawn.view(-1, *later.shape)
        self.drawn[level] = passed + 1, drawn
        return drawn[:, passed]

    def _state(self) -> State:
        clock, before = self.schedule.closed(), self.window.state
        cells = tuple(tuple(part.clone() for part in tape.state) for tape in self.tapes)
        inputs = (tape.blocks[0].inputs for tape in self.tapes[: len(before.history)])
        return State(cells, clock, before.row, tuple(cleared(kept, clock.position[:, i]) for i, kept in enumerate(inputs)))
