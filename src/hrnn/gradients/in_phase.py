"""Restricted gradients where all rows tick together: the fast path for built-in cells and fixed periods.

Each level has a tape. When a segment ends, the walk tells its tape, from the bottom up, and the tape runs backward: it gives
the gradient of the context that it started from, which is added to the tape above at the tick that sent it. The end of the
window closes every tape.

A small network is busier with starting operations than with numbers. Its lowest level therefore runs several segments forward,
a *group*, before their losses, decoders and gradients are computed, once for all of them. A group is of complete segments
within one chunk; it ends at the latest with the segment above, whose gradient needs its own, and with the level's next move.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hrnn.cells import BUILTIN, BuiltinCell
from hrnn.executor import Ended, cleared
from hrnn.gradients.block_tape import BlockTape
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Mover
from hrnn.gradients.window import Chunk, Differentiated, InputGradient, Window
from hrnn.room import BACKWARD_TICKS, complete_segments, group_size, segments_at_once
from hrnn.schedules import InPhase
from hrnn.segments import Ending, Moment, reach_of
from hrnn.state import State
from hrnn.walk import walk

_DRAWN = 64  # segments whose indices are drawn at once


class SegmentBySegment:
    """One window, all rows in phase. A group has as many segments as take 2.5 MB, at most."""

    def __init__(self, window: Window, objective: Objective, mover: Mover):
        model, state = window.model, window.state
        self.window, self.objective, self.mover, self.most = window, objective, mover, _at_once(window, mover)
        self.schedule = InPhase(model.periods, state.clock, most=BACKWARD_TICKS)
        self.everyone = torch.arange(state.batch * self.most, device=state.row.device)
        self.steps = 0
        self.drawn: dict[int, tuple[int, Tensor | None]] = {}
        self.d_x = InputGradient(window)
        self.x = self.everyone.new_empty(0)  # of the chunk
        self.at = 0  # the step of the chunk that runs now
        self.tapes: list[BlockTape] = []
        periods, places = [*self.schedule.periods, None], [*self.schedule.position, 0]
        for level, (period, place) in enumerate(zip(periods, places, strict=True)):
            cell = model.cell(level)
            assert isinstance(cell, BuiltinCell)
            grouped = level == 0 and period is not None and self.most > 1
            columns, group = (self.most, self._group) if grouped else (1, lambda: None)
            tape = BlockTape(level, cell, state.batch, period, self._ended, columns, group)
            tape.resume(place, state.cells[level], state.history[level] if level < len(state.history) else None)
            self.tapes.append(tape)

    def run(self) -> State:
        """Everything: forward, backward, and the state after the window. Gradients are in the objective's `gathered`."""
        try:
            return self._run()
        finally:
            self.tapes.clear()  # they know this object, too: such a circle would keep their buffers until Python looks for it

    def _run(self) -> State:
        for chunk in self.window:
            self.x = chunk.x.detach()
            for moment, hidden in walk(self._moments(), self.tapes, self.x):
                assert hidden is not None
                self.steps += len(hidden)
                if not self.tapes[0].waits:
                    self._task(chunk, moment, hidden)
        moment = self.schedule.close()
        for tape in self.tapes:
            tape.end(moment)
            if self.mover.closed[tape.level]:
                self._move(tape, final=True)
        self.mover.gather(self.tapes, self.objective.gathered)
        self.d_x.gather(self.objective.gathered)
        return self._state()

    def _moments(self) -> Iterator[Moment]:
        for moment in self.schedule.moments(len(self.x)):
            self.at = moment.start
            yield moment

    def _group(self) -> Tensor | None:
        """The lowest level starts a segment, with nothing left to be differentiated: the inputs (segments, ticks, rows, ...) of
        the group that begins; None: one segment, complete in this chunk or not. Groups of a chunk are about equal."""
        periods = self.schedule.periods
        complete = (len(self.x) - self.at) // periods[0]
        if len(periods) > 1:
            complete = min(complete, periods[1] - self.schedule.position[1] + 1)
        complete = min(complete, self.mover.segments_left(0, complete))
        if complete < 2:
            return None
        columns = group_size(complete, self.most)
        return self.x[self.at : self.at + columns * periods[0]].view(columns, periods[0], *self.x.shape[1:])

    def _task(self, chunk: Chunk, moment: Moment, hidden: Tensor) -> None:
        """The task's loss on the ticks that have just run, or on those of a whole group."""
        tape, count = self.tapes[0], len(hidden)
        output = tape.output() if tape.columns > 1 else hidden.clone()  # copies: the loss may keep them
        leaf = (self._joined(output) if self.window.model.shows_all else output).requires_grad_()
        at = slice(moment.stop - len(leaf), moment.stop)
        with torch.enable_grad():
            loss = self.objective.task(
                leaf, None if chunk.y is None else chunk.y[at], None if chunk.mask is None else chunk.mask[at]
            )
        gradient = self.objective.differentiate(loss, leaf)
        if gradient is not None and self.window.model.shows_all:
            gradient = self._parted(gradient)
        tape.receive(gradient, count)

    def _segments_beside(self, tape: BlockTape) -> int:
        """Ticks of a level above the lowest while the lowest ran what is differentiated now: one, or one for each segment of
        a group, all of which are within one segment above."""
        return self.tapes[0].columns if tape.level == 1 else 1

    def _joined(self, output: Tensor) -> Tensor:
        """The output (steps, rows, hidden) of the lowest level beside the hidden states of the others."""
        above = [tape.last(self._segments_beside(tape)) for tape in self.tapes[1:]]
        return torch.cat([output, *(one.repeat_interleave(len(output) // len(one), 0) for one in above)], -1)

    def _parted(self, gradient: Tensor) -> Tensor:
        """The lowest level's part of the gradient of `_joined`; those of the others are added to their tapes, as if they came
        from contexts. What a level had before the window gets none."""
        lowest: Tensor
        lowest, *parts = gradient.split(self.window.model.hidden_sizes, -1)
        for tape, part in zip(self.tapes[1:], parts, strict=True):
            if tape.stop > tape.begin:
                tape.add_to_contexts(part.unflatten(0, (self._segments_beside(tape), -1)).sum(1))
        return lowest

    def _ended(self, tape: BlockTape, moment: Moment) -> None:
        """Differentiate a level's ticks, all losses that depend on them being known."""
        if tape.stop == tape.begin or tape.waits:
            return
        level, columns = tape.level, tape.columns
        if not tape.top and self.window.betas[level] and (ending := moment.ending(level)) is not None:
            tape.add_to_summaries(self.objective.local_gradient(self._segments(tape, ending)))
        if tape.reached:
            self.mover.touched[level] = True
            ticks = (tape.stop - tape.begin) * columns
            d_contexts = tape.backward(self.d_x.steps(self.steps - ticks, self.steps) if level == 0 else None)
            if d_contexts is not None:
                self.tapes[level + 1].add_to_contexts(d_contexts.view(columns, tape.rows, -1))
        if self.window.on_segment is not None:
            self.window.on_segment(Differentiated(level, self.steps, tape.gradients))
        tape.forget()
        if self.mover.due(level, columns):
            self._move(tape, final=moment.ticking < 0)  # the window closes

    def _move(self, tape: BlockTape, final: bool) -> None:
        """Let a level's parameters move; what it does from now on, it does with the new ones."""
        moved = self.mover.move(tape.level, self.steps, tape, self.objective.gathered, final)
        if moved and not final:  # after the last move nothing ticks any more, and `.grad` may be a view of the buffers
            tape.moved()

    def _segments(self, tape: BlockTape, ending: Ending) -> Ended:
        """What the local loss of all rows' segments is computed from; `ending` speaks of the last of each."""
        columns, row, ordinal = tape.columns, self.window.state.row, ending.ordinal
        inputs, period, places = tape.blocks[0].inputs, tape.slots, self.everyone[: tape.columns * tape.rows]
        recent = lambda index: inputs[period - index, places]  # noqa: E731
        index = self._index(tape.level, ending, columns)
        if columns > 1:
            row = row.repeat(columns)
            ordinal = (ordinal - torch.arange(columns - 1, -1, -1, device=ordinal.device)[:, None]).flatten()
        return Ended(tape.level, tape.summaries, row, ordinal, ending.ticks, ending.span, recent, index)

    def _index(self, level: int, ending: Ending, columns: int) -> Tensor:
        """What to decode, drawn for many segments at once: hashing a few numbers takes as long as hashing thousands."""
        passed, drawn = self.drawn.get(level, (0, None))
        if drawn is None or passed + columns > drawn.shape[1]:
            later = ending.ordinal + torch.arange(1 - columns, max(_DRAWN, columns), device=ending.ordinal.device)[:, None]
            row = self.window.state.row.expand_as(later).flatten()
            drawn = self.window.model.decoder(level).draw(self.window.seed, level, row, later.flatten(), ending.ticks)
            passed, drawn = 0, drawn.view(-1, *later.shape)
        self.drawn[level] = passed + columns, drawn
        return drawn[:, passed : passed + columns].flatten(1)

    def _state(self) -> State:
        clock, before = self.schedule.closed(), self.window.state
        cells = tuple(tuple(part.clone() for part in tape.state) for tape in self.tapes)
        kept = (tape.inputs for tape in self.tapes[: len(before.history)])
        return State(cells, clock, before.row, tuple(cleared(inputs, clock.position[:, i]) for i, inputs in enumerate(kept)))


def _at_once(window: Window, mover: Mover) -> int:
    """How many segments of the lowest level are differentiated together, at most: no more than can ever be, as each gets its
    share of buffers. Chunks do not say how long the window is."""
    model = window.model
    if not model.periods:
        return 1
    names = {kind: name for name, kind in BUILTIN.items()}
    lowest, periods = model.cell(0), [reach_of(period) for period in model.periods]
    assert isinstance(lowest, BuiltinCell)
    most = segments_at_once(
        names[type(lowest)], lowest.hidden_size, periods[0], window.state.batch,
        numbers=1 if model.tokens else model.input_size, width=model.dtype.itemsize,
    )  # fmt: skip
    steps = most * periods[0] if window.streamed else window.steps
    return mover.segments_left(0, min(most, complete_segments(periods, steps)))
