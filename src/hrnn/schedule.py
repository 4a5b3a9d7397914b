"""The schedule: which segment batches a window consists of. Made in numpy, for all steps before any of them runs.

A *batch* of a level is one segment of some rows: the r-th within the segment above. Its rows are sorted, the longest first, so
that tick j runs for a prefix of them, `sizes[j]` rows. After each tick of a level above the lowest comes one batch of the level
below, for the rows that have it; before the first tick comes what was unfinished there when the steps began. So batches are a
tree: the top's only batch is the root, those of the lowest level are the leaves, and going through it in depth is going through
the window in time.

Where a level reads nothing hidden of the levels below (`Wiring.leads`), all ticks of a batch run first, and so many consecutive
segments that they begin (`Wiring.segments`) share a batch of the level below. Its columns are then not rows but segments.

Where all rows do the same (fixed periods, no lengths), one row stands for all of them, and windows that are alike share a plan.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hrnn.places import Places, Rows
from hrnn.segments import Clock, Given, known_in_advance, reach_of
from hrnn.wiring import Wiring

Array = NDArray[Any]
_CLOCK = ("position", "span", "ordinal", "ticked", "skipped")


@dataclass
class Table:
    """What the batches of a level are cut out of: its S segments and its M ticks, one batch behind the other. Within a batch
    the segments are sorted, and tick 0 of all of them comes before tick 1. Where rows are alike, only one of them is in it."""

    row: Tensor  # (S,)
    counts: Tensor  # (S,) ticks in these steps
    before: Tensor  # (S,) ticks in earlier windows, of segments that go on
    last: Array  # (S,) is it its row's last one?
    facts: dict[str, Tensor]  # (S,) complete, open; ordinal; ticks, span in steps; read: the span of the segment before
    at: Tensor  # (M,) step * rows + row
    unborn: Tensor | None  # (M,) the level below has nothing to send up
    reset: Tensor | None  # (M,) of the top: a sequence starts
    alike: bool  # do all rows do the same?
    rows: int  # of the whole batch
    segments: Array  # (S,) their numbers in `Rows`
    ticks: Array  # (M,)


@dataclass(slots=True)
class Batch:
    """Some segments, n columns: one of each of some rows, or several. sizes: for how many of them each tick runs."""

    table: Table
    segments: slice
    ticks: slice
    n: int
    sizes: list[int]
    fresh: bool  # its segments start here; or they go on from the state that the window began with
    ends: bool  # are some complete?
    open: bool  # are some unfinished behind these steps?
    everyone: bool  # are its columns all rows, in their order?
    column: Tensor | None  # (n,) in which columns of the batch above its segments lie; None: in the same
    place: Tensor | None  # (n,) which ticks of the batch above began them, where these all run first
    below: dict[int, Batch] = field(default_factory=dict)  # from 1: see `_batches`; 0: what was unfinished before
    length: int = 0  # ticks, in that process that has the most of them
    children: int = 0  # numbers of batches below it, in that process that has the most of them
    steps: int = 0  # ticks of all rows, in all processes
    known: dict[str, Any] = field(default_factory=dict)  # what has been found of it already

    @property
    def alike(self) -> bool:
        return self.table.alike

    @property
    def single(self) -> bool:
        """Has each row one segment at most?"""
        return not self.alike or self.segments.stop - self.segments.start == 1

    @property
    def rows(self) -> Tensor | None:
        """(n,) None: all, in their order."""
        return None if self.everyone else self._each(self.table.row, "row")

    @property
    def at(self) -> Any:
        """Of the lowest level: step * rows + row of each tick, or, if rows are alike, its step; a slice where these are one
        behind the other."""
        if not self.alike:
            return self.table.at[self.ticks]
        if "at" not in self.known:
            steps = self.table.at[self.ticks] // self.table.rows
            start = int(steps[0]) if self.sizes else 0
            self.known["at"] = slice(start, start + len(self.sizes)) if self.single else steps
        return self.known["at"]

    def taken(self, x: Tensor) -> Tensor:
        """(ticks, ...) of what is (steps * rows, ...)."""
        at, rows = self.at, self.table.rows
        if not self.alike:
            return x.index_select(0, at)
        if isinstance(at, slice):
            return x[at.start * rows : at.stop * rows]
        found: Tensor = x.unflatten(0, (-1, rows)).index_select(0, at).flatten(0, 1)
        return found

    def numbers(self) -> Tensor:
        """(ticks,) step * rows + row of each."""
        if not self.alike:
            return self.table.at[self.ticks]
        rows = self.table.rows
        steps = self.table.at[self.ticks] // rows
        return (steps[:, None] * rows + torch.arange(rows, device=steps.device)).flatten()

    @property
    def columns(self) -> int:
        """Where rows are alike, and its segments have as many ticks each and are one behind the other: how many of them a row
        has; else 0."""
        if not self.alike or not self.sizes:
            return 0
        if "columns" not in self.known:
            count, length = self.segments.stop - self.segments.start, len(self.sizes)
            found = count if self.sizes[-1] == self.n else 0
            if found > 1:
                steps = self.table.at[self.ticks] // self.table.rows
                there = torch.arange(self.start, self.start + count * length, device=steps.device)
                found = found if torch.equal(steps.view(length, count).t().flatten(), there) else 0
            self.known["columns"] = found
        return self.known["columns"]  # type: ignore[no-any-return]

    def in_order(self) -> Tensor | None:
        """(ticks,) where rows are alike: its ticks in the order of steps and rows; None: they are."""
        if isinstance(self.at, slice):
            return None
        if "order" not in self.known:
            self.known["order"] = self.numbers().argsort()
        return self.known["order"]  # type: ignore[no-any-return]

    @property
    def start(self) -> int:
        """Where rows are alike: the first step that it has."""
        return self.at.start if isinstance(self.at, slice) else self._ends()[0]

    @property
    def stop(self) -> int:
        """The step behind the last one that any row has; it has ticks."""
        return self._ends()[1]

    def _ends(self) -> tuple[int, int]:
        if "ends" not in self.known:
            low, high = (int(value) // max(1, self.table.rows) for value in torch.aminmax(self.table.at[self.ticks]))
            self.known["ends"] = low, high + 1
        return self.known["ends"]  # type: ignore[no-any-return]

    def _each(self, values: Tensor, name: str) -> Tensor:
        """Of each of its columns, what `values` (S,) has of each segment; rows: their numbers."""
        found = values[self.segments]
        if not self.alike:
            return found
        if self.single:
            return found.expand(self.n)
        rows = self.table.rows
        if name == "row":
            return torch.arange(rows, device=found.device).repeat(len(found))
        return found.repeat_interleave(rows)

    @property
    def counts(self) -> Tensor:
        """(n,) ticks in these steps."""
        return self._each(self.table.counts, "counts")

    @property
    def before(self) -> Tensor | None:
        """(n,) ticks in earlier windows; None: none."""
        return None if self.fresh else self._each(self.table.before, "before")

    def fact(self, name: str) -> Tensor:
        """(n,), see `Table.facts`."""
        return self._each(self.table.facts[name], name)

    def kept(self) -> Tensor | slice | None:
        """The columns that are the last segment of their row; None: all of them."""
        if "kept" not in self.known:
            last, rows = self.table.last[self.segments], self.table.rows
            places = last.nonzero()[0]
            if self.alike:
                first, count = (int(places[0]), 1) if len(places) else (0, 0)
                found: Any = slice(first * rows, (first + count) * rows)
            else:
                found = torch.from_numpy(places).to(self.table.row.device)
            self.known["kept"] = None if last.all() else found
        return self.known["kept"]  # type: ignore[no-any-return]

    def which(self, name: str) -> Any:
        """The places of its rows that are `complete` or `open`."""
        flags = self.table.facts[name][self.segments]
        return slice(None) if bool(flags.all()) else flags.nonzero()[:, 0]

    def flags(self, which: Tensor | None) -> Tensor | None:
        """Of each of its ticks, `table.unborn` or `table.reset`; None where none is true."""
        if which is None or not bool(which[self.ticks].any()):
            return None
        return which[self.ticks].repeat_interleave(self.table.rows) if self.alike else which[self.ticks]

    def begun(self) -> list[tuple[int, Batch]]:
        """The batches below it but for what was unfinished before, in the order of time."""
        return [(number, self.below[number]) for number in sorted(self.below) if number]

    def order_below(self) -> tuple[Tensor | None, list[int]]:
        """Where all of its ticks run first: the ticks that begin the columns of the batches below, one batch behind the other,
        None: one tick behind the other; and how many columns each batch has."""
        if "below" not in self.known:
            some = [batch for _, batch in self.begun() if batch.n]
            places = [batch.place for batch in some if batch.place is not None]
            order = torch.cat(places) if places else None
            plain = order is None or bool((order == torch.arange(len(order), device=order.device)).all())
            self.known["below"] = None if plain else order, [batch.n for batch in some]
        return self.known["below"]  # type: ignore[no-any-return]


@dataclass
class Plan:
    """top: the top's batch. clock: behind the steps. steps: of all rows, in all processes. count: of each level, batches that
    tick. shift (rows, levels): what has to be added to ordinals, where rows are alike. apart: do some rows, of any process,
    tick at other steps than others? key: processes whose rows do the same have the same number. places: of the raw inputs that
    levels read; None: none does"""

    top: Batch
    clock: Clock
    steps: int
    count: list[int]
    shift: Tensor | None
    apart: bool
    key: int
    places: Places | None = None


def nobody() -> Batch:
    """A batch that only other processes have rows in."""
    none = torch.zeros(0, dtype=torch.int64)
    table = Table(none, none, none, none.numpy(), {}, none, None, None, False, 0, none.numpy(), none.numpy())
    return Batch(table, slice(0, 0), slice(0, 0), 0, [], True, False, False, True, None, None)


def schedule(
    wiring: Wiring,
    clock: Clock,
    steps: int,
    *,
    boundaries: Tensor | None = None,
    following: Tensor | None = None,
    valid: Tensor | None = None,
    reset: Tensor | None = None,
    learned: Sequence[bool] = (),
    goes_on: bool = False,
    start: int = 0,
) -> Plan:
    """Steps of B rows as batches. boundaries (steps or more, B, given levels); following (B, given levels): is a boundary known
    to come behind each row's last step? valid, reset (steps, B); learned: of each level, may its cell start from anything but
    zero? goes_on: the window does, behind these steps; start: number of the first one, for messages."""
    rows, device, periods = clock.position.shape[0], clock.position.device, wiring.periods
    there, resets = _rows_first(valid, steps), _rows_first(reset, steps)
    if there is not None and resets is not None:
        resets = resets & there
    given = any(isinstance(period, Given) for period in periods)
    key, shift, counted = 0, None, 3 * len(periods)
    numbers = array(torch.cat([clock.position, clock.span, clock.ticked, clock.ordinal], 1)).tolist()  # few: lists are quickest
    known = numbers
    if resets is None:  # ordinals only go on: what matters is whether there has been a segment
        known = [row[:counted] + [min(ordinal, 1) for ordinal in row[counted:]] for row in numbers]
    if not given and all(row == known[0] for row in known) and _same(there) and _same(resets):
        kept = tuple(b"" if part is None else part[:1].tobytes() for part in (there, resets))
        key, mode = zlib.crc32(b"".join([repr(known[0]).encode(), *kept])), torch.is_inference_mode_enabled()
        begun = tuple(known[0])
        top, count, after, total, places = _of_one(wiring, rows, steps, begun, *kept, tuple(learned), goes_on, device, mode)
        parts = {name: part.expand(rows, -1).clone() for name, part in after.items()}  # its own
        beyond = [[a - b for a, b in zip(row[counted:], known[0][counted:], strict=True)] + [0] for row in numbers]
        shift = torch.tensor(beyond, device=device)
        if numbers != known:
            parts["ordinal"] += shift[:, :-1]
    else:
        first = {name: array(getattr(clock, name)) for name in _CLOCK}
        there = np.ones((rows, steps), bool) if there is None else there
        resets = np.zeros_like(there) if resets is None else resets
        told = None if following is None else array(following)
        levels, behind = _levels(wiring, first, there, resets, _rows_first(boundaries, steps), told, learned, goes_on, start)
        top, count, places = _batches(wiring, levels, steps, rows, device, alike=False)
        parts, total = {name: torch.from_numpy(part).to(device) for name, part in behind.items()}, int(there.sum())
    if parts:
        clock = Clock(**(parts if shift is None else {**parts, "skipped": clock.skipped}))
    return Plan(top, clock, total, count, shift, shift is None, key, places)


def complete_steps(
    wiring: Wiring,
    clock: Clock,
    steps: int,
    *,
    boundaries: Tensor | None,
    valid: Tensor | None,
    reset: Tensor | None,
    alike: bool = False,
) -> Tensor:
    """(B,) of a window that goes on: how many steps each row has before the last tick of the top, so before its last segment
    of the level below; if rows are alike, before those that may belong to a batch with segments that are still to come."""
    rows = clock.position.shape[0]
    if not wiring.periods:
        return torch.full((rows,), steps)
    first = {name: array(getattr(clock, name)) for name in _CLOCK}
    there, resets = _rows_first(valid, steps), _rows_first(reset, steps)
    there = np.ones((rows, steps), bool) if there is None else there
    resets = np.zeros_like(there) if resets is None else resets & there
    top = _levels(wiring, first, there, resets, _rows_first(boundaries, steps), None, (), True, 0)[0][-1]
    last = np.zeros(rows, np.int64)
    if alike and (share := wiring.segments[-1]) > 1:
        begun = top.at[top.at // steps == 0] % steps
        whole = max(0, (2 * len(begun) - share) // (2 * share)) * share  # of the others half a batch is there
        return torch.full((rows,), int(begun[whole]) if len(begun) else 0)
    last[top.at // steps] = top.at % steps  # in the order of time
    return torch.from_numpy(last)


def _rows_first(flags: Tensor | None, steps: int) -> Array | None:
    """Flags (steps or more, B, ...) as (..., B, steps)."""
    return None if flags is None else np.ascontiguousarray(array(flags)[:steps].T)


def array(values: Tensor) -> Array:
    """Whole numbers or flags, wherever they are."""
    try:
        found: Array = values.cpu().numpy() if values.device.type != "cpu" else values.numpy()
    except RuntimeError:  # under torch.func's transforms
        one_by_one = [value.item() for value in values.flatten()]  # torch 2.6 has no list there
        found = np.array(one_by_one, bool if values.dtype is torch.bool else np.int64).reshape(values.shape)
    return found


def _same(values: Array | None) -> bool:
    """Is it the same for all rows?"""
    return values is None or bool((values == values[:1]).all())


@lru_cache(maxsize=32)
def _of_one(
    wiring: Wiring,
    rows: int,
    steps: int,
    begun: tuple[int, ...],
    valid: bytes,
    reset: bytes,
    learned: tuple[bool, ...],
    goes_on: bool,
    device: torch.device,
    inference: bool,  # tensors that are made under torch.inference_mode serve no training afterwards
) -> tuple[Batch, list[int], dict[str, Tensor], int, Places | None]:
    """The batches of rows that are alike, one of which stands for all; the clock after the steps; steps of all rows. begun: the
    clock's position, span, ticked and ordinal."""
    position, span, ticked, ordinal = np.array(begun, np.int64).reshape(4, 1, -1)
    clock = {"position": position, "span": span, "ordinal": ordinal, "ticked": ticked > 0, "skipped": np.zeros_like(span)}
    there = np.frombuffer(valid, bool)[None] if valid else np.ones((1, steps), bool)
    resets = np.frombuffer(reset, bool)[None] if reset else np.zeros((1, steps), bool)
    levels, after = _levels(wiring, clock, there, resets, None, None, learned, goes_on, 0)
    top, count, places = _batches(wiring, levels, steps, rows, device, alike=True)
    found = {name: torch.from_numpy(part).to(device) for name, part in after.items() if name != "skipped"}  # none is
    return top, count, found, int(there.sum()) * rows, places


