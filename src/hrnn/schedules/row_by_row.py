"""The schedule of rows that each go their own way: step by step, with any boundaries, lengths and resets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from hrnn.segments import ALL, Clock, Ending, Given, Moment, Period, Starts, Ticks, known_in_advance, reach_of


class Before(NamedTuple):
    """Of the first ticks among M, the segment that the row had before: (M,) each."""

    ended: Tensor  # it ended there, complete, and its last tick is in this window
    ordinal: Tensor
    ticks: Tensor  # how many it had
    span: Tensor  # in steps


@dataclass
class LevelSteps:
    """One level's part in n steps. Its ticks are numbered in the order of time, then row: tick m of M."""

    rows: Tensor  # (M,) the row of each tick
    steps: Tensor  # (M,) its step
    first: Tensor  # (M,) does it start a segment (at the top: a sequence)?
    counts: list[int]  # ticks at each step
    first_counts: list[int]  # ticks that start a segment, at each step
    all_rows: bool  # every row ticks at every step
    place: Tensor  # (M,) place of the tick in its segment, from 0; ticks of earlier windows count
    ordinal: Tensor  # (M,) ordinal of its segment in the row's sequence
    unborn: Tensor | None = None  # (M,) the level below has nothing to send up; None: it always has
    before: Before | None = None  # None: the top, which has no segments
    closes: Tensor | None = None  # (B,) the segment that is open after the n steps ends there; None: the top


