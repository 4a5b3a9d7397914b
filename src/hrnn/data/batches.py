"""Batches of rows of different lengths: which rows, by number; and their steps in chunks, padded at the last moment.

A batch is a pure function of its number and a seed, so a run's position in the data is one integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import shown, whole
from hrnn.data.parts import Part
from hrnn.data.random import below, permutation, random_words
from hrnn.data.source import Numbers

Wanted = Literal["sequence", "step", "next"]
POOL = 50  # batches among which rows are put together by length: more is less padding, and less chance


@dataclass(frozen=True)
class Piece:
    """Some steps of some rows, as an engine takes them.

    x:       float32 (time, batch, inputs), or int64 (time, batch) tokens; zeros behind a row's end
    lengths: (batch,) how many of these steps each row has, from 0 on
    y:       (time, batch, ...) targets: int64 classes or tokens, or float32; None if none were asked for
    known:   bool, of y's shape for what follows, otherwise (time, batch): where there is a target
    last:    bool (time, batch), where a row has its last step
    reset:   bool (time, batch), where another sequence begins within a row; None: nowhere
    """

    x: NDArray[Any]
    lengths: Numbers
    y: NDArray[Any] | None = None
    known: NDArray[np.bool_] | None = None
    last: NDArray[np.bool_] | None = None
    reset: NDArray[np.bool_] | None = None


class Buckets:
    """Which rows a batch has: every row once in an epoch, those of a batch of about the same length.

    In each epoch the rows are shuffled; of every 50 batches' worth the rows are sorted by length and cut into batches, and then
    the order of all batches is shuffled.
    """

    def __init__(self, lengths: NDArray[Any] | Sequence[int], batch: int, seed: int = 0):
        self.lengths, self.batch, self.seed = np.asarray(lengths, np.int64), whole("batch", batch), seed
        if not len(self.lengths):
            raise ValueError("lengths is empty; give at least one row")
        self._epoch = lru_cache(2)(self._of_epoch)

    @property
    def per_epoch(self) -> int:
        return -(-len(self.lengths) // self.batch)

    def rows(self, index: int) -> Numbers:
        """The rows of batch `index`, counted through all epochs; the longest first."""
        epoch, place = divmod(index, self.per_epoch)
        return self._epoch(epoch)[place]

    def _of_epoch(self, epoch: int) -> list[Numbers]:
        order = permutation(self.seed, "rows", epoch, len(self.lengths))
        pools = [order[first : first + POOL * self.batch] for first in range(0, len(order), POOL * self.batch)]
        # Ties stay as they were shuffled.
        order = np.concatenate([pool[np.argsort(-self.lengths[pool], kind="stable")] for pool in pools])
        batches = [order[first : first + self.batch] for first in range(0, len(order), self.batch)]
        return [batches[place] for place in permutation(self.seed, "batches", epoch, len(batches))]


def in_order(rows: int, batch: int) -> Iterator[Numbers]:
    """Every row once, as for evaluation."""
    return (np.arange(first, min(first + batch, rows)) for first in range(0, rows, whole("batch", batch)))


def crops(lengths: NDArray[Any], steps: int, seed: int, index: int) -> tuple[Numbers, Numbers]:
    """A stretch of at most `steps` steps of each row, anywhere: where it starts and stops. A new one for each `index`."""
    lengths, steps = np.asarray(lengths, np.int64), whole("steps", steps)
    words = random_words(seed, "crops", index, range(len(lengths)), 1)[0]
    room = np.maximum(lengths - steps, 0)
    starts = np.array([below(words[row : row + 1], int(free) + 1)[0] for row, free in enumerate(room)], np.int64)
    return starts, np.minimum(starts + steps, lengths)


def chunks(
    part: Part,
    rows: NDArray[Any] | Sequence[int],
    steps: int,
    *,
    target: Wanted | None = None,
    horizon: int = 1,
    starts: NDArray[Any] | None = None,
    stops: NDArray[Any] | None = None,
) -> Iterator[Piece]:
    """Some rows of a part side by side, so many steps at a time, until the longest ends.

    target:  the row's own target at every one of its steps ("sequence"), that of each step ("step"), or what follows ("next",
             `horizon` far)
    starts, stops: a stretch of each row, as `crops` gives; by default all of it
    """
    rows, steps = np.asarray(rows, np.int64), whole("steps", steps)
    starts = np.zeros_like(rows) if starts is None else np.asarray(starts)
    stops = part.lengths[rows] if stops is None else np.asarray(stops)
    longest = int((stops - starts).max())
    for first in range(0, longest, steps):
        lengths = np.clip(stops - starts - first, 0, min(steps, longest - first))
        found = [
            Stretch(
                column,
                0,
                int(rows[column]),
                int(starts[column]) + first,
                count,
                starts[column] + first + count == stops[column],
            )
            for column, count in enumerate(lengths.tolist())
        ]
        yield filled(part, found, int(lengths.max()), len(rows), target, horizon)


def check_target(part: Part, target: Wanted | None) -> None:
    """Refuse to ask for what a part does not have."""
    if target is None or target == "next":
        return
    known = ", ".join(map(repr, get_args(Wanted)))
    if target not in get_args(Wanted):
        raise ValueError(f"target is {shown(target)}; give one of {known}, or None")
    if (there := part.sequences.layout.target) != target:
        has = "has no targets" if there is None else f"has one for each {there}"
        raise ValueError(f"target is {target!r} and the part {has}; give {there or 'next'!r}, or None")


class Stretch(NamedTuple):
    """Steps of a part's row, and where they go: to a column, from `at` on. ends: is the row's last step among them?"""

    column: int
    at: int
    row: int
    start: int
    steps: int
    ends: bool


def filled(
    part: Part, stretches: Iterable[Stretch], steps: int, columns: int, target: Wanted | None = None, horizon: int = 1
) -> Piece:
    """Stretches side by side and one after the other, each written into its place; zeros elsewhere."""
    check_target(part, target)
    pre = part.preprocessing
    x = np.zeros((steps, columns), np.int64) if pre.tokens else np.zeros((steps, columns, pre.inputs), np.float32)
    lengths, last = np.zeros(columns, np.int64), np.zeros((steps, columns), bool)
    y: NDArray[Any] | None = None
    known: NDArray[np.bool_] | None = None
    for column, at, row, start, count, ends in stretches:
        if not count:
            continue
        stop = at + count
        x[at:stop, column] = part.inputs(row, start, start + count)
        last[stop - 1, column], lengths[column] = ends, stop
        if target is not None:
            values, there = _targets(part, row, start, count, target, horizon)
            if y is None or known is None:
                y = np.zeros((steps, columns, *values.shape[1:]), values.dtype)
                known = np.zeros((steps, columns, *there.shape[1:]), bool)
            y[at:stop, column], known[at:stop, column] = values, there
    return Piece(x, lengths, y, known, last)


def _targets(
    part: Part, row: int, start: int, count: int, target: Wanted, horizon: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if target == "next":
        return part.next(row, start, start + count, horizon)
    if target == "sequence":
        one = np.asarray(part.target(row))
        values: NDArray[Any] = np.full(count, one, np.int64 if one.dtype.kind == "i" else np.float32)
    else:
        values = part.step_targets(row, start, start + count)
    there = values >= 0 if values.dtype.kind == "i" else np.isfinite(values)
    return np.where(there, values, np.zeros((), values.dtype)), there
