"""Restricted gradients where rows tick at different times, or cells are a user's: any boundaries, lengths, resets.

The work goes in rounds. A round runs some steps forward in the order of time, slow levels computing only the rows that tick,
each tick of each row leaving a record. Then one sweep, from the bottom level up, differentiates every segment that has
completed, and only the records of unfinished segments stay for the next round. The end of the window completes everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from hrnn.cells import BuiltinCell, by_hand
from hrnn.forward import Ended, cleared
from hrnn.gradients.logs import BuiltinLog
from hrnn.gradients.objective import Objective
from hrnn.gradients.records import Records
from hrnn.gradients.updates import Mover
from hrnn.gradients.user_log import UserLog
from hrnn.gradients.window import Chunk, Differentiated, Window
from hrnn.segments import Behind, Clock, LevelSteps, Schedule, known_in_advance, pieces, reach_of, schedule
from hrnn.state import State


class Rounds:
    """One window, row by row."""

    def __init__(
        self,
        window: Window,
        objective: Objective,
        round_steps: int | None,
        on_segment: Callable[[Differentiated], None] | None,
        mover: Mover,
    ):
        model, state = window.model, window.state
        self.window, self.objective, self.on_segment, self.mover = window, objective, on_segment, mover
        self.periods, self.top = model.periods, len(model.cells) - 1
        self.round_steps = round_steps or (4 * reach_of(self.periods[0]) if self.periods else 32)
        self.advance = known_in_advance(self.periods)
        self.clock, self.row, self.before = state.clock, state.row, state
        self.behind = Behind()
        self.plan: Schedule | None = None
        self.place: list[int] | None = None  # in the periods, after the last round, where all rows were in phase
        self.over = torch.zeros_like(state.row, dtype=torch.bool)  # rows past their length: complete, if levels move
        self.history = list(state.history)  # with the inputs of rows that are over
        self.steps = 0
        self.d_x = None if window.given_x is None else torch.zeros_like(window.given_x)
        if self.d_x is not None and model.batch_first:
            self.d_x = self.d_x.transpose(0, 1)
        self.logs: list[BuiltinLog | UserLog] = []
        for level in range(self.top + 1):
            cell = model.cell(level)
            if isinstance(cell, BuiltinCell) and by_hand(cell):
                self.logs.append(BuiltinLog(cell, state.cells[level], mover.updates is not None))
            else:
                self.logs.append(
                    UserLog(cell, state.cells[level], level == 0 and self.d_x is not None, mover.updates is not None)
                )
        self.records = [Records(state.batch, self.row.device) for _ in self.logs]

    def run(self) -> State:
        """Everything: forward, backward, and the state after the window. Gradients are in the objective's `gathered`."""
        for chunk in self.window:
            position, past = self._position(chunk), self._past(chunk)
            behind = self.behind.after(chunk.boundaries, chunk.lengths, chunk.x.shape[0])
            self.logs[-1].reserve(self._top_ticks(self._parts(chunk, position, behind, past)))
            for part, known, over in self._parts(chunk, position, behind, past):
                if self.plan is not None:  # not right after the round: the last one is swept once, with all the rest
                    self._sweep(final=False)
                self.place = position
                self._round(part, known)
                if over is not None:
                    self._end(over & ~self.over)
                    self.over = self.over | over
        self._end(~self.over)
        state = self._state()
        self._sweep(final=True)
        for log in self.logs if self.mover.updates is None else []:
            for parameter, gradient in log.gradients().items():
                self.objective.gathered.add(parameter, gradient, owned=True)
        if self.d_x is not None and self.window.given_x is not None:
            d_x = self.d_x.transpose(0, 1) if self.window.model.batch_first else self.d_x
            self.objective.gathered.add(self.window.given_x, d_x)
        return state

    def _position(self, chunk: Chunk) -> list[int] | None:
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
        found = position[0].tolist() if together and (moves or chunk.lengths is None) else None
        return self.mover.together(found, len(self.periods))

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
        return lengths < steps

    def _parts(
        self, chunk: Chunk, position: list[int] | None, behind: Tensor | None, past: Tensor | None
    ) -> Iterator[tuple[Chunk, Tensor | None, Tensor | None]]:
        """The chunk cut into rounds, each with what is known of boundaries behind rows' last steps, and which rows are over.
        Where all rows are in phase, a round ends with a segment of the lowest level."""
        steps, lengths = chunk.x.shape[0], chunk.lengths
        size = reach_of(self.periods[0]) if position else self.round_steps
        start, stop = 0, min(steps, size - position[0] % size if position else size)  # `position` goes on with the rounds
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

    def _schedule(self, part: Chunk, behind: Tensor | None, clock: Clock, start: int) -> Schedule:
        return schedule(
            self.periods,
            clock,
            part.x.shape[0],
            boundaries=part.boundaries,
            following=behind,
            lengths=part.lengths,
            reset=part.reset,
            start=start,
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
        steps, batch = part.x.shape[:2]
        plan = self.plan = self._schedule(part, behind, self.clock, self.steps)
        self.clock = plan.clock
        added = self._append(plan)
        for log, level in zip(self.logs, plan.levels, strict=True):
            log.reserve(len(level.rows))
        lowest = plan.levels[0]
        self.logs[0].enter(part.x.flatten(0, 1) if lowest.all_rows else part.x[lowest.steps, lowest.rows])
        self._forward(plan, steps, batch)
        self._task(part, added[0], lowest)
        for i in range(self.top):
            steps_of = plan.levels[i]
            if self.advance[i]:
                period = reach_of(self.periods[i])
                which = (steps_of.place == period - 1).nonzero()[:, 0]
                span = torch.full_like(which, math.prod(reach_of(p) for p in self.periods[: i + 1]))
                self._local_loss(i, steps_of.rows[which], which + added[i].start, steps_of.ordinal[which], span)
            else:
                which = steps_of.ended.nonzero()[:, 0]
                rows = steps_of.rows[which]
                before = self._at(i, rows, self.records[i].tick[which + added[i].start] - 1)
                self._local_loss(i, rows, before, steps_of.ordinal_before[which], steps_of.span_before[which])
        self.steps += steps
        if self.place is not None:
            for _ in pieces([reach_of(p) for p in self.periods], self.place, steps):
                pass

    def _append(self, plan: Schedule) -> list[slice]:
        """Records for all ticks of a round, the top level first: its records are the parents of the next level's."""
        added: list[slice] = []
        parents: Tensor | None = None
        for level in range(self.top, -1, -1):
            added.insert(0, self.records[level].append(plan.levels[level], parents, self.steps, self.logs[level].version))
            parents = torch.arange(added[0].start, added[0].stop, device=self.row.device)
        return added

    def _forward(self, plan: Schedule, steps: int, batch: int) -> None:
        logs, top = self.logs, self.top
        done = [0] * (top + 1)
        keeps = [(~level.first)[:, None].to(log.hidden.dtype) for level, log in zip(plan.levels, logs, strict=True)]
        for step in range(steps):
            if plan.reset is not None and bool(plan.reset[step].any()):
                self._start_over(plan.reset[step])
            context: Tensor | None = None
            for i in range(top, -1, -1):
                level, n = plan.levels[i], plan.levels[i].counts[step]
                if not n:
                    context = None
                    continue
                at = slice(done[i], done[i] + n)
                done[i] += n
                rows = None if n == batch else level.rows[at]
                firsts = level.first_counts[step]
                keep = keeps[i][at] if firsts else None
                where = level.first[at].nonzero()[:, 0] if 0 < firsts < n else None
                inputs = None
                if i:
                    below = logs[i - 1].state[0]
                    inputs = below if rows is None else below[rows]
                    if isinstance(logs[i - 1], UserLog):
                        inputs = self._without_fresh(inputs, plan.levels[i - 1], done[i - 1], n, step)
                context = logs[i].tick(rows, inputs, keep, where, context if i < top else None)

    def _without_fresh(self, summaries: Tensor, lower: LevelSteps, done: int, n: int, step: int) -> Tensor:
        """Zero what rows send up before the first step of their sequence, whatever a user's cell starts from."""
        at = slice(done, done + lower.counts[step])
        fresh = lower.ordinal[at][lower.first[at]] == 0
        return summaries.masked_fill(fresh[:, None], 0.0)

    def _start_over(self, rows: Tensor) -> None:
        for i, log in enumerate(self.logs):
            fresh = self.window.model.cell(i).initial_state(len(rows))
            for part, new in zip(log.state, fresh, strict=True):
                part[rows] = new[rows].detach()

    def _task(self, part: Chunk, at: slice, lowest: LevelSteps) -> None:
        log, shape = self.logs[0], (*part.x.shape[:2], -1)
        if lowest.all_rows:
            output = log.hidden[at].view(shape).clone()  # the loss may keep it; the buffer is used again
        else:
            output = log.hidden.new_zeros(*part.x.shape[:2], log.hidden.shape[1])
            output[lowest.steps, lowest.rows] = log.hidden[at]
        leaf = output.detach().requires_grad_()
        with torch.enable_grad():
            loss = self.objective.task(leaf, part.y, part.mask)
        gradient = self.objective.differentiate(loss, leaf)
        if gradient is not None:
            log.d_hidden[at] = gradient.flatten(0, 1) if lowest.all_rows else gradient[lowest.steps, lowest.rows]

    def _at(self, level: int, rows: Tensor, ticks: Tensor) -> Tensor:
        """The records of `rows` at these ticks (n,) or (m, n); -1 where they are not in this window."""
        records = self.records[level]
        table = records.table()
        relative = ticks - records.base[rows]
        found = table[relative.clamp(0, max(0, table.shape[0] - 1)), rows.expand_as(relative)]
        return torch.where(relative >= 0, found, -1)

    def _local_loss(self, level: int, rows: Tensor, last: Tensor, ordinal: Tensor, span: Tensor) -> None:
        """The local loss of segments whose last records are `last` (n,)."""
        if not self.window.betas[level] or not len(rows):
            return
        log, records = self.logs[level], self.records[level]
        ticks = records.place[last] + 1

        def recent(index: Tensor) -> Tensor:
            found = self._at(level, rows, records.tick[last] - (index - 1))
            history = self.before.history[level]
            old = history[(ticks - index) % history.shape[0], rows]
            in_window = (index - 1 <= torch.minimum(records.place[last], records.tick[last])).view(
                *index.shape, *[1] * (old.dim() - 2)
            )
            return torch.where(in_window, log.inputs[found.clamp(min=0)], old)

        ended = Ended(level, log.hidden[last], self.row[rows], ordinal, ticks, span, recent)
        log.d_hidden.index_add_(0, last, self.objective.local_gradient(ended))

    def _end(self, rows: Tensor) -> None:
        """These rows (B,) have no further steps in this window: their last local losses, and the inputs to remember."""
        assert self.plan is not None
        if not bool(rows.any()):
            return
        for level in range(self.top):
            if not self.advance[level]:
                which, clock = (self.plan.levels[level].closes & rows).nonzero()[:, 0], self.plan.clock
                last = self._at(level, which, self.records[level].ticks[which] - 1)
                self._local_loss(level, which, last, clock.ordinal[which, level] - 1, clock.span[which, level])
        for level, old in enumerate(self.history):
            records, reach = self.records[level], old.shape[0]
            live = (records.tick >= records.open[records.row]) & (
                records.place >= self.clock.position[records.row, level] - reach
            )
            at = (live & rows[records.row]).nonzero()[:, 0]
            self.history[level] = old.index_put((records.place[at] % reach, records.row[at]), self.logs[level].inputs[at])

    def _sweep(self, final: bool) -> None:
        """Differentiate what is complete, from the bottom level up."""
        complete = torch.ones_like(self.row, dtype=torch.bool)  # rows that have nothing unfinished at the level below
        for level, (log, records) in enumerate(zip(self.logs, self.records, strict=True)):
            if level == self.top and not final:
                break
            if level < self.top and self.advance[level]:
                complete = complete & (self.clock.position[:, level] == self.periods[level])
            else:
                complete = torch.zeros_like(complete)
            complete = complete | self.over
            until = records.ticks if final else torch.where(complete, records.ticks, records.open).maximum(records.base)
            table = records.table()
            ready = torch.arange(table.shape[0], device=table.device)[:, None] + records.base < until
            order = table.masked_fill(~ready, -1)
            order = order[: int((until - records.base).max())] if len(order) else order
            if order.shape[0] and bool((order >= 0).any()):
                d_inputs = None
                if level == 0 and self.d_x is not None:
                    d_inputs = log.hidden.new_zeros(log.count, self.d_x.shape[-1])
                above = self.logs[level + 1] if level < self.top else None
                log.sweep(order, records.first.bool(), records.parent, above, d_inputs, self._older(level))
                self.mover.touched[level] = True
                if d_inputs is not None and self.d_x is not None:
                    self.d_x[records.step, records.row] += d_inputs
                if self.on_segment is not None:
                    self.on_segment(Differentiated(level, self.steps, log.gradients))
            if not final:
                stay = (records.tick >= until[records.row]).nonzero()[:, 0]
                log.keep(stay)
                renumbered = records.keep(stay)
                records.base = until.clone()
                if level:
                    lower = self.records[level - 1]
                    old = lower.parent
                    if len(renumbered):
                        lower.columns["parent"] = torch.where(old >= 0, renumbered[old.clamp(min=0)], -1)
            # In phase a level counts its own segments, otherwise rounds.
            counts = self.place is None or self.place[: level + 1] == self.periods[: level + 1]
            if (counts and self.mover.due(level)) or (final and self.mover.updates is not None):
                self._move(level, final)

    def _older(self, level: int) -> Tensor | None:
        """(rows,): how many of each row's records, its oldest, ran before the level last moved; None where none did."""
        records, version = self.records[level], self.logs[level].version
        old = records.version < version
        return torch.bincount(records.row[old], minlength=len(self.row)) if bool(old.any()) else None

    def _move(self, level: int, final: bool) -> None:
        """Let a level's parameters move. Records that stay keep the weights they ran with, one older copy of them: if a segment
        that began before the last move is still unfinished, the level waits for the next round."""
        log, updates = self.logs[level], self.mover.updates
        assert updates is not None
        waits = not final and bool((self.records[level].version < log.version).any())
        own = set(log.cell.parameters())
        others = [p for p in updates.parameters[level] if p not in own]
        gathered = self.objective.gathered
        if self.mover.move(level, self.steps, lambda: {**log.gradients(), **gathered.take(others)}, final, waits):
            log.moved()

    def _state(self) -> State:
        """The state after the window; what rows remember of unfinished segments has been taken from the logs."""
        assert self.plan is not None
        clock = self.plan.settled(self.periods)
        history = tuple(cleared(h, clock.position[:, level]) for level, h in enumerate(self.history))
        cells = tuple(tuple(part.clone() for part in log.state) for log in self.logs)
        return State(cells, clock, self.row, history)
