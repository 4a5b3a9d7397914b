"""Batches of a part: sequences of about the same length side by side, or long series in windows with carried states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from hrnn.data import Buckets, Part, Piece, Streams, crops
from hrnn.data.batches import Stretch, Wanted, filled
from hrnn.data.random import permutation
from hrnn.errors import UserError
from hrnn.tasks.windows import Batch, Reading, Window

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """What a window's targets are.

    target:  as `hrnn.data.chunks` has it; horizon: for "next"
    last:    only at a sequence's last step
    changes: for numbers that follow: of each channel, what its changes are divided by. The target is then the change since the
             input's last step
    """

    target: Wanted | None
    horizon: int = 1
    last: bool = False
    changes: tuple[float, ...] = ()


def as_window(piece: Piece, part: Part, asked: Asked, skips: Rows | None = None) -> Window:
    """A piece as the trainer takes it. skips: of each row, so many first steps have no target."""
    steps, rows = piece.x.shape[:2]
    x = torch.from_numpy(piece.x)
    lengths = None if (piece.lengths == steps).all() else torch.from_numpy(piece.lengths)
    known, y = piece.known, piece.y
    if y is None or known is None:  # all rows are over, which happens in one of several processes
        y, known = np.zeros((steps, rows), np.int64), np.zeros((steps, rows), bool)
    elif asked.target == "next" and y.dtype.kind == "f":
        since = last_values(piece.x, part)
        scale = np.tile(np.array(asked.changes, np.float32), part.preprocessing.patch)
        y = np.where(known, (y - np.tile(since, part.preprocessing.patch)[:, :, None]) / scale, np.float32("nan"))
        known = np.asarray(known.any((2, 3)))
    elif asked.target == "next":
        y, known = y[:, :, 0], known[:, :, 0]
    assert piece.last is not None
    if asked.last:
        known = known & piece.last
    if skips is not None and skips.any():
        known = known & (np.arange(steps)[:, None] >= skips)
    within = np.arange(steps)[:, None] < piece.lengths
    mask = None if bool((known == within).all()) else torch.from_numpy(known)
    reset = None if piece.reset is None or not piece.reset.any() else torch.from_numpy(piece.reset)
    return Window(x, torch.from_numpy(np.ascontiguousarray(y)), mask, None, lengths, reset, torch.from_numpy(piece.last))


def last_values(x: NDArray[Any], part: Part) -> NDArray[np.float32]:
    """(..., channels) the numeric channels of the last step in each of inputs (..., inputs)."""
    pre = part.preprocessing
    first = (pre.patch - 1) * pre.width
    values: NDArray[np.float32] = x[..., first : first + len(pre.numeric)]
    return values


class Windows(Sequence[Window]):
    """Some rows of a part, the longest first, in windows that are made as they are asked for, without rows that have ended.

    of_batch: (rows,) inputs of all rows of the batch, in whatever process; windows are the same everywhere. The first rows to
              end have a window end with the last whole segment that all rows have: up to there nothing lets rows part
    skips:    of each row, so many first inputs have no target
    stretch:  of each row, where it starts and stops; by default all of it
    """

    def __init__(
        self,
        part: Part,
        rows: Rows,
        of_batch: Rows,
        reading: Reading,
        asked: Asked,
        skips: Rows | None = None,
        stretch: tuple[Rows, Rows] | None = None,
    ):
        self.part, self.rows, self.asked, self.skips = part, rows, asked, skips
        self.starts, stops = (np.zeros_like(rows), part.lengths[rows]) if stretch is None else stretch
        self.lengths = stops - self.starts
        self.edges = edges(int(of_batch.min()), int(of_batch.max()), reading.window, reading.segment)
        self._last: tuple[int, Window] | None = None  # lru_cache would keep the part, and its temporary files, in a circle

    def __len__(self) -> int:
        return len(self.edges) - 1

    @overload
    def __getitem__(self, place: int) -> Window: ...
    @overload
    def __getitem__(self, place: slice) -> list[Window]: ...
    def __getitem__(self, place: int | slice) -> Window | list[Window]:
        if isinstance(place, slice):
            return [self._made(one) for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return self._made(place % len(self))

    def _made(self, place: int) -> Window:
        if self._last is None or self._last[0] != place:
            self._last = place, self._make(place)
        return self._last[1]

    def _make(self, place: int) -> Window:
        start, stop = self.edges[place : place + 2]
        left = max(1, int((self.lengths > start).sum()))
        counts = np.clip(self.lengths[:left] - start, 0, stop - start)
        found = [
            Stretch(
                column,
                0,
                int(self.rows[column]),
                int(self.starts[column]) + start,
                count,
                start + count == self.lengths[column],
            )
            for column, count in enumerate(counts.tolist())
        ]
        piece = filled(self.part, found, stop - start, left, self.asked.target, self.asked.horizon)
        return as_window(piece, self.part, self.asked, None if self.skips is None else self.skips[:left] - start)


def edges(shortest: int, longest: int, window: int, segment: int) -> list[int]:
    """Where windows begin and end."""
    found, together = [0], shortest // segment * segment
    while found[-1] < longest:
        stop = min(found[-1] + window, longest)
        found.append(together if found[-1] < together < stop and shortest < longest else stop)
    return found


class Whole:
    """Every batch has sequences from their beginning to their end; or, with `crop`, a random stretch of each."""

    def __init__(self, part: Part, reading: Reading, asked: Asked, crop: int | None = None):
        if len(part) < reading.batch:
            raise UserError(
                f"--batch is {reading.batch} and the training part has {len(part)} sequence(s); give at most as many"
            )
        if (longest := int(part.lengths.max())) < reading.segment:
            raise UserError(
                f"the longest training sequence has {longest} input(s), fewer than a period of {reading.segment}; give smaller "
                "--periods"
            )
        self.part, self.reading, self.asked, self.crop = part, reading, asked, crop
        self.lengths = part.lengths if crop is None else np.minimum(part.lengths, crop)
        self.plan = Buckets(self.lengths, reading.batch, reading.seed)

    @property
    def per_epoch(self) -> int:
        return self.plan.per_epoch

    def batch(self, index: int) -> Batch:
        """The last batch of an epoch is filled up with rows of others."""
        rows = self.plan.rows(index)
        if lacking := self.reading.batch - len(rows):
            others = permutation(self.reading.seed, "others", index, len(self.part))
            rows = np.concatenate([rows, others[~np.isin(others, rows)][:lacking]])
            rows = rows[np.argsort(-self.lengths[rows], kind="stable")]
        own = slice(self.reading.rows.start, self.reading.rows.stop)
        stretch = None
        if self.crop is not None:
            starts, stops = crops(self.part.lengths[rows], self.crop, self.reading.seed, index)
            stretch = starts[own], stops[own]
        windows = Windows(self.part, rows[own], self.lengths[rows], self.reading, self.asked, stretch=stretch)
        return Batch(windows, whole=True)


class Carried:
    """Every batch is a window of long series, one stretch of them in each row; states are carried."""

    def __init__(self, part: Part, reading: Reading, asked: Asked):
        self.part, self.reading, self.asked = part, reading, asked
        total = int(part.lengths.sum())
        if total < reading.batch * reading.window:
            raise UserError(
                f"the training part has {total:,} steps, fewer than one window of {reading.window} for each of {reading.batch} "
                f"rows; give a smaller --batch or --window"
            )
        self._streams = lru_cache(2)(self._of_epoch)

    def _of_epoch(self, epoch: int) -> Streams:
        order = permutation(self.reading.seed, "series", epoch, len(self.part))
        return Streams(self.part, self.reading.batch, order=order)

    @property
    def per_epoch(self) -> int:
        return self._streams(0).windows(self.reading.window)

    def batch(self, index: int) -> Batch:
        epoch, number = divmod(index, self.per_epoch)
        first = number * self.reading.window
        last = first + self.reading.window
        asked = self.asked
        piece = self._streams(epoch).window(first, last, asked.target, asked.horizon, self.reading.rows)
        return Batch((as_window(piece, self.part, asked),), fresh=number == 0)


def in_batches(part: Part, reading: Reading, asked: Asked, skips: Rows | None) -> Iterator[Batch]:
    """Every sequence once, those of about the same length together."""
    order = np.argsort(-part.lengths, kind="stable")
    for some in reading.batches(len(order)):
        rows = order[some.start : some.stop]
        lead = None if skips is None else skips[rows]
        yield Batch(Windows(part, rows, part.lengths[rows], reading, asked, lead), whole=True)


def in_streams(part: Part, reading: Reading, asked: Asked) -> Iterator[Batch]:
    """Every step once, series in stretches side by side."""
    rows = max(1, min(reading.batch, int(part.lengths.sum()) // reading.window))
    streams = Streams(part, rows, every=True)
    for first in range(0, streams.steps, reading.window):
        piece = streams.window(first, first + reading.window, asked.target, asked.horizon)
        if piece.lengths.any():
            yield Batch((as_window(piece, part, asked),), fresh=first == 0)