class RowByRow:
    """n steps in which rows tick each on their own: a moment is a step.

    boundaries (n, B, given levels), following (B, given levels): is a boundary known to come behind each row's last step,
    lengths (B,), reset (n, B); all checked before, except that boundaries are nested, which is checked here; `start` is the
    first step's number in what the user gave; `learned`: for each level, may its cell start from anything but zero?

    levels: what each level does, the lowest first, the top included
    valid:  (n, B), None where all steps are
    clock:  after the steps
    """

    def __init__(
        self,
        periods: Sequence[Period],
        clock: Clock,
        steps: int,
        *,
        boundaries: Tensor | None = None,
        following: Tensor | None = None,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
        start: int = 0,
        learned: Sequence[bool] = (),
    ):
        self.periods, self.steps, self.batch = periods, steps, clock.position.shape[0]
        device = clock.position.device
        valid = torch.ones(steps, self.batch, dtype=torch.bool, device=device)
        if lengths is not None:
            valid = torch.arange(steps, device=device)[:, None] < lengths
        self.valid = valid if lengths is not None else None
        resets = torch.zeros_like(valid) if reset is None else reset & valid
        advance, stepped = known_in_advance(periods), valid.cumsum(0)
        self.levels: list[LevelSteps] = []
        after: list[tuple[Tensor, ...]] = []
        ticks, given = valid, 0
        # Does the level below's open segment end with the steps? Where a sequence starts: had it completed its segment before?
        ending, over = torch.ones_like(valid[0]), torch.ones_like(valid)
        ends: list[Tensor] = []
        for i, period in enumerate(periods):
            position, span, ordinal = clock.position[:, i], clock.span[:, i], clock.ordinal[:, i]
            count = ticks.cumsum(0)
            if isinstance(period, Given):
                assert boundaries is not None
                flags = boundaries[..., given]
                _check_nested(flags & valid & ~ticks, i, start)  # not what is announced: the next step may be a reset
                boundary = ticks & (flags | resets | ((count == 1) & (position == 0)))
                ending = torch.zeros_like(ending) if following is None else ending & following[:, given]
                over, given = over & flags, given + 1
            else:
                boundary = ticks & ((_since(count, resets, position) - 1) % period == 0)
            place = _since(count, boundary, position)  # ticks in the segment, after each step
            opened = torch.cat([position[None], place[:-1]])  # ticks in the segment before, where a boundary is
            if not isinstance(period, Given):
                ending, over = ending & (place[-1] % period == 0), over & (opened % period == 0)
            spans = _since(stepped, boundary, span)
            ordinals = _since(boundary.cumsum(0), resets, ordinal)
            ticked = clock.ticked[:, i] | (count[-1] > 0)
            new = boundary & (over | ~resets)  # a reset that is no boundary of the data cuts the segment short
            lost = new & (opened > 0) & (count == 1) & ticks & ~clock.ticked[:, i]  # its last tick was in the window before
            level = _level(ticks, boundary, place - 1, ordinals - 1)
            at = level.steps, level.rows
            spanned = torch.cat([span[None], spans[:-1]])[at]
            if advance[i]:  # complete with its last tick, even if a reset came soon after
                complete, level.closes = boundary & (opened == period), place[-1].eq(reach_of(period))
                spanned, skipped = torch.full_like(spanned, self.steps_of_segment(i)), clock.skipped[:, i]
            else:
                complete, level.closes = new & (opened > 0) & ~lost, ending & (place[-1] > 0) & ticked
                skipped = clock.skipped[:, i] + lost.sum(0)
            level.before = Before(complete[at], torch.cat([ordinal[None], ordinals[:-1]])[at] - 1, opened[at], spanned)
            self._add(level, resets, learned)
            after.append((place[-1], spans[-1], ordinals[-1], ticked, skipped))
            ends.append(ending)
            ticks = boundary
        self._add(_level(ticks, resets, stepped, stepped), resets, learned)
        self.clock = Clock(*(torch.stack(column, -1) for column in zip(*after, strict=True))) if after else clock
        self._ends = ends

    def steps_of_segment(self, level: int) -> int:
        """Steps of a complete segment, with fixed periods."""
        return math.prod(reach_of(period) for period in self.periods[: level + 1])

    def _add(self, level: LevelSteps, resets: Tensor, learned: Sequence[bool]) -> None:
        if self.levels:
            lower = self.levels[-1]
            born = lower.ordinal == 0
            if not (learned and learned[len(self.levels) - 1]):  # then only a reset leaves something else than zero
                born = born & resets[lower.steps, lower.rows]
            unborn = born[lower.first]
            level.unborn = unborn if bool(unborn.any()) else None
        self.levels.append(level)

    def moments(self) -> Iterator[Moment]:
        """Step by step."""
        done = [0] * len(self.levels)
        for step in range(self.steps):
            counts = [level.counts[step] for level in self.levels]
            yield _Step(self, step, done, counts)
            done = [before + count for before, count in zip(done, counts, strict=True)]

    def close(self) -> Moment:
        """The end of the window: segments known to be complete end, nobody ticks."""
        return _Close(self)

    def closed(self) -> Clock:
        """The clock if the window closes here: segments known to be complete are over."""
        clock, advance = self.clock, known_in_advance(self.periods)
        position, skipped = clock.position.clone(), clock.skipped.clone()
        for i, period in enumerate(self.periods):
            if advance[i] and not isinstance(period, Given):
                position[:, i] %= period
            else:
                skipped[:, i] += self._ends[i] & (position[:, i] > 0) & ~clock.ticked[:, i]
                position[:, i].masked_fill_(self._ends[i], 0)
        return replace(clock, position=position, skipped=skipped, ticked=torch.zeros_like(clock.ticked))