# ------------------------------------------------------------------------------------------- ticks and segments of each row


@dataclass
class _Level(Rows):
    segment: Array  # (M,)
    before: Array  # (B,) ticks of the first segment in earlier windows
    facts: dict[str, Array]  # (S,) see `Table`
    unborn: Array | None = None  # (M,)


def _since(count: Array, marks: Array, before: Array) -> Array:
    """How far `count` (B, n), cumulative, has come since the last mark, that included; `before` (B,) where there is none."""
    at = np.maximum.accumulate(np.where(marks, count - 1, -1), 1)
    return np.where(at >= 0, count - at, before[:, None] + count)


def _shifted(first: Array, values: Array) -> Array:
    """Values (B, n) of one step earlier."""
    return np.concatenate([first[:, None], values[:, :-1]], 1)


def _levels(
    wiring: Wiring, clock: dict[str, Array], there: Array, resets: Array, flags: Array | None,
    following: Array | None, learned: Sequence[bool], goes_on: bool, start: int,
) -> tuple[list[_Level], dict[str, Array]]:  # fmt: skip
    """Who ticks when, level by level from the lowest up, and the clock after the steps, of which all arrays are (B, n)."""
    periods = wiring.periods
    known, stepped = known_in_advance(periods), there.cumsum(1)
    levels: list[_Level] = []
    after: dict[str, list[Array]] = {name: [] for name in _CLOCK}
    ticks, given, size = there, 0, 1
    ending = np.ones(len(there), bool)  # does the segment below end with the steps?
    over = np.ones_like(there)  # where a sequence starts: was the segment below complete before?
    born: Array | None = None  # where this level ticks: has the level below nothing to send up?
    for i, period in enumerate(periods):
        position, span, ordinal, ticked, skipped = (clock[name][:, i] for name in _CLOCK)
        count = ticks.cumsum(1)
        if isinstance(period, Given):
            assert flags is not None
            flag = flags[given]
            _check_nested(flag & there & ~ticks, i, start)
            boundary = ticks & (flag | resets | ((count == 1) & (position == 0)[:, None]))
            ending = np.zeros_like(ending) if following is None else ending & following[:, given]
            over, given = over & flag, given + 1
        else:
            boundary = ticks & ((_since(count, resets, position) - 1) % period == 0)
        place = _since(count, boundary, position)  # ticks of the segment, after each step
        opened = _shifted(position, place)  # where a boundary is: ticks of the segment before
        end = place[:, -1]
        if not isinstance(period, Given):
            ending, over = ending & (end % period == 0), over & (opened % period == 0)
        spans, ordinals = _since(stepped, boundary, span), _since(boundary.cumsum(1), resets, ordinal)
        has_ticked, size = ticked | (count[:, -1] > 0), size * reach_of(period)
        if known[i]:  # complete with its last tick, whatever comes behind
            complete, closes, done = boundary & (opened == period), end == period, end % reach_of(period) == 0
        else:
            new = boundary & (over | ~resets) & (opened > 0)  # a reset that is no boundary of the data cuts it short
            lost = new & (count == 1) & ~ticked[:, None]  # its last tick was in an earlier window
            complete, closes, done = new & ~lost, ending & (end > 0) & has_ticked, ending
            skipped = skipped + lost.sum(1) + (ending & (end > 0) & ~has_ticked)
        level = _level(ticks, boundary, position, resets)
        level.unborn = born.ravel()[level.at] if born is not None and born.any() else None
        began = boundary.ravel()[level.at]
        ends = {"complete": (complete, closes), "ordinal": (_shifted(ordinal, ordinals) - 1, ordinals[:, -1] - 1),
                "ticks": (opened, end), "span": (_shifted(span, spans), spans[:, -1])}  # fmt: skip
        for name, (at_boundary, at_end) in ends.items():  # a boundary says what it is of the segment before it
            level.facts[name] = fact = np.zeros(len(level.row), at_end.dtype)
            fact[level.segment[began] - 1] = at_boundary[boundary]
            fact[level.last] = at_end
        if known[i]:
            level.facts["span"][:] = size
        level.facts["open"][level.last] = ~done
        levels.append(level)
        found = np.where(done, 0, end), spans[:, -1], ordinals[:, -1], has_ticked & goes_on, skipped
        for name, part in zip(_CLOCK, found, strict=True):
            after[name].append(part)
        born = boundary & (ordinals == 1) & (resets | bool(learned and learned[i]))  # else there is a zero anyway
        ticks = boundary
    top = _level(ticks, None, np.zeros(len(there), np.int64), resets)
    top.unborn = born.ravel()[top.at] if born is not None and born.any() else None
    return [*levels, top], {name: np.stack(parts, -1) for name, parts in after.items() if parts}


