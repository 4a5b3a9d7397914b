"""Periods and boundaries to segments: who ticks when, where segments start and end, row by row.

Shapes: n steps, B rows; "levels" counts the levels below the top, which are those that have segments. Everything here is
bookkeeping on integers and booleans; no state of a cell is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Given:
    """In place of a period: the data say where segments start. `reach` is how many of a segment's most recent inputs the
    level's decoder can be asked for."""

    reach: int


Period = int | Given


def reach_of(period: Period) -> int:
    """How many of the most recent inputs of a segment the local loss decodes."""
    return period.reach if isinstance(period, Given) else period


def known_in_advance(periods: Sequence[Period]) -> list[bool]:
    """For each level below the top: is the end of its segment known at the segment's last tick? So it is where this
    period and all those below are fixed; otherwise only the next boundary tells."""
    return [all(not isinstance(p, Given) for p in periods[: i + 1]) for i in range(len(periods))]


@dataclass(frozen=True)
class Clock:
    """Where each row is: (B, levels) integers, and no more than that.

    position: ticks so far in the current segment; 0 when the next tick starts one, which is known.
    span:     steps since the current segment's first, that one included.
    ordinal:  segments started since the row's sequence began.
    ticked:   has the level ticked in this window?
    skipped:  local losses left out because the end of their segment was not known before its window closed.
    """

    position: Tensor
    span: Tensor
    ordinal: Tensor
    ticked: Tensor
    skipped: Tensor

    @staticmethod
    def start(batch: int, levels: int, device: torch.device | str = "cpu") -> Clock:
        zero = torch.zeros(batch, levels, dtype=torch.int64, device=device)
        return Clock(zero, zero, zero, zero.bool(), zero)

    def cleared(self, rows: Tensor) -> Clock:
        """With the rows where `rows` (B,) is true back at the start of a sequence."""
        at = rows[:, None]
        return replace(
            self,
            position=self.position.masked_fill(at, 0),
            span=self.span.masked_fill(at, 0),
            ordinal=self.ordinal.masked_fill(at, 0),
        )


@dataclass(frozen=True)
class Piece:
    """Steps between two boundaries of the lowest level, where all rows tick together."""

    start: int
    stop: int
    place: int  # of the first step in the lowest level's segment
    ticking: int  # levels 1 to `ticking` tick at the first step: those below them start segments
    ended: tuple[int, ...]  # levels whose segment ended, complete, just before


def pieces(periods: Sequence[int], position: list[int], steps: int) -> Iterator[Piece]:
    """Cut `steps` steps at the lowest level's boundaries. `position`, ticks so far in each level's segment, is kept up to
    date; a complete segment stays at its period until the next one starts."""
    step = 0
    while step < steps:
        ticking, ended = 0, []
        for i, period in enumerate(periods):
            if position[i] not in (0, period):
                break
            if position[i] == period:
                ended.append(i)
            position[i], ticking = 0, i + 1
        for i in range(1, min(ticking + 1, len(periods))):
            position[i] += 1
        count = min(periods[0] - position[0], steps - step) if periods else steps
        place = position[0] if periods else 0
        if periods:
            position[0] += count
        yield Piece(step, step + count, place, ticking, tuple(ended))
        step += count


@dataclass
class LevelSteps:
    """One level's part in n steps. Its ticks are numbered in the order of time, then row: tick m of M."""

    rows: Tensor  # (M,) the row of each tick
    steps: Tensor  # (M,) its step
    first: Tensor  # (M,) does it start a segment (at the top: a sequence)?
    counts: list[int]  # ticks at each step
    all_rows: bool  # every row ticks at every step
    first_counts: list[int]  # ticks that start a segment, at each step
    place: Tensor  # (M,) place of the tick in its segment, from 0; ticks of earlier windows count
    ordinal: Tensor  # (M,) ordinal of its segment in the row's sequence
    # For first ticks, about the segment before, (M,) each:
    ended: Tensor  # it ended there, complete, and its last tick is in this window
    span_before: Tensor  # how many steps it spanned
    ticks_before: Tensor  # how many ticks it had
    ordinal_before: Tensor  # its ordinal
    closes: Tensor = field(default_factory=lambda: torch.empty(0))  # (B,) the segment open after the n steps ends there


@dataclass
class Schedule:
    """n steps of all levels, lowest first; the top level is the last entry of `levels`."""

    levels: list[LevelSteps]
    boundary: Tensor  # (n, B, levels) the level above ticks
    valid: Tensor | None  # (n, B), None where all are
    reset: Tensor | None  # (n, B), None where none is
    clock: Clock  # after the steps
    ends: Tensor  # (B, levels) is a boundary known to follow the steps?

    def settled(self, periods: Sequence[Period]) -> Clock:
        """The clock after the steps if the window closes there: segments known to be complete are over."""
        clock, advance = self.clock, known_in_advance(periods)
        position, skipped = clock.position.clone(), clock.skipped.clone()
        for i, period in enumerate(periods):
            if advance[i] and not isinstance(period, Given):
                position[:, i] %= period
            else:
                late = self.ends[:, i] & (position[:, i] > 0) & ~clock.ticked[:, i]
                skipped[:, i] += late
                position[:, i].masked_fill_(self.ends[:, i], 0)
        return replace(clock, position=position, skipped=skipped, ticked=torch.zeros_like(clock.ticked))