class _Step(Moment):
    def __init__(self, plan: RowByRow, step: int, done: list[int], counts: list[int]):
        self.plan, self.start, self.stop, self.done, self.counts = plan, step, step + 1, done, counts
        self.ticking = sum(map(bool, counts)) - 1  # a level ticks only where those below do

    def _at(self, level: int) -> slice:
        return slice(self.done[level], self.done[level] + self.counts[level])

    def ticks(self, level: int) -> Ticks:
        steps, at, count = self.plan.levels[level], self._at(level), self.counts[level]
        rows = None if count == self.plan.batch else steps.rows[at]
        starts, firsts = None, steps.first_counts[self.start]
        if firsts:
            mask = steps.first[at] if firsts < count else None
            starts = ALL if mask is None else Starts(mask, mask.nonzero()[:, 0])
        return Ticks(rows, starts, steps.place[at], None if steps.unborn is None else steps.unborn[at])

    def ending(self, level: int) -> Ending | None:
        steps, at = self.plan.levels[level], self._at(level)
        assert steps.before is not None
        ended, ordinal, ticks, span = steps.before
        which = ended[at].nonzero()[:, 0] + at.start
        return Ending(steps.rows[which], ordinal[which], ticks[which], span[which]) if len(which) else None


class _Close(Moment):
    ticking, start, stop = -1, 0, 0

    def __init__(self, plan: RowByRow):
        self.plan = plan

    def ticks(self, level: int) -> Ticks:
        raise ValueError("nobody ticks when a window closes")

    def ending(self, level: int) -> Ending | None:
        plan, clock, closes = self.plan, self.plan.clock, self.plan.levels[level].closes
        assert closes is not None
        rows = closes.nonzero()[:, 0]
        span = clock.span[rows, level]
        if known_in_advance(plan.periods)[level]:
            span = torch.full_like(span, plan.steps_of_segment(level))
        return Ending(rows, clock.ordinal[rows, level] - 1, clock.position[rows, level], span) if len(rows) else None


def _check_nested(stray: Tensor, level: int, start: int) -> None:
    if stray.any():
        step, row = stray.nonzero()[0].tolist()
        raise ValueError(
            f"boundaries of level {level} at step {start + step}, row {row} is true where level {level} does not tick; "
            f"a boundary of a level must also be one of every level below"
        )


def _since(count: Tensor, marks: Tensor, before: Tensor) -> Tensor:
    """How far `count` (n, B), cumulative, has come since the last mark, that one included; `before` (B,) where none was."""
    at_mark = torch.where(marks, count - 1, -1).cummax(0).values
    return torch.where(at_mark >= 0, count - at_mark, before + count)


def _level(ticks: Tensor, first: Tensor, place: Tensor, ordinal: Tensor) -> LevelSteps:
    steps, rows = ticks.nonzero(as_tuple=True)
    first = first & ticks
    return LevelSteps(
        rows=rows,
        steps=steps,
        first=first[steps, rows],
        counts=ticks.sum(1).tolist(),
        first_counts=first.sum(1).tolist(),
        all_rows=bool(ticks.all()),
        place=place[steps, rows],
        ordinal=ordinal[steps, rows],
    )


class Behind:
    """What the chunks of a window say of boundaries behind each row's last step. A row's steps may be over in an earlier chunk
    than its boundaries: right behind the last step of a chunk comes the first row of the next chunk's boundaries."""

    def __init__(self) -> None:
        self._known: Tensor | None = None  # (B, given levels)
        self._open: Tensor | None = None  # (B,) nothing has been said yet of what follows the row's last step

    def after(self, boundaries: Tensor | None, lengths: Tensor | None, steps: int) -> Tensor | None:
        """(B, given levels): is a boundary known to come behind each row's last step, this chunk's included? boundaries: (steps
        or steps + 1, B, given levels)."""
        if boundaries is None:
            return None
        batch, given = boundaries.shape[1:]
        rows = torch.arange(batch, device=boundaries.device)
        lengths = torch.full_like(rows, steps) if lengths is None else lengths
        if self._known is None or self._open is None:
            self._known, self._open = boundaries.new_zeros(batch, given), torch.ones_like(rows, dtype=torch.bool)
        padded = torch.cat([boundaries, boundaries.new_zeros(steps + 1 - boundaries.shape[0], batch, given)])
        told = self._open | (lengths > 0)  # of the others only padding is left
        self._known = torch.where(told[:, None], padded[lengths, rows], self._known)
        self._open = told & (lengths == boundaries.shape[0])
        return self._known
