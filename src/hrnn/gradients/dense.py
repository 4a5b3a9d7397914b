"""Restricted gradients where all rows tick together: the fast path for built-in cells and fixed periods.

Each level has a tape. At a boundary the tapes of the segments that end run backward, from the bottom up: each gives the
gradient of the context that it started from, which is added to the tape above at the tick that sent it. Then the levels that
tick do so, from the top down, and the lowest one runs to its next boundary. The end of the window closes every tape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, CellState
from hrnn.cells.block import BACKWARD_TICKS, Block, workspace
from hrnn.forward import Ended, advanced, cleared
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Mover
from hrnn.gradients.window import Chunk, Differentiated, Window
from hrnn.segments import pieces
from hrnn.state import State

_DRAWN = 64  # segments whose indices are drawn at once


class Tape:
    """A level's ticks since it was last differentiated, in buffers that are used again and again.

    A level below the top needs `slots` = its period, where a tick's slot is its place in the segment. The top, whose
    segment is the window, gets further blocks of `slots` as it goes, and runs each of its slots but once.
    """

    def __init__(self, cell: BuiltinCell, rows: int, slots: int, top: bool):
        self.cell, self.rows, self.slots, self.top = cell, rows, slots, top
        self.weights = cell.prepare()
        self.buffers = cell.zero_gradients()
        self.blocks: list[Block] = []
        self.d_hidden: list[Tensor] = []
        self.start = self.stop = 0
        self.fresh = False
        self.reached = False  # has a gradient reached one of the ticks?
        self._workspace = workspace(cell, slots, rows)
        self._cache: dict[tuple[int, int], Any] = {}
        self._grow()

    def _grow(self) -> None:
        self.blocks.append(Block(self.cell, self.slots, self.rows, reused=not self.top))
        self.d_hidden.append(self.cell.weight_hidden.new_empty(self.slots, self.rows, self.cell.hidden_size))

    def begin(self, slot: int, state: CellState | None) -> None:
        """Start empty before tick `slot`, from a state of earlier, or, with None, from zero at the start of a segment."""
        self.start = self.stop = slot
        self.fresh = state is None
        self.reached = False
        self.blocks[0].set_state(slot, state)

    def moved(self) -> None:
        """The parameters have moved. What there was is released first, or at the peak of memory there are two of everything."""
        del self.weights
        self.weights = self.cell.prepare()
        for buffer in self.buffers.values():
            buffer.zero_()

    @property
    def state(self) -> CellState:
        """The level's state now: a view of the buffers."""
        block, slot = divmod(self.stop - 1, self.slots) if self.stop else (0, -1)
        return self.blocks[block].state(slot + 1)

    def push(self, inputs: Tensor, context: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Tick n times on inputs (n, rows, ...): gives views of the hidden states after, (m, rows, hidden), and of where
        their gradients go, as often as the ticks fill a block. `context` is for the tape's first tick."""
        done = 0
        while done < inputs.shape[0]:
            index, slot = divmod(self.stop, self.slots)
            if index == len(self.blocks):
                self._grow()
            block = self.blocks[index]
            if index and slot == 0:
                block.set_state(0, self.blocks[index - 1].state(self.slots))
            count = min(self.slots - slot, inputs.shape[0] - done)
            block.inputs[slot : slot + count].copy_(inputs[done : done + count])
            fresh = self.fresh and self.stop == self.start
            block.run(self.weights, slot, slot + count, fresh, context if fresh else None)
            self.stop += count
            done += count
            yield block.states[0][slot + 1 : slot + count + 1], self.d_hidden[index][slot : slot + count]

    def tick(self, inputs: Tensor, context: Tensor | None) -> None:
        """One tick on inputs (rows, input_size), with no gradient on its hidden state as yet."""
        for _, d_hidden in self.push(inputs[None], context):
            d_hidden.zero_()

    def add(self, gradient: Tensor) -> None:
        """Add to the gradient (rows, hidden) of the hidden state after the last tick."""
        block, slot = divmod(self.stop - 1, self.slots)
        self.d_hidden[block][slot].add_(gradient)
        self.reached = True

    def backward(self, d_inputs: Tensor | None = None) -> Tensor | None:
        """Differentiate all ticks; the gradient of the context, if one entered. d_inputs (ticks, rows, ...) is filled."""
        carry = [part.new_zeros(self.rows, self.cell.hidden_size) for part in self.blocks[0].states]
        for index in range((self.stop - 1) // self.slots, -1, -1):
            start = self.start if index == 0 else 0
            stop = min(self.stop - index * self.slots, self.slots)
            part = None
            if d_inputs is not None:
                offset = index * self.slots + start - self.start
                part = d_inputs[offset : offset + stop - start]
            self.blocks[index].backward(
                self.weights, self.buffers, start, stop, self.d_hidden[index], carry, self._workspace,
                fresh=self.fresh and index == 0, d_inputs=part, cache=self._cache if len(self.blocks) == 1 else None,
            )  # fmt: skip
        return carry[0] if self.fresh and self.blocks[0].context is not None else None


class Dense:
    """One window, all rows in phase."""

    def __init__(
        self,
        window: Window,
        objective: Objective,
        position: list[int],
        on_segment: Callable[[Differentiated], None] | None,
        mover: Mover,
    ):
        model, state = window.model, window.state
        self.window, self.objective, self.on_segment, self.mover = window, objective, on_segment, mover
        self.periods = [p for p in model.periods if isinstance(p, int)]
        self.position, self.before = position, list(position)
        self.row, self.clock = state.row, state.clock
        self.ordinal = state.clock.ordinal.clone()
        self.everyone = torch.arange(state.batch, device=state.row.device)
        self.steps = 0
        self.drawn: dict[int, tuple[int, Tensor | None]] = {}
        self.tapes: list[Tape] = []
        for level, cell in enumerate(model.cells):
            assert isinstance(cell, BuiltinCell)
            below = level < len(self.periods)
            tape = Tape(cell, state.batch, self.periods[level] if below else BACKWARD_TICKS, top=not below)
            place = position[level] if below else 0
            tape.begin(place, state.cells[level])
            if below and place and state.history:
                tape.blocks[0].inputs[:place].copy_(state.history[level][:place])
            self.tapes.append(tape)
        self.d_x: Tensor | None = None
        if window.given_x is not None:
            x = window.given_x.transpose(0, 1) if model.batch_first else window.given_x
            self.d_x = torch.zeros_like(x, memory_format=torch.contiguous_format)

    def run(self) -> State:
        """Everything: forward, backward, and the state after the window. Gradients are in the objective's `gathered`."""
        for chunk in self.window:
            for piece in pieces(self.periods, self.position, chunk.x.shape[0]):
                for level in range(piece.ticking):
                    self._close(level, level in piece.ended)
                self.ordinal[:, : piece.ticking] += 1
                for level in range(piece.ticking, -1, -1):
                    context = None
                    if level < piece.ticking:
                        self.tapes[level].begin(0, None)
                        context = self.tapes[level + 1].state[0]
                    if level:
                        self.tapes[level].tick(self.tapes[level - 1].state[0], context)
                self._lowest(chunk, piece.start, piece.stop, context)
        for level in range(len(self.tapes)):
            self._close(level, level < len(self.periods) and self.position[level] == self.periods[level])
            if self.mover.updates is not None and self.mover.closed[level]:
                self._move(level, final=True)
        for tape in self.tapes if self.mover.updates is None else []:
            for parameter, gradient in tape.cell.gradients(tape.buffers).items():
                self.objective.gathered.add(parameter, gradient, owned=True)
        if self.d_x is not None and self.window.given_x is not None:
            d_x = self.d_x.transpose(0, 1) if self.window.model.batch_first else self.d_x
            self.objective.gathered.add(self.window.given_x, d_x)
        return self._state()

    def _lowest(self, chunk: Chunk, start: int, stop: int, context: Tensor | None) -> None:
        for hidden, d_hidden in self.tapes[0].push(chunk.x[start:stop].detach(), context):
            end = start + hidden.shape[0]
            leaf = hidden.clone().requires_grad_()  # the loss may keep it; the buffer is used again
            with torch.enable_grad():
                loss = self.objective.task(
                    leaf,
                    None if chunk.y is None else chunk.y[start:end],
                    None if chunk.mask is None else chunk.mask[start:end],
                )
            gradient = self.objective.differentiate(loss, leaf)
            if gradient is None:
                d_hidden.zero_()
            else:
                d_hidden.copy_(gradient)
                self.tapes[0].reached = True
            self.steps += hidden.shape[0]
            start = end

    def _close(self, level: int, complete: bool) -> None:
        """Differentiate a level's ticks, all losses that depend on them being known."""
        tape = self.tapes[level]
        if tape.stop == tape.start:
            return
        if complete and self.window.betas[level]:
            self._local_loss(level)
        if tape.reached:
            self.mover.touched[level] = True
            d_inputs = None
            if level == 0 and self.d_x is not None:
                d_inputs = self.d_x[self.steps - (tape.stop - tape.start) : self.steps]
            d_context = tape.backward(d_inputs)
            if d_context is not None:
                self.tapes[level + 1].add(d_context)
        if self.on_segment is not None:
            self.on_segment(Differentiated(level, self.steps, lambda: tape.cell.gradients(tape.buffers)))
        tape.start, tape.reached = tape.stop, False  # empty; the state stays readable, it is the summary
        if self.mover.due(level):
            self._move(level, final=False)

    def _move(self, level: int, final: bool) -> None:
        """Let a level's parameters move; what it does from now on, it does with the new ones."""
        tape, updates = self.tapes[level], self.mover.updates
        assert updates is not None
        own = set(tape.cell.parameters())
        others = [p for p in updates.parameters[level] if p not in own]
        gathered = self.objective.gathered
        moved = self.mover.move(
            level, self.steps, lambda: {**tape.cell.gradients(tape.buffers), **gathered.take(others)}, final
        )
        if moved and not final:  # after the last move nothing ticks any more, and `.grad` may be a view of the buffers
            tape.moved()

    def _index(self, level: int, ordinal: Tensor) -> Tensor:
        """What to decode, drawn for many segments at once: hashing a few numbers takes as long as hashing thousands."""
        passed, drawn = self.drawn.get(level, (0, None))
        if drawn is None or passed == drawn.shape[1]:
            later = ordinal + torch.arange(_DRAWN, device=ordinal.device)[:, None]
            row = self.row.expand_as(later).flatten()
            decoder = self.window.model.decoder(level)
            drawn = decoder.draw(self.window.seed, level, row, later.flatten(), self.periods[level])
            passed, drawn = 0, drawn.view(-1, *later.shape)
        self.drawn[level] = passed + 1, drawn
        return drawn[:, passed]

    def _local_loss(self, level: int) -> None:
        tape, period = self.tapes[level], self.periods[level]
        inputs = tape.blocks[0].inputs
        ordinal = self.ordinal[:, level] - 1
        ended = Ended(
            level,
            tape.state[0],
            self.row,
            ordinal,
            period,
            math.prod(self.periods[: level + 1]),
            lambda index: inputs[period - index, self.everyone],
            self._index(level, ordinal),
        )
        tape.add(self.objective.local_gradient(ended))

    def _state(self) -> State:
        clock = advanced(self.periods, self.clock, self.before, self.position, self.steps)
        if self.periods:
            clock = replace(clock, position=clock.position % torch.tensor(self.periods, device=self.row.device))
        clock = replace(clock, ticked=torch.zeros_like(clock.ticked))
        cells = tuple(tuple(part.clone() for part in tape.state) for tape in self.tapes)
        history = tuple(
            cleared(self.tapes[i].blocks[0].inputs, clock.position[:, i]) for i in range(len(self.window.state.history))
        )
        return State(cells, clock, self.row, history)