def _check_nested(stray: Array, level: int, start: int) -> None:
    if stray.any():
        step, row = np.argwhere(stray.T)[0].tolist()
        raise ValueError(
            f"boundaries of level {level} at step {start + step}, row {row} is true where level {level} does not tick; "
            f"a boundary of a level must also be one of every level below"
        )


def _level(ticks: Array, boundary: Array | None, before: Array, resets: Array) -> _Level:
    rows, steps = ticks.shape
    at = np.flatnonzero(ticks)
    own = np.ones(rows, np.int64) if boundary is None else boundary.sum(1) + 1
    first = own.cumsum() - own
    segment = at // steps + (0 if boundary is None else boundary.ravel()[at].cumsum())
    count = int(own.sum())
    facts = {name: np.zeros(count, bool) for name in ("complete", "open")}
    counts = np.bincount(segment, minlength=count)
    reset = resets.ravel()[at] if resets.any() else None
    return _Level(at, np.repeat(np.arange(rows), own), first, first + own - 1, counts, reset, segment, before, facts)


# ---------------------------------------------------------------------------------------------------------------- batches


def _batches(
    wiring: Wiring, levels: list[_Level], steps: int, rows: int, device: torch.device, *, alike: bool
) -> tuple[Batch, list[int], Places | None]:
    """The tree of batches, from the top down, how many of each level tick, and where raw inputs are. A segment belongs to the
    batch that has the tick of the level above which began it, and there to number j + 1 if that was tick j of its segment; or,
    where all ticks run first, to 1 and more by how many the row's ticks in that batch have begun before."""
    there, kept = np.zeros(len(levels[0].first), bool), []
    for level in levels:  # what was unfinished has a batch if it ticks, or ends, or if something below it has one
        keep = np.ones(len(level.row), bool)
        there = there | (level.counts[level.first] > 0) | level.facts["complete"][level.first] | (level is levels[-1])
        keep[level.first] = there
        kept.append(keep.nonzero()[0])
    counted: list[int] = []
    above: _Level | None = None
    root: Batch | None = None
    made: list[Batch] = []  # of the level above
    number = column = place = nth = np.zeros(0, np.int64)  # there, of each segment its batch and column; of each tick its place
    for i, (level, own) in reversed(list(enumerate(zip(levels, kept, strict=True)))):
        count = len(level.row)
        parent, child = np.zeros(count, np.int64), np.zeros(count, np.int64)
        leads = wiring.leads(i + 1) if above is not None else False
        if above is not None:
            begun = level.begun
            parent[begun], parent[level.first] = above.segment, above.first
            child[begun] = 1 + (_shared(number[above.segment], above, wiring.segments[i], steps) if leads else nth)
            key = number[parent] * (int(child.max()) + 1) + child
        else:
            key = parent
        order = own[np.lexsort((-level.counts[own], key[own]))]  # the longest first
        edges = np.append(np.flatnonzero(np.append(True, np.diff(key[order]) != 0)[: len(order)]), len(order))
        sizes_of = np.diff(edges)
        mine, within = np.zeros(count, np.int64), np.zeros(count, np.int64)
        mine[order] = np.repeat(np.arange(len(sizes_of)), sizes_of)
        within[order] = np.arange(len(order)) - np.repeat(edges[:-1], sizes_of)
        of_column = within[order] if above is None else column[parent[order]]
        of_tick = None
        if leads:
            of_tick = np.zeros(count, np.int64)
            of_tick[level.begun] = place
            of_tick = of_tick[order]
        # The j-th ticks of all columns of a batch stand together, in the order of its columns: in slot j.
        slots = np.append(0, level.counts[order[edges[:-1]]].cumsum())
        nth = np.arange(len(level.at)) - (level.counts.cumsum() - level.counts)[level.segment]
        slot = slots[mine[level.segment]] + nth
        sizes = np.bincount(slot, minlength=int(slots[-1]))
        firsts = np.append(0, sizes.cumsum())
        to = firsts[slot] + within[level.segment]
        table = _table(level, order, to, steps, rows, device, alike, above is None)
        of_batch = [
            _totals(flags, edges)
            for flags in (level.facts["complete"][order], level.facts["open"][order], order != level.first[level.row[order]],
                          of_column != within[order], level.row[order] != within[order])
        ]  # fmt: skip
        columns = torch.from_numpy(of_column).to(device)
        began = None if of_tick is None else torch.from_numpy(of_tick).to(device)
        batches: list[Batch] = []
        for b, (n, ends, unfinished, fresh, moved, strange) in enumerate(zip(sizes_of.tolist(), *of_batch, strict=True)):
            low, begin, end = int(edges[b]), int(slots[b]), int(slots[b + 1])
            own_sizes = sizes[begin:end].tolist()
            at = slice(low, low + n)
            batch = Batch(
                table, at, slice(int(firsts[begin]), int(firsts[end])), n * rows if alike else n,
                [one * rows for one in own_sizes] if alike else own_sizes, above is not None and fresh > 0, ends > 0,
                unfinished > 0, n == 1 if alike else n == rows and not strange,
                _of_rows(columns[at], rows, alike) if moved else None,
                _of_rows(began[at], rows, alike) if began is not None and fresh > 0 else None,
            )  # fmt: skip
            batch.length, batch.steps = len(batch.sizes), sum(batch.sizes)
            if above is not None:
                above_it = made[number[parent[order[low]]]]
                above_it.below[int(child[order[low]])] = batch
                above_it.children = max(above_it.children, int(child[order[low]]) + 1)
            batches.append(batch)
        counted.insert(0, sum(bool(batch.sizes) for batch in batches))
        root = root or batches[0]
        above, made, number, column = level, batches, mine, within
        place = to - firsts[slots[mine[level.segment]]]  # among the ticks of its batch
    assert root is not None
    parts = [reach_of(period) for period in wiring.periods]
    places = None if wiring.plain else Places(levels, parts, steps, 1 if alike else rows)
    return root, counted, places


