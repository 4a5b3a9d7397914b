"""What a network reads: windows, batches of them, and how a run reads its task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """The steps of one TBPTT gradient.

    x:          (T, B) int64 tokens or (T, B, n) floats
    y:          (T, B, ...) targets
    mask:       bool (T, B), where a target stands; None means everywhere
    boundaries: bool (T, B), (T+1, B) or with a last axis for the levels with given boundaries
    lengths:    int64 (B,), how many of the steps each row has; None: all. What stands behind them does not matter
    reset:      bool (T, B), where another sequence begins within a row; None: nowhere
    ends:       bool (T, B), where a sequence has its last step, for a task's judge
    """

    x: Shaped[Tensor, "time batch *features"]
    y: Shaped[Tensor, "time batch *target"]
    mask: Bool[Tensor, "time batch"] | None = None
    boundaries: Bool[Tensor, "..."] | None = None
    lengths: Int[Tensor, " batch"] | None = None
    reset: Bool[Tensor, "time batch"] | None = None
    ends: Bool[Tensor, "time batch"] | None = None

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    def only(self, rows: slice) -> Window:
        """Some of its rows."""
        given = (self.mask, self.boundaries, self.reset, self.ends)
        mask, boundaries, reset, ends = (None if value is None else value[:, rows] for value in given)
        lengths = None if self.lengths is None else self.lengths[rows]
        return Window(self.x[:, rows], self.y[:, rows], mask, boundaries, lengths, reset, ends)

    def pieces(self, steps: int) -> Iterator[Window]:
        """So many of its steps at a time; not for windows with given boundaries. A row that has ended has none left."""
        if self.steps <= steps:
            yield self
            return
        for first in range(0, self.steps, steps):
            at = slice(first, first + steps)
            mask, reset, ends = (None if value is None else value[at] for value in (self.mask, self.reset, self.ends))
            lengths = None if self.lengths is None else (self.lengths - first).clamp(0, len(self.x[at]))
            yield Window(self.x[at], self.y[at], mask, None, lengths, reset, ends)

    @cached_property
    def targets(self) -> int:
        return int(self.there.sum()) if self.there is not None else self.x.shape[0] * self.x.shape[1]

    @cached_property
    def there(self) -> Bool[Tensor, "time batch"] | None:
        """Where a target stands within the rows' lengths; None means everywhere."""
        if self.lengths is None:
            return self.mask
        within = torch.arange(self.steps)[:, None] < self.lengths
        return within if self.mask is None else self.mask & within

    @property
    def places(self) -> int:
        """Steps of all rows, padding left out."""
        return self.x.shape[0] * self.x.shape[1] if self.lengths is None else int(self.lengths.sum())


@dataclass(frozen=True)
class Batch:
    """What one update learns from: windows in order, states carried over them.

    windows: may be made as they are asked for. A later one may have fewer rows than the one before: the last ones have ended
    fresh:   the first window starts from zero states (a new sequence in every row); otherwise from those of the batch before
             (a stream)
    whole:   every row ends with the batch, and no state is kept for the next
    """

    windows: Sequence[Window]
    fresh: bool = True
    whole: bool = False

    @property
    def rows(self) -> int:
        return self.windows[0].x.shape[1]

    @property
    def steps(self) -> int:
        return sum(window.steps for window in self.windows)

    @cached_property
    def targets(self) -> int:
        return sum(window.targets for window in self.windows)

    def only(self, rows: range) -> Batch:
        """Some of its rows; all are the batch itself."""
        if rows == range(self.rows):
            return self
        windows = [window.only(slice(rows.start, rows.stop)) for window in self.windows]
        return Batch([window for window in windows if window.x.shape[1]], self.fresh, self.whole)


@dataclass(frozen=True)
class Reading:
    """How a run reads its task: seed, rows of a whole batch, window, the rows that this process holds, and the steps of a
    segment of the lowest level, where these are fixed."""

    seed: int
    batch: int
    window: int
    rows: range = field(default=range(0))
    segment: int = 1

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", range(self.batch))

    def batches(self, rows: int) -> Iterator[range]:
        """So many rows, at most a batch at a time."""
        return (range(first, min(first + self.batch, rows)) for first in range(0, rows, self.batch))


def cut(
    x: Shaped[Tensor, "time batch *features"],
    y: Shaped[Tensor, "time batch *target"],
    window: int,
    mask: Bool[Tensor, "time batch"] | None = None,
    *,
    align: Literal["start", "end"] = "start",
) -> tuple[Window, ...]:
    """Sequences (T, B, ...) as windows counted from step 0, or back from the last step with align="end"."""
    steps = x.shape[0]
    first = window if align == "start" or steps <= window else (steps - 1) % window + 1
    starts = [0, *range(first, steps, window)]
    stops = [*starts[1:], steps]
    return tuple(Window(x[a:b], y[a:b], None if mask is None else mask[a:b]) for a, b in zip(starts, stops, strict=True))


def with_last_target(x: Shaped[Tensor, "time batch *features"], y: Shaped[Tensor, " batch"], window: int) -> Batch:
    """Sequences (T, B, ...) with one target each, after the last step, in windows that are counted from there."""
    mask = torch.zeros(x.shape[:2], dtype=torch.bool)
    mask[-1] = True
    return Batch(cut(x, y.expand(len(x), -1), window, mask, align="end"))
