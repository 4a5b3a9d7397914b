"""The words of segments: periods, where each row is in them, and what happens at a moment.

Shapes: B rows; "levels" counts the levels below the top, which are those that have segments. Everything here is bookkeeping
on integers and booleans; no state of a cell is touched. `hrnn.schedules` turns steps into moments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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


class Starts(NamedTuple):
    """Which of a level's n ticks start a segment: some of them, or, without either, all."""

    mask: Tensor | None = None  # (n,) bool
    where: Tensor | None = None  # (m,) their numbers


ALL = Starts()


class Ticks(NamedTuple):
    """What one level does at a moment: one tick, or, if it is the lowest, as many as the moment has steps."""

    rows: Tensor | None = None  # (n,) which rows tick; None: all
    starts: Starts | None = None  # None: none
    place: Tensor | int = 0  # (n,) of the first tick in its segment, from 0; ticks of earlier windows count
    unborn: Tensor | None = None  # (n,) bool: a sequence starts here, and the level below has nothing to send up


class Ending(NamedTuple):
    """Segments of one level that end, complete, just before a moment: m of them."""

    rows: Tensor | None  # (m,) None: all
    ordinal: Tensor  # (m,) in the row's sequence
    ticks: Tensor | int  # (m,)
    span: Tensor | int  # (m,) in steps


class Moment(ABC):
    """Steps `start` to `stop` of a chunk, of which only the first may be a boundary.

    ticking: the highest level that ticks, at the first step; -1 if none does
    """

    ticking: int
    start: int
    stop: int

    @abstractmethod
    def ticks(self, level: int) -> Ticks:
        """What a level that ticks does."""

    @abstractmethod
    def ending(self, level: int) -> Ending | None:
        """Which segments of a level below the top end before it."""


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