def _shared(batch: Array, level: _Level, share: int, steps: int) -> Array:
    """Of each tick of a level, in what batch of the level below is the segment that it begins? Of each row's ticks in a batch,
    whose numbers are `batch`, `share` consecutive ones go together; a rest below half of that joins the others."""
    row, number = level.at // max(1, steps), np.arange(len(batch))
    new = np.append(True, (np.diff(batch) != 0) | (np.diff(row) != 0))[: len(batch)]
    starts = number[new]
    counts = np.diff(np.append(starts, len(batch)))
    which = new.cumsum() - 1
    most = np.maximum(-(-counts // share) - 1 - (2 * (counts % share) < share) * (counts % share > 0), 0)
    found: Array = np.minimum((number - starts[which]) // share, most[which])
    return found


def _of_rows(places: Tensor, rows: int, alike: bool) -> Tensor:
    """Of columns or ticks of one row that stands for all: those of all rows."""
    return (places[:, None] * rows + torch.arange(rows, device=places.device)).flatten() if alike else places


def _table(
    level: _Level, order: Array, to: Array, steps: int, rows: int, device: torch.device, alike: bool, top: bool
) -> Table:
    def tensor(values: Array) -> Tensor:
        return torch.from_numpy(values).to(device)

    def ticks(values: Array) -> Array:
        out = np.empty_like(values)
        out[to] = values
        return out

    facts = {name: tensor(fact[order]) for name, fact in level.facts.items()}
    if "span" in level.facts:
        facts["read"] = tensor(np.append(0, level.facts["span"][:-1])[order])
    at = tensor(ticks(level.at % steps * rows + level.at // steps))
    row, counts, before = (tensor(column[order]) for column in (level.row, level.counts, level.before[level.row]))
    unborn = None if level.unborn is None else tensor(ticks(level.unborn))
    reset = None if level.reset is None or not top else tensor(ticks(level.reset))
    last = (level.last[level.row] == np.arange(len(level.row)))[order]
    numbers = ticks(np.arange(len(level.at)))
    return Table(row, counts, before, last, facts, at, unborn, reset, alike, rows, order, numbers)


def _totals(flags: Array, edges: Array) -> list[int]:
    """How many are true in each batch."""
    total = np.append(0, flags.cumsum())
    found: list[int] = (total[edges[1:]] - total[edges[:-1]]).tolist()
    return found
