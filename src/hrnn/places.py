"""Where the raw inputs stand that a level reads: among the steps that run now, or among those that a state remembers.

A place is told by a number. From 0 up it is step * rows + row; ABSENT is nobody's; from -2 down it is slot -2 - number of what
the state remembers. The latest comes first everywhere.

A segment of the lowest level has as many places as its period or reach says. One of level i has as many parts, segments of the
level below, with places each. What a state remembers are the places of the segment that was the latest when the steps began:
that segment, and of each level below the latest in it, is *carried* on, and its older places move back as new ones come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ABSENT = -1


@dataclass
class Rows:
    """A level's M ticks and S segments in these steps, row by row and in the order of time; each row's first segment is what
    was carried on, if anything."""

    at: Array  # (M,) row * steps + step
    row: Array  # (S,)
    first: Array  # (B,) each row's first segment
    last: Array  # (B,) and its last one
    counts: Array  # (S,) ticks in these steps
    reset: Array | None  # (M,) a sequence starts

    @cached_property
    def firsts(self) -> Array:
        """(S,) the number of each segment's first tick."""
        return self.counts.cumsum() - self.counts

    @cached_property
    def begun(self) -> Array:
        """(m,) the segments that begin in these steps, each by a tick of the level above, in its order."""
        fresh = np.ones(len(self.row), bool)
        fresh[self.first] = False
        return fresh.nonzero()[0]


class Places:
    """levels: from the lowest up. parts: of a segment of each of them, as many as `levels`. steps, rows: of what runs now."""

    def __init__(self, levels: Sequence[Rows], parts: Sequence[int], steps: int, rows: int):
        self.levels, self.parts, self.steps, self.rows = levels, parts, steps, rows

    def read_by(self, level: int, ticks: Array) -> Array:
        """(n, places) of the segment of the level below that has ended before each of these ticks of a level above the lowest,
        by their numbers among the row's ticks."""
        own, below = self.levels[level], self.levels[level - 1]
        ended = below.begun[ticks] - 1
        if own.reset is not None:  # what was before is another sequence's
            ended = np.where(own.reset[ticks], ABSENT, ended)
        return self.of_segments(level - 1, ended)

    def latest(self, level: int) -> Array:
        """(B, places) of each row's latest segment, behind the steps."""
        return self.of_segments(level, self.levels[level].last)

    def of_segments(self, level: int, segments: Array) -> Array:
        """(n, places) of segments of a level, by their numbers; ABSENT: of none."""
        own, count = self.levels[level], self.parts[level]
        there, known = segments >= 0, segments.clip(0)
        ticks, carried = own.counts[known][:, None], (known == own.first[own.row[known]])[:, None]
        j = np.arange(count)
        tick = own.firsts[known][:, None] + ticks - 1 - j
        here, tick = there[:, None] & (j < ticks), tick.clip(0)
        before = there[:, None] & carried & (j >= ticks)
        if level == 0:
            at = self._number(own.at[tick]) if len(own.at) else tick
            return np.where(here, at, np.where(before, -2 - (j - ticks), ABSENT))
        below = self.levels[level - 1]
        child = np.where(here, below.begun[tick] if len(below.begun) else tick, ABSENT)
        child = np.where(before & (j == ticks), below.first[own.row[known]][:, None], child)
        found = self.of_segments(level - 1, child.ravel()).reshape(len(segments), count, -1)
        each = found.shape[-1]
        whole = before & (j > ticks)  # parts that were over when the steps began
        remembered = -2 - ((j - ticks)[..., None] * each + np.arange(each))
        return np.where(whole[..., None], remembered, found).reshape(len(segments), -1)

    def before(self, count: int, ticks: Array, rows: Array) -> Array:
        """(n, count) of the steps before these ticks of the lowest level, in the same sequence."""
        return self._before(count, ticks, rows, ticks)

    def recent(self, count: int) -> Array:
        """(B, count) of each row's latest steps, behind these."""
        rows = np.arange(len(self.levels[0].first))
        ends = self._ticks.cumsum()
        return self._before(count, ends, rows, np.where(self._ticks > 0, ends - 1, ABSENT))

    @cached_property
    def _ticks(self) -> Array:
        """(B,) how many steps each row has."""
        return np.bincount(self.levels[0].at // max(1, self.steps), minlength=len(self.levels[0].first))

    def _before(self, count: int, ticks: Array, rows: Array, known: Array) -> Array:
        """known: the tick whose resets concern each of `ticks`, or ABSENT."""
        own = self.levels[0]
        start = (self._ticks.cumsum() - self._ticks)[rows][:, None]
        begin, fresh = start, np.zeros_like(start, bool)
        if own.reset is not None:
            marks = np.maximum.accumulate(np.where(own.reset, np.arange(len(own.reset)), ABSENT))
            last = np.where(known >= 0, marks[known.clip(0)], ABSENT)[:, None]
            fresh = last >= start
            begin = np.where(fresh, last, start)
        tick = ticks[:, None] - 1 - np.arange(count)
        here = tick >= begin
        at = self._number(own.at[tick.clip(0)]) if len(own.at) else tick
        return np.where(here, at, np.where(fresh, ABSENT, -2 - (start - 1 - tick)))

    def _number(self, at: Array) -> Array:
        found: Array = at % self.steps * self.rows + at // self.steps
        return found
