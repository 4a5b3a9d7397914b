"""Levels that move within a window, one row, one step, one level at a time, by the definition:

A *batch* of a level is one segment of some rows, the r-th within the segment above; the 0th is what was unfinished when the
window began. The top's batch is the window. Where nobody reads the level's summary, a batch has several segments of each row:
of those that the level above begins in its batch so many at a time, a rest of less than half with those before. When a batch
has run, with all that lies below it, its losses are known, and the level is differentiated: each of its ticks ran with one set
of weights. Then the level moves, if it is due: after `every` batches in which it ticks. Its gradient is that of the mean over
the steps since its last move; if it moves once, at the window's end, that of the window as it is. What no loss has reached
keeps its place. With a level its reader and its decoder move.

Where rows part, batches differ in size. A level then waits until there are half the steps of a mean batch of its own, and a
rest of the window with fewer joins the batch before.

In rounds of so many steps, a segment of the level below the top runs in the round in which the next one begins, the last in the
last round: what is the r-th, a mean and a rest is then so of a round.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hrnn.segments import Given
from tests.oracle import Oracle, Row, Segment, Tick


def groups(ticks: list[Tick], size: int) -> list[list[Tick]]:
    """Those of a row, in time order, by the batch of the level below that they begin segments of."""
    found = [ticks[i : i + size] for i in range(0, len(ticks), size)]
    if len(found) > 1 and 2 * len(found[-1]) < size:
        found[-2:] = [found[-2] + found[-1]]
    return found


class Moves:
    """The levels of an oracle with restricted gradients, and an optimizer for each; heads move with the lowest."""

    def __init__(
        self,
        oracle: Oracle,
        heads,
        optimizer,
        every: list[int | None],
        clip: float | None = None,
        round_steps: int | None = None,
    ):
        model, self.round_steps = oracle.model, round_steps
        self.oracle, self.every, self.clip, self.top = oracle, every, clip, len(model.cells) - 1
        self.segments = [1, *model.config["segments"]]  # begun by a level, in a batch of the level below
        self.ran = [list(cell.parameters()) for cell in model.cells]
        for level, reader in enumerate(getattr(model, "readers", []), 1):
            self.ran[level] += reader.parameters()
        self.owned = [list(parameters) for parameters in self.ran]
        for level, decoder in enumerate(model.decoders or []):
            self.owned[level] += decoder.parameters()
        self.owned[0] += heads
        self.optimizers = [optimizer(parameters) for parameters in self.owned]
        self.moves = [0 for _ in self.owned]

    def window(self, x: Tensor, y: Tensor, *, loss, **arguments) -> None:
        oracle, levels = self.oracle, range(self.top + 1)
        self.y, self.loss = y, loss
        positions = {tuple(row.position(level) for level in range(self.top)) for row in oracle.rows}
        given = any(isinstance(period, Given) for period in oracle.model.periods)
        resets, lengths = arguments["reset"], arguments["lengths"]
        self.apart = given or len(positions) > 1
        self.apart |= lengths is not None and len({*lengths.tolist()}) > 1
        self.apart |= resets is not None and bool((resets != resets[:, :1]).any())
        for ticks in oracle.begin(x, **arguments):
            list(ticks)
        self.rows = {row.number: b for b, row in enumerate(oracle.rows)}
        self.wanted = set(oracle.targets)
        self.before = [[cell[0].detach() for cell in cells] for cells in oracle.cells]
        self.contexts: dict[Segment, Tensor] = {}  # what others see of the level above while it lasts: leaves
        self.done, self.moved_at = 0, [0 for _ in levels]  # steps of all rows
        self.closed, self.reached = [0 for _ in levels], [False for _ in levels]
        self.batches, self.steps = [0 for _ in levels], 0
        self.rounds = self._rounds([row.whole for row in oracle.rows], len(x))
        self._batch(self.top, [row.whole for row in oracle.rows])
        for level in levels:
            if self.closed[level]:
                self._move(level)
        oracle.learn()

    def _rounds(self, segments: list[Segment], steps: int) -> list[list[list[Tick | None]]]:
        """Of each round, the top's ticks of each row that run in it; first None, if what was unfinished does."""
        size = self.round_steps or steps
        rounds = [[[] for _ in segments] for _ in range(-(-steps // size))]
        for b, segment in enumerate(segments):
            for tick, following in zip([None, *segment.ticks], [*segment.ticks, None], strict=True):
                rounds[-1 if following is None or not self.top else following.step // size][b].append(tick)
        return rounds

    def _of_window(self, segments: list[Segment]) -> Iterator[tuple[list[Tick], list[Segment]]]:
        """As `_parts`, of the top."""
        for number, ran in enumerate(self.rounds):
            parts = []
            going_on = [self.oracle.rows[b] for b, own in enumerate(ran) if None in own]
            parts.append(([], self._unfinished(self.top, going_on)))
            own = [[tick for tick in some if tick is not None] for some in ran]
            parts += self._together(self.top, own)
            self.last_round = number == len(self.rounds) - 1
            self.batches[: self.top] = [0] * self.top
            steps = sum(self._count(self.top - 1, below) if below else 0 if self.top else len(ticks) for ticks, below in parts)
            self.steps += steps
            self.mean = [steps / max(1, batches) for batches in self.batches]
            yield from parts

    def _unfinished(self, level: int, rows: list[Row]) -> list[Segment]:
        return [row.carried[level - 1] for row in rows if level and any(s and s.ticks for s in row.carried[:level])]

    def _parts(self, level: int, segments: list[Segment]) -> Iterator[tuple[list[Tick], list[Segment]]]:
        """A batch, ticks with the batch of the level below that they begin; first what was unfinished."""
        rows = [self.oracle.rows[self.rows[segment.row]] for segment in segments]
        going_on = [row for row, segment in zip(rows, segments, strict=True) if segment in row.carried]
        yield [], self._unfinished(level, going_on)
        own: dict[int, list[Tick]] = {}
        for segment in segments:
            own.setdefault(segment.row, []).extend(segment.ticks)
        yield from self._together(level, list(own.values()))

    def _together(self, level: int, own: list[list[Tick]]) -> Iterator[tuple[list[Tick], list[Segment]]]:
        """own: of each row the ticks."""
        parts = [groups(ticks, self.segments[level]) for ticks in own]
        for j in range(max(map(len, parts))):
            ticks = [tick for some in parts if len(some) > j for tick in some[j]]
            yield ticks, [tick.began for tick in ticks if level]

    def _count(self, level: int, segments: list[Segment]) -> int:
        """The steps of a batch; and one more batch of each level that ticks in it."""
        self.batches[level] += any(segment.ticks for segment in segments)
        parts = list(self._parts(level, segments))
        return sum(self._count(level - 1, below) if below else len(ticks) for ticks, below in parts)

    def _batch(self, level: int, segments: list[Segment]) -> None:
        oracle, total = self.oracle, 0.0
        made: list[tuple[Tensor, Tensor]] = []  # hidden states, and the leaves that others see of them
        outputs: list[Tensor] = []
        targets: list[tuple[int, int]] = []
        for ticks, below in self._of_window(segments) if level == self.top else self._parts(level, segments):
            for tick in ticks:
                at = self.rows[tick.segment.row]
                cells, context = oracle.cells[at], self.contexts.get(tick.segment)
                if tick.reset and level == self.top:
                    cells[level] = oracle.start()[level]
                cells[level] = oracle.tick(tick, cells[level], cells[level - 1][0], context if tick.first else None)
                if level:
                    self.contexts[tick.began] = cells[level][0].detach().requires_grad_()
                    made.append((cells[level][0], self.contexts[tick.began]))
                elif (tick.step, at) in self.wanted:
                    outputs.append(torch.cat([cells[0][0], *self._above(tick.segment, at)]))
                    targets.append((tick.step, at))
            if below:
                self._batch(level - 1, below)
            elif level == 0:
                self.done += len(ticks)
        total = total + oracle.task(self.loss, outputs, self.y, targets)
        for segment in segments:
            if level < self.top and segment.ticks and segment.complete and oracle.betas[level]:
                total = total + oracle.betas[level] * oracle.local_weight * oracle.local_loss(segment)
        total = total + sum((hidden * leaf.grad).sum() for hidden, leaf in made if leaf.grad is not None)
        if isinstance(total, Tensor) and total.requires_grad:
            total.backward()
            self.reached[level] = True
        for segment in segments:
            cells = oracle.cells[self.rows[segment.row]]
            cells[level] = tuple(part.detach() for part in cells[level])
        if any(segment.ticks for segment in segments):
            self.closed[level] += 1
            self.batches[level] -= 1
            if level < self.top and self._due(level):
                self._move(level)

    def _above(self, segment: Segment, at: int) -> Iterator[Tensor]:
        """What a segment of the lowest level sees of the levels above that the output has."""
        for level in self.oracle.shown[1:]:
            yield self.contexts.get(segment, self.before[at][level])
            segment = segment.above

    def _due(self, level: int) -> bool:
        """Does it move now? Not if the window ends here: then it does in any case."""
        if self.every[level] is None or self.closed[level] < self.every[level]:
            return False
        if self.last_round and not self.batches[level]:
            return False
        rest = self.steps - self.done or self.steps  # nothing is left at the end of a round: others follow
        return not self.apart or 2 * min(self.done - self.moved_at[level], rest) >= self.mean[level]

    def _move(self, level: int) -> None:
        if not self.reached[level]:
            return
        parameters, once = self.owned[level], self.last_round and self.done == self.steps and not self.moved_at[level]
        for parameter in self.ran[level]:  # that a loss has not reached
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for parameter in parameters:
            if parameter.grad is not None and not once:
                parameter.grad /= self.oracle.local_weight * (self.done - self.moved_at[level])
        if self.clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.clip)
        self.optimizers[level].step()
        for parameter in parameters:
            parameter.grad = None
        self.moves[level] += 1
        self.moved_at[level], self.closed[level], self.reached[level] = self.done, 0, False
