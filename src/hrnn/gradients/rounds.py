"""Restricted gradients where rows tick at different times, or cells are a user's: any boundaries, lengths, resets.

The work goes in rounds. A round walks some steps forward, each tick of each row leaving a record. Then one sweep, from the
bottom level up, differentiates every segment that has completed, and only the records of unfinished segments stay for the next
round. The end of the window completes everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, by_hand
from hrnn.cells.native import serves
from hrnn.forward import cleared
from hrnn.gradients.builtin_tape import BuiltinTape, NativeTape
from hrnn.gradients.objective import Objective
from hrnn.gradients.predictions import Predictions
from hrnn.gradients.record_tape import RecordTape
from hrnn.gradients.updates import Mover
from hrnn.gradients.user_tape import UserTape
from hrnn.gradients.window import Chunk, Differentiated, InputGradient, Window
from hrnn.schedules import Behind, InPhase, RowByRow
from hrnn.segments import Clock, known_in_advance, reach_of
from hrnn.state import State
from hrnn.walk import walk


class Rounds:
    """One window, row by row. predictions: of the gradients of summaries; None: there are none."""

    def __init__(
        self,
        window: Window,
        objective: Objective,
        round_steps: int | None,
        mover: Mover,
        predictions: Predictions | None = None,
    ):
        model, state = window.model, window.state
        self.predictions = predictions
        self.window, self.objective, self.mover = window, objective, mover
        self.periods, self.top = model.periods, len(model.levels) - 1
        self.round_steps = round_steps or (4 * reach_of(self.periods[0]) if self.periods else 32)
        self.advance = known_in_advance(self.periods)
        self.learned = [not isinstance(cell, BuiltinCell) for cell in model.levels]
        self.clock, self.row = state.clock, state.row
        self.behind = Behind()
        self.plan: RowByRow | None = None  # of the last round
        self.phase: InPhase | None = None  # where all rows are in phase
        self.over = torch.zeros_like(state.row, dtype=torch.bool)  # rows past their length: complete, if levels move
        self.history = list(state.history)  # with the inputs of rows that are over
        self.steps = 0
        self.d_x = InputGradient(window)
        moves = mover.updates is not None
        self.tapes: list[RecordTape] = []
        for level, cell in enumerate(model.levels):
            if isinstance(cell, BuiltinCell) and by_hand(cell):
                tape = NativeTape if serves(cell) else BuiltinTape
                self.tapes.append(tape(level, cell, state, moves))
            else:
                wants_inputs = window.given_x is not None if level == 0 else predictions is not None
                self.tapes.append(UserTape(level, cell, state, wants_inputs, moves))

    def run(self) -> State:
        """Everything: forward, backward, and the state after the window. Gradients are in the objective's `gathered`."""
        for chunk in self.window:
            phase, past = self._phase(chunk), self._past(chunk)
            behind = self.behind.after(chunk.boundaries, chunk.lengths, chunk.x.shape[0])
            self.tapes[-1].reserve(self._top_ticks(self._parts(chunk, phase, behind, past)))
            for part, known, over in self._parts(chunk, phase, behind, past):
                if self.plan is not None:  # not right after the round: the last one is swept once, with all the rest
                    self._sweep(final=False)
                self.phase = phase
                self._round(part, known)
                if over is not None:
                    self._end(over & ~self.over)
                    self.over = self.over | over
        self._end(~self.over)
        state = self._state()
        self._sweep(final=True)
        self.mover.gather(self.tapes, self.objective.gathered)
        self.d_x.gather(self.objective.gathered)
        return state

    def _phase(self, chunk: Chunk) -> InPhase | None:
        """Where the rows are in their periods, if they are there together and their segments end together. Where levels move,
        rows that are over hold nobody back."""
        position, moves = self.clock.position, self.mover.updates is not None
        if chunk.reset is not None and bool(chunk.reset[0].all()) and not bool(chunk.reset[1:].any()):
            position = torch.zeros_like(position)
        elif chunk.reset is not None:
            position = torch.full_like(position, -1)
        if moves and chunk.lengths is not None and bool(chunk.lengths.any()):
            position = position[chunk.lengths > 0]
        together = all(self.advance) and bool(((position == position[0]) & (position >= 0)).all())
        own = position[0].tolist() if together and (moves or chunk.lengths is None) else None
        agreed = self.mover.agreed_phase(own, len(self.periods))
        return None if agreed is None else InPhase(self.periods, self.clock, position=agreed)

    def _past(self, chunk: Chunk) -> Tensor | None:
        """Rows (B,) that are over by the end of the chunk; None where levels do not move: then it makes no difference."""
        if self.mover.updates is None:
            return None
        steps = chunk.x.shape[0]
        lengths = torch.full_like(self.row, steps) if chunk.lengths is None else chunk.lengths
        if bool((again := self.over & (lengths > 0)).any()):
            raise ValueError(
                f"lengths let row {int(again.nonzero()[0])} go on in a chunk after the one that it ended in, when levels may "
                f"have moved; let it go on in the next window"
            )
        return torch.lt(lengths, steps)

    def _parts(
        self, chunk: Chunk, phase: InPhase | None, behind: Tensor | None, past: Tensor | None
    ) -> Iterator[tuple[Chunk, Tensor | None, Tensor | None]]:
        """The chunk cut into rounds, each with what is known of boundaries behind rows' last steps, and which rows are over.
        Where all rows are in phase, a round ends with a segment of the lowest level."""
        steps, lengths = chunk.x.shape[0], chunk.lengths
        size, stop = self.round_steps, self.round_steps
        if phase is not None and phase.periods:
            size = phase.periods[0]
            stop = size - phase.position[0] % size
        start, stop = 0, min(steps, stop)
        while start < steps:
            part = Chunk(
                chunk.x[start:stop].detach(),
                None if chunk.y is None else chunk.y[start:stop],
                None if chunk.mask is None else chunk.mask[start:stop],
                None if chunk.boundaries is None else chunk.boundaries[start:stop],
                None if lengths is None else (lengths - start).clamp(0, stop - start),
                None if chunk.reset is None else chunk.reset[start:stop],
            )
            over = past if past is None or lengths is None else past & (lengths <= stop)
            known = behind
            if behind is not None and stop < steps:
                known = None if over is None else behind & over[:, None]
            yield part, known, over
            start, stop = stop, min(steps, stop + size)

    def _schedule(self, part: Chunk, behind: Tensor | None, clock: Clock, start: int) -> RowByRow:
        return RowByRow(
            self.periods,
            clock,
            part.x.shape[0],
            boundaries=part.boundaries,
            following=behind,
            lengths=part.lengths,
            reset=part.reset,
            start=start,
            learned=self.learned,
        )

    def _top_ticks(self, parts: Iterable[tuple[Chunk, Tensor | None, Tensor | None]]) -> int:
        """How often the top level will tick: its records stay, and growing them round by round would hold them twice."""
        clock, start, ticks = self.clock, self.steps, 0
        for part, behind, _ in parts:
            plan = self._schedule(part, behind, clock, start)
            clock, start, ticks = plan.clock, start + part.x.shape[0], ticks + len(plan.levels[-1].rows)
        return ticks

    def _round(self, part: Chunk, behind: Tensor | None) -> None:
        """Run steps forward and compute the losses that are known by then."""
        steps = part.x.shape[0]
        plan = self.plan = self._schedule(part, behind, self.clock, self.steps)
        self.clock = plan.clock
        added: list[slice] = []
        parents: Tensor | None = None
        for tape in reversed(self.tapes):  # records above are parents below
            below = plan.levels[tape.level - 1] if tape.level else None
            added.insert(0, tape.plan(plan.levels[tape.level], parents, self.steps, below))
            parents = torch.arange(added[0].start, added[0].stop, device=self.row.device)
        lowest = plan.levels[0]
        self.tapes[0].enter(part.x.flatten(0, 1) if lowest.all_rows else part.x[lowest.steps, lowest.rows])
        for _ in walk(plan.moments(), self.tapes, None):
            pass
        self._task(part, added[0], plan)
        for level in range(self.top):
            self._local_losses(level, plan, added[level])
        self.steps += steps
        if self.phase is not None:
            for _ in self.phase.moments(steps):
                pass

    def _task(self, part: Chunk, at: slice, plan: RowByRow) -> None:
        tape, shape, lowest = self.tapes[0], (*part.x.shape[:2], -1), plan.levels[0]
        if lowest.all_rows:
            output = tape.output[at].view(shape).clone()  # the loss may keep it; the buffer is used again
        else:
            output = tape.output.new_zeros(*part.x.shape[:2], tape.output.shape[1])
            output[lowest.steps, lowest.rows] = tape.output[at]
        above = self.tapes[1:] if self.window.model.shows_all else []
        records = [self._latest(one, plan) for one in above]
        leaf = torch.cat([output, *map(self._hidden, above, records)], -1) if above else output
        if above and plan.valid is not None:
            leaf.masked_fill_(~plan.valid[..., None], 0.0)
        with torch.enable_grad():
            loss = self.objective.task(leaf.requires_grad_(), part.y, part.mask)
        gradient = self.objective.differentiate(loss, leaf)
        if gradient is not None:
            own, *parts = gradient.split([one.output.shape[1] for one in (tape, *above)], -1)
            tape.d_output[at] = own.flatten(0, 1) if lowest.all_rows else own[lowest.steps, lowest.rows]
            targets = None if part.mask is None else part.mask[lowest.steps, lowest.rows]
            tape.reached[at] = True if targets is None else targets
            for one, there, d_hidden in zip(above, records, parts, strict=True):
                known = there >= 0 if plan.valid is None else (there >= 0) & plan.valid
                known = known if part.mask is None else known & part.mask
                one.add(there[known], d_hidden[known])

    def _latest(self, tape: RecordTape, plan: RowByRow) -> Tensor:
        """(steps, batch): the record of each row's last tick at every step of a round; -1: it was before the window."""
        steps = plan.levels[tape.level]
        ticked = torch.zeros(plan.steps, plan.batch, dtype=torch.int64, device=self.row.device)
        ticked[steps.steps, steps.rows] = 1
        count = ticked.cumsum(0)
        return tape.records.at(torch.arange(plan.batch, device=self.row.device), tape.records.ticks - count[-1] + count - 1)

    def _hidden(self, tape: RecordTape, records: Tensor) -> Tensor:
        """The hidden states after these records (steps, batch), or those that the window began with."""
        begun = self.window.state.cells[tape.level][0].expand(*records.shape, -1)
        return begun if not tape.count else torch.where((records >= 0)[..., None], tape.output[records.clamp(min=0)], begun)

    def _local_losses(self, level: int, plan: RowByRow, at: slice) -> None:
        """Of the segments of a level that are known to have ended in a round, whose records are `at`."""
        tape, steps = self.tapes[level], plan.levels[level]
        if self.advance[level]:
            which = (steps.place == reach_of(self.periods[level]) - 1).nonzero()[:, 0]
            span = torch.full_like(which, plan.steps_of_segment(level))
            self._local_loss(level, steps.rows[which], which + at.start, steps.ordinal[which], span)
        elif steps.before is not None:
            which = steps.before.ended.nonzero()[:, 0]
            last = tape.records.at(steps.rows[which], tape.records.facts.tick[which + at.start] - 1)
            self._local_loss(level, steps.rows[which], last, steps.before.ordinal[which], steps.before.span[which])

    def _local_loss(self, level: int, rows: Tensor, last: Tensor, ordinal: Tensor, span: Tensor) -> None:
        """The local loss of segments whose last records are `last` (n,), and what is predicted for them."""
        tape = self.tapes[level]
        if self.window.betas[level] and len(rows):
            gradient = self.objective.local_gradient(tape.segments(rows, last, ordinal, span))
            tape.add(last, gradient)
        if self.predictions is not None and len(rows):
            tape.add(last, self.predictions.gradient(level, tape.output[last]))

    def _end(self, rows: Tensor) -> None:
        """These rows (B,) have no further steps in this window: their last local losses, and the inputs to remember."""
        assert self.plan is not None
        if not bool(rows.any()):
            return
        for level, tape in enumerate(self.tapes[:-1]):
            closes, clock = self.plan.levels[level].closes, self.plan.clock
            if not self.advance[level] and closes is not None:
                which = (closes & rows).nonzero()[:, 0]
                last = tape.records.at(which, tape.records.ticks[which] - 1)
                self._local_loss(level, which, last, clock.ordinal[which, level] - 1, clock.span[which, level])
        for level, old in enumerate(self.history):
            self.history[level] = self.tapes[level].remember(rows, self.clock.position[:, level], old)

    def _sweep(self, final: bool) -> None:
        """Differentiate what is complete, from the bottom level up."""
        complete = torch.ones_like(self.row, dtype=torch.bool)  # rows that have nothing unfinished at the level below
        for level, tape in enumerate(self.tapes):
            if level == self.top and not final:
                break
            records = tape.records
            if level < self.top and self.advance[level]:
                complete = complete & (self.clock.position[:, level] == self.periods[level])
            else:
                complete = torch.zeros_like(complete)
            complete = complete | self.over
            until = records.ticks if final else torch.where(complete, records.ticks, records.open).maximum(records.base)
            order = records.until(until)
            if order.shape[0] and bool((order >= 0).any()):
                self._differentiate(tape, order)
            if not final:
                renumbered = tape.forget_before(until)
                if level:
                    self.tapes[level - 1].records.renumber_parents(renumbered)
            # In phase a level counts its own segments, otherwise rounds.
            phase = self.phase
            counts = phase is None or phase.position[: level + 1] == phase.periods[: level + 1]
            if (counts and self.mover.due(level)) or (final and self.mover.updates is not None):
                self._move(tape, final)

    def _differentiate(self, tape: RecordTape, order: Tensor) -> None:
        done = order[order >= 0]
        if bool(tape.reached[done].any()) or (tape.level and self.predictions is not None):  # or nothing is to be gathered
            self._swept(tape, order, done)
        if self.window.on_segment is not None:
            self.window.on_segment(Differentiated(tape.level, self.steps, tape.gradients))

    def _swept(self, tape: RecordTape, order: Tensor, done: Tensor) -> None:
        """Records `done` that a gradient has reached, or of which that there is none has to be learned."""
        d_inputs = None
        if self.d_x.total is not None if tape.level == 0 else self.predictions is not None:
            d_inputs = tape.output.new_zeros(tape.count, self.window.model.cell(tape.level).input_size)
        tape.sweep(order, self.tapes[tape.level + 1] if tape.level < self.top else None, d_inputs)
        self.mover.touched[tape.level] = True
        facts = tape.records.facts
        if tape.level and d_inputs is not None and self.predictions is not None:
            self.predictions.learn(tape.level - 1, tape.inputs[done], d_inputs[done], facts.span[done])
        elif d_inputs is not None and self.d_x.total is not None:
            self.d_x.total[facts.step, facts.row] += d_inputs

    def _move(self, tape: RecordTape, final: bool) -> None:
        """Let a level's parameters move. Records that stay keep the weights they ran with, one older copy of them: if a segment
        that began before the last move is still unfinished, the level waits for the next round."""
        waits = not final and tape.records.older_than(tape.version) is not None
        if self.mover.move(tape.level, self.steps, tape, self.objective.gathered, final, waits):
            tape.moved()

    def _state(self) -> State:
        """The state after the window; what rows remember of unfinished segments has been taken from the tapes."""
        assert self.plan is not None
        clock = self.plan.closed()
        history = tuple(cleared(h, clock.position[:, level]) for level, h in enumerate(self.history))
        cells = tuple(tuple(part.clone() for part in tape.state) for tape in self.tapes)
        return State(cells, clock, self.row, history)
