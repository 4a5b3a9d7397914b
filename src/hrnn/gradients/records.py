"""The bookkeeping of a log: which row, tick and segment each record belongs to."""

from __future__ import annotations

import torch
from torch import Tensor

from hrnn.segments import LevelSteps

_COLUMNS = ("row", "tick", "first", "parent", "place", "step", "version")


class Records:
    """The bookkeeping of one level's log: a column of integers for each record.

    row; tick: how many ticks of the row were before it in this window; first: does it start a segment; parent: the record
    above that ticked at the same step, for first ones; place: in the segment, ticks of earlier windows included; step;
    version: how often the level had moved in this window.
    """

    def __init__(self, batch: int, device: torch.device):
        self.columns = {name: torch.zeros(0, dtype=torch.int64, device=device) for name in _COLUMNS}
        self.ticks = torch.zeros(batch, dtype=torch.int64, device=device)  # so far in the window
        self.base = torch.zeros_like(self.ticks)  # tick of the oldest record kept
        self.open = torch.zeros_like(self.ticks)  # tick at which the unfinished segment starts; `ticks` if there is none

    def __getattr__(self, name: str) -> Tensor:
        return self.columns[name]

    def append(self, level: LevelSteps, parents: Tensor | None, step: int, version: int) -> slice:
        """The records of one round; `parents` are those of its first ticks, in order. Returns which they are."""
        start = self.row.shape[0]
        order = torch.argsort(level.rows, stable=True)
        counts = torch.bincount(level.rows, minlength=len(self.ticks))
        within = torch.empty_like(level.rows)
        within[order] = torch.arange(len(order), device=order.device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        new = {
            "row": level.rows,
            "tick": self.ticks[level.rows] + within,
            "first": level.first.long(),
            "parent": torch.full_like(level.rows, -1),
            "place": level.place,
            "step": level.steps + step,
            "version": torch.full_like(level.rows, version),
        }
        if parents is not None:
            new["parent"][level.first] = parents
        self.open.scatter_reduce_(0, level.rows[level.first], new["tick"][level.first], "amax")
        self.columns = {name: torch.cat([self.columns[name], new[name]]) for name in _COLUMNS}
        self.ticks = self.ticks + counts
        return slice(start, start + len(level.rows))

    def table(self) -> Tensor:
        """(ticks, rows): the record of each row's ticks from `base` on, -1 where there is none."""
        relative = self.tick - self.base[self.row]
        height = int(relative.max()) + 1 if len(relative) else 0
        table = torch.full((height, len(self.base)), -1, device=self.row.device)
        table[relative, self.row] = torch.arange(len(self.row), device=self.row.device)
        return table

    def keep(self, records: Tensor) -> Tensor:
        """Forget all but these; returns the new number of each old one, -1 for those forgotten."""
        renumbered = torch.full_like(self.row, -1)
        renumbered[records] = torch.arange(len(records), device=records.device)
        self.columns = {name: column[records] for name, column in self.columns.items()}
        return renumbered
