"""Raw inputs that levels read, taken from the steps that run now and from what the state remembers (`hrnn.places`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hrnn.places import ABSENT, Array, Places
from hrnn.schedule import Batch
from hrnn.wiring import Wiring


@dataclass
class Where:
    """Places of inputs. now (n, count): step * rows + row, or 0; before (m,), flat numbers of those that the state remembers,
    with the slots and rows where they are; absent (k,): flat numbers of those that are nobody's. If rows are alike, n is of one
    of them, `now` a step, and `slot` is enough."""

    now: Tensor
    before: Tensor | None
    slot: Tensor | None
    row: Tensor | None
    absent: Tensor | None
    rows: int  # if they are alike, how many there are; else 0

    @property
    def shape(self) -> tuple[int, int]:
        """n, of all rows, and count."""
        n, count = self.now.shape
        return n * max(1, self.rows), count

    def __getitem__(self, some: slice) -> Where:
        """Some of the n, of one row if they are alike."""
        count = self.now.shape[1]
        now = self.now[some]
        start, stop = some.start * count, some.start * count + now.numel()

        def within(flat: Tensor | None) -> Tensor | None:
            return None if flat is None else (flat >= start) & (flat < stop)

        def cut(values: Tensor | None, keep: Tensor | None, shift: int = 0) -> Tensor | None:
            return None if values is None or keep is None or not bool(keep.any()) else values[keep] - shift

        old, none = within(self.before), within(self.absent)
        return Where(now, cut(self.before, old, start), cut(self.slot, old), cut(self.row, old), cut(self.absent, none, start),
                     self.rows)  # fmt: skip


def take(x: Tensor, remembered: Tensor | None, where: Where) -> Tensor:
    """(n, count, ...) of inputs x (steps * rows, ...) and what is remembered (slots, rows, ...); zeros, or tokens -1, where
    there is none."""
    n, count = where.now.shape
    rows = where.rows
    values = (x.unflatten(0, (-1, rows)) if rows else x).index_select(0, where.now.flatten())
    if where.before is not None:
        assert remembered is not None
        assert where.slot is not None
        old = remembered[where.slot] if where.row is None else remembered[where.slot, where.row]
        values = values.index_copy(0, where.before, old)
    if where.absent is not None:
        values = values.index_fill(0, where.absent, 0 if x.is_floating_point() else ABSENT)
    found: Tensor = values.unflatten(0, (n, count))
    return found.transpose(1, 2).flatten(0, 1) if rows else found


def remembered(x: Tensor, before: Tensor | None, where: Where) -> Tensor:
    """(places, rows, ...) of what a state remembers behind some steps."""
    return take(x, before, where).transpose(0, 1).contiguous()


def steps_of(where: Where, origin: int | Tensor, numbers: Tensor | None, total_rows: int) -> Tensor:
    """(n, count) of each input step * rows + row of the window, -1 where it is of no step of it. origin: the window's number
    of the first step, or of each (steps, rows). numbers (slots, rows): the steps of what is remembered, -1: of an earlier
    window."""
    rows = where.rows
    device = where.now.device
    found = where.now.flatten()
    found = found[:, None] * rows + torch.arange(rows, device=device) if rows else found.clone()
    if isinstance(origin, int):
        found += origin * total_rows
    else:
        found = origin.flatten()[found] * total_rows + found % total_rows
    if where.before is not None:
        assert where.slot is not None
        if numbers is None:
            found[where.before] = -1
        else:
            row = torch.arange(rows, device=device) if where.row is None else where.row
            old = numbers[where.slot] if where.row is None else numbers[where.slot, where.row]
            found[where.before] = torch.where(old >= 0, old * total_rows + row, -1)
    if where.absent is not None:
        found[where.absent] = -1
    places: Tensor = found.unflatten(0, tuple(where.now.shape))
    return places.transpose(1, 2).flatten(0, 1) if rows else places


def of_ticks(places: Places, level: int, b: Batch, everyone: Tensor) -> Where:
    """What a level reads at the ticks of a batch."""
    if (known := b.known.get("read")) is None:
        ticks = b.table.ticks[b.ticks]
        own = places.levels[level]
        row = None if b.alike else own.at[ticks] // max(1, places.steps)
        known = b.known["read"] = _where(places.read_by(level, ticks), row, everyone)
    return known


def before_segments(places: Places, count: int, b: Batch, everyone: Tensor) -> Where:
    """The steps before the segments of a batch of the lowest level: (count, columns), flattened, of one place each; the oldest
    first."""
    if (known := b.known.get("before")) is None:
        own, segments = places.levels[0], b.table.segments[b.segments]
        row = own.row[segments]
        found = places.before(count, own.firsts[segments], row)[:, ::-1].T.reshape(-1, 1)
        known = b.known["before"] = _where(found, None if b.alike else np.tile(row, count), everyone)
    return known


def behind(places: Places, wiring: Wiring, top: Batch, everyone: Tensor) -> tuple[Where, Where | None]:
    """What the state behind the steps of the top's batch remembers: of the highest level that reads, and of the lowest for its
    burn-in."""
    if (known := top.known.get("behind")) is None:
        row = None if top.alike else np.arange(len(places.levels[0].first))
        latest = _where(places.latest(wiring.highest - 1), row, everyone)
        recent = _where(places.recent(wiring.burn_in), row, everyone) if wiring.burn_in else None
        known = top.known["behind"] = latest, recent
    return known


def _where(found: Array, row: Array | None, everyone: Tensor) -> Where:
    """found (n, count), see `hrnn.places`; row (n,): None: rows are alike."""
    device = everyone.device
    flat = found.ravel()
    now = torch.from_numpy(np.maximum(found, 0)).to(device)
    old, none = (flat <= -2).nonzero()[0], (flat == ABSENT).nonzero()[0]

    def tensor(values: Array) -> Tensor | None:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device) if len(values) else None

    of_row = None if row is None else tensor(row.repeat(found.shape[1])[old])
    return Where(now, tensor(old), tensor(-2 - flat[old]), of_row, tensor(none), len(everyone) if row is None else 0)