def _since(count: Tensor, marks: Tensor, before: Tensor) -> Tensor:
    """How far `count` (n, B), cumulative, has come since the last mark, that one included; `before` (B,) where none was."""
    at_mark = torch.where(marks, count - 1, -1).cummax(0).values
    return torch.where(at_mark >= 0, count - at_mark, before + count)


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


def schedule(
    periods: Sequence[Period],
    clock: Clock,
    steps: int,
    *,
    boundaries: Tensor | None = None,
    following: Tensor | None = None,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    start: int = 0,
) -> Schedule:
    """Who ticks when in the next `steps` steps.

    boundaries (steps, B, given levels), following (B, given levels): is a boundary known to come behind each row's last
    step, lengths (B,), reset (steps, B); all checked before, except that boundaries are nested, which is checked here;
    `start` is the first step's number in what the user gave.
    """
    batch, below = clock.position.shape
    device = clock.position.device
    valid = torch.ones(steps, batch, dtype=torch.bool, device=device)
    if lengths is not None:
        valid = torch.arange(steps, device=device)[:, None] < lengths
    resets = torch.zeros_like(valid) if reset is None else reset & valid
    cut = resets.any().item()
    advance = known_in_advance(periods)
    stepped = valid.cumsum(0)
    columns: dict[str, list[Tensor]] = {
        name: [] for name in ("boundary", "ends", "position", "span", "ordinal", "ticked", "skipped")
    }
    ticks, levels, given = valid, [], 0
    ending = torch.ones(batch, dtype=torch.bool, device=device)  # does the level below's open segment end with the steps?
    over = torch.ones_like(valid)  # where a sequence starts: had the level below completed its segment before?
    for i, period in enumerate(periods):
        position, span, ordinal = clock.position[:, i], clock.span[:, i], clock.ordinal[:, i]
        count = ticks.cumsum(0)
        if isinstance(period, Given):
            assert boundaries is not None
            flags = boundaries[..., given]
            announced = torch.zeros_like(ending) if following is None else following[:, given]
            given += 1
            stray = flags & valid & ~ticks  # not what is announced: the next step may be a reset
            if stray.any():
                step, row = stray.nonzero()[0].tolist()
                raise ValueError(
                    f"boundaries of level {i} at step {start + step}, row {row} is true where level {i} does not tick; "
                    f"a boundary of a level must also be one of every level below"
                )
            boundary = ticks & (flags | resets | ((count == 1) & (position == 0)))
            ends, over = ending & announced, over & flags
        else:
            done = _since(count, resets, position) - 1
            boundary = ticks & (done % period == 0)
            ends = ending
        place = _since(count, boundary, position)  # ticks in the segment, after each step
        opened = torch.cat([position[None], place[:-1]])  # ticks in the segment before, where a boundary is
        if not isinstance(period, Given):
            ends, over = ends & (place[-1] % period == 0), over & (opened % period == 0)
        spans = _since(stepped, boundary, span)
        ordinals = _since(boundary.cumsum(0), resets, ordinal)
        new = boundary & (over | ~resets)  # a reset that is no boundary of the data cuts the segment short
        first_tick = (count == 1) & ticks & ~clock.ticked[:, i]
        lost = first_tick & new & (opened > 0)
        ended = boundary & (opened == period) if advance[i] else new & (opened > 0) & ~lost
        level = _level(ticks, boundary, place - 1, ordinals - 1)
        level.ended = ended[level.steps, level.rows]
        level.span_before = torch.cat([span[None], spans[:-1]])[level.steps, level.rows]
        level.ticks_before = opened[level.steps, level.rows]
        level.ordinal_before = torch.cat([ordinal[None], ordinals[:-1]])[level.steps, level.rows] - 1
        ticked = clock.ticked[:, i] | (count[-1] > 0)
        complete = place[-1] == reach_of(period)
        level.closes = complete if advance[i] else ends & (place[-1] > 0) & ticked
        levels.append(level)
        skipped = clock.skipped[:, i] if advance[i] else clock.skipped[:, i] + lost.sum(0)
        for name, column in zip(columns, (boundary, ends, place[-1], spans[-1], ordinals[-1], ticked, skipped), strict=True):
            columns[name].append(column)
        ticks, ending = boundary, ends
    levels.append(_level(ticks, resets, stepped, stepped))
    if below:
        stacked = {name: torch.stack(column, -1) for name, column in columns.items()}
        boundary, ends, after = stacked.pop("boundary"), stacked.pop("ends"), Clock(**stacked)
    else:
        boundary, ends, after = valid[..., None][..., :0], ending[:, None][:, :0], clock
    return Schedule(levels, boundary, valid if lengths is not None else None, resets if cut else None, after, ends)


def _level(ticks: Tensor, first: Tensor, place: Tensor, ordinal: Tensor) -> LevelSteps:
    steps, rows = ticks.nonzero(as_tuple=True)
    starts = (first & ticks)[steps, rows]
    none = torch.zeros_like(starts)
    return LevelSteps(
        rows=rows,
        steps=steps,
        first=starts,
        counts=ticks.sum(1).tolist(),
        all_rows=bool(ticks.all()),
        first_counts=(first & ticks).sum(1).tolist(),
        place=place[steps, rows],
        ordinal=ordinal[steps, rows],
        ended=none,
        span_before=rows,
        ticks_before=rows,
        ordinal_before=rows,
    )
