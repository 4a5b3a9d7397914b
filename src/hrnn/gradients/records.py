"""The bookkeeping of a record tape: which row, tick and segment each record belongs to."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hrnn.schedules import LevelSteps


class Facts(NamedTuple):
    """A column of integers (records,) for each thing known of a record."""

    row: Tensor
    tick: Tensor  # how many ticks of the row were before it in this window
    first: Tensor  # bool: does it start a segment?
    parent: Tensor  # the record above that ticked at the same step, for first ones; else -1
    place: Tensor  # in the segment, ticks of earlier windows included
    step: Tensor
    version: Tensor  # how often the level had moved in this window
    span: Tensor  # steps of the segment below whose summary it read; 0: it read none


class Records:
    """The records of one level.

    facts: what is known of each
    ticks: (batch,) how many ticks each row has had in this window
    base:  (batch,) the tick of each row's oldest record
    open:  (batch,) the tick at which the row's unfinished segment starts; `ticks` if there is none
    """

    def __init__(self, batch: int, device: torch.device):
        none = torch.zeros(0, dtype=torch.int64, device=device)
        self.facts = Facts(none, none, none.bool(), none, none, none, none, none)
        self.ticks = torch.zeros(batch, dtype=torch.int64, device=device)
        self.base, self.open = torch.zeros_like(self.ticks), torch.zeros_like(self.ticks)

    def append(self, level: LevelSteps, parents: Tensor | None, step: int, version: int, below: LevelSteps | None) -> slice:
        """The records of one round; `parents` are those of its first ticks, in order, `below` what the level below does.
        Returns which they are."""
        start, rows, first = len(self.facts.row), level.rows, level.first
        order = torch.argsort(rows, stable=True)
        counts = torch.bincount(rows, minlength=len(self.ticks))
        within = torch.empty_like(rows)
        within[order] = torch.arange(len(order), device=order.device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        tick, parent = self.ticks[rows] + within, torch.full_like(rows, -1)
        if parents is not None:
            parent[first] = parents
        span = torch.zeros_like(rows)
        if below is not None and below.before is not None:  # where this level ticks, a segment below ends, if there was one
            span = below.before.span.masked_fill(below.ordinal == 0, 0)[below.first]
        new = Facts(rows, tick, first, parent, level.place, level.steps + step, torch.full_like(rows, version), span)
        self.open.scatter_reduce_(0, rows[first], tick[first], "amax")
        self.facts = Facts(*(torch.cat(columns) for columns in zip(self.facts, new, strict=True)))
        self.ticks = self.ticks + counts
        return slice(start, start + len(rows))

    def table(self) -> Tensor:
        """(ticks, rows): the record of each row's ticks from `base` on, -1 where there is none."""
        row = self.facts.row
        relative = self.facts.tick - self.base[row]
        height = int(relative.max()) + 1 if len(relative) else 0
        table = torch.full((height, len(self.base)), -1, device=row.device)
        table[relative, row] = torch.arange(len(row), device=row.device)
        return table

    def at(self, rows: Tensor, ticks: Tensor) -> Tensor:
        """The records of `rows` (n,) at these ticks (n,) or (m, n); -1 where they are not in this window."""
        table = self.table()
        relative = ticks - self.base[rows]
        if not len(table):
            return torch.full_like(relative, -1)
        records = table[relative.clamp(0, table.shape[0] - 1), rows.expand_as(relative)]
        return torch.where(relative >= 0, records, -1)

    def until(self, ticks: Tensor) -> Tensor:
        """(ticks, rows): as `table`, but only those before each row's tick `ticks` (rows,)."""
        table = self.table()
        ready = torch.arange(table.shape[0], device=table.device)[:, None] + self.base < ticks
        height = int((ticks - self.base).max()) if len(table) else 0
        return table.masked_fill(~ready, -1)[:height]

    def forget_before(self, ticks: Tensor) -> tuple[Tensor, Tensor]:
        """Forget all records before each row's tick `ticks` (rows,): which stay (n,), and the new number of each old one, -1
        for those forgotten."""
        stay = (self.facts.tick >= ticks[self.facts.row]).nonzero()[:, 0]
        renumbered = torch.full_like(self.facts.row, -1)
        renumbered[stay] = torch.arange(len(stay), device=stay.device)
        self.facts = Facts(*(column[stay] for column in self.facts))
        self.base = ticks.clone()
        return stay, renumbered

    def renumber_parents(self, renumbered: Tensor) -> None:
        """The records above have new numbers."""
        old = self.facts.parent
        if len(renumbered):
            self.facts = self.facts._replace(parent=torch.where(old >= 0, renumbered[old.clamp(min=0)], -1))

    def older_than(self, version: int) -> Tensor | None:
        """(rows,): how many of each row's records, its oldest, ran before the level last moved; None where none did."""
        old = self.facts.version < version
        return torch.bincount(self.facts.row[old], minlength=len(self.base)) if bool(old.any()) else None
