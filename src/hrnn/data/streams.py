"""Windows over long series: a part's spans one after the other on a line, cut into equal stretches, one for each batch row.
States are carried from window to window."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import whole
from hrnn.data.batches import Piece, Stretch, Wanted, filled
from hrnn.data.parts import Part
from hrnn.data.source import Numbers
from hrnn.errors import UserError


class Streams:
    """Row r reads places r * steps and on of the line.

    steps: of each row; in training the few last places that fill no step of all rows are left out
    """

    def __init__(self, part: Part, rows: int, *, every: bool = False, order: NDArray[Any] | None = None):
        """
        every: read every place once, as for evaluation: the last row may then end earlier
        order: of the part's spans on the line, e.g. another permutation in each epoch; by default as they are
        """
        self.part, self.rows = part, whole("rows", rows)
        self.order: Numbers = np.arange(len(part)) if order is None else np.asarray(order, np.int64)
        self.ends: Numbers = np.cumsum(part.lengths[self.order])
        total = int(self.ends[-1])
        if total < rows:
            raise UserError(f"there are {total:,} steps for {rows:,} rows; give fewer rows")
        self.total, self.steps = total, -(-total // rows) if every else total // rows

    def windows(self, window: int) -> int:
        """How many windows of so many steps there are; the last one may be shorter."""
        return -(-self.steps // window)

    def window(self, first: int, last: int, target: Wanted | None = None, horizon: int = 1, rows: range | None = None) -> Piece:
        """Steps first..last-1 of some rows, by default all. `reset` is set where another span of the part begins within them,
        but for the row's own first step, where the caller starts from zero states anyway."""
        columns, last = list(rows or range(self.rows)), min(last, self.steps)
        stretches = [one for column, row in enumerate(columns) for one in self._stretches(column, row, first, last)]
        piece = filled(self.part, stretches, max(0, last - first), len(columns), target, horizon)
        reset = np.zeros(piece.x.shape[:2], bool)
        for one in stretches:
            reset[one.at, one.column] = one.start == 0 and first + one.at > 0
        return dataclasses.replace(piece, reset=reset)

    def _stretches(self, column: int, row: int, first: int, last: int) -> Iterator[Stretch]:
        """Of the spans that a row reads."""
        place, stop = row * self.steps + first, min(row * self.steps + last, self.total)
        start_of_window = place
        while place < stop:
            number = int(np.searchsorted(self.ends, place, side="right"))
            span, end = int(self.order[number]), int(self.ends[number])
            begin, count = end - int(self.part.lengths[span]), min(stop, end) - place
            yield Stretch(column, place - start_of_window, span, place - begin, count, place + count == end)
            place += count
