"""The steps of a window by their numbers, whatever chunks they came in: read again and again, or only onward; in pieces, as
the executor takes them, or in rounds, in which what has not ended waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hrnn.executor import learned_starts
from hrnn.gradients.window import Chunk, Window, by_position
from hrnn.schedule import Plan, complete_steps, schedule
from hrnn.segments import Behind, Clock


class Steps(ABC):
    """The steps of a window, asked for by their numbers."""

    def __init__(self, window: Window):
        self._window = window
        self._edges = [0]  # of the chunks that have been read

    def chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        """Steps start to stop, as chunks of which each lies within one of the user's: checked, time first, with only what
        belongs to their steps. mask: without padded steps, None: a target everywhere; lengths: from 0, None: all rows have all
        steps; reset: None where no sequence starts; boundaries: the last chunk has one row more, which says what comes behind
        `stop`, wherever that is known."""
        while start < stop:
            number = bisect_right(self._edges, start) - 1
            first, end = self._edges[number], self._edges[number + 1]
            part = cut(self._chunk(number), start - first, min(stop, end) - first)
            if stop == end and part.boundaries is not None and len(part.boundaries) == len(part.x):
                part = self._announced(part, number + 1)
            yield part
            start = end

    def _announced(self, part: Chunk, following: int) -> Chunk:
        """With the boundaries that a later chunk begins with, if there is one."""
        if not self._is_there(following):
            return part
        later = self._chunk(following).boundaries
        assert part.boundaries is not None
        assert later is not None
        return replace(part, boundaries=torch.cat([part.boundaries, later[:1]]))

    @abstractmethod
    def _chunk(self, number: int) -> Chunk:
        """One of the user's chunks, checked."""

    @abstractmethod
    def _is_there(self, number: int) -> bool:
        """Has the user given a chunk of that number?"""


class Positions(Steps):
    """A window, readable by position, again and again: for methods that go backward through it, or run a part of it twice.

    It is tensors, or a sequence of chunks with `__len__` and `__getitem__`, which gives the same chunk for the same number
    whenever it is asked; a plain iterator is refused. All chunks are read once, to be checked and counted (`window.row_steps`
    and `window.steps` are then complete; do not iterate over the window as well), and again as they are asked for. One chunk at
    a time is kept.

    steps: of the whole window
    """

    def __init__(self, window: Window, method: str):
        """method: whom a refusal names, e.g. "Checkpointed"."""
        super().__init__(window)
        if not by_position(window.source):
            raise TypeError(
                f"x is a {type(window.source).__name__}, which can be read only once, and {method} runs steps again; give a "
                f"tensor, or a sequence of hrnn.Chunk with __len__ and __getitem__, e.g. list(x)"
            )
        for chunk in window:
            self._edges.append(window.steps)
            self._last = len(self._edges) - 2, chunk
        self.steps = window.steps

    def _chunk(self, number: int) -> Chunk:
        if self._last[0] != number:
            start, end = self._edges[number : number + 2]
            chunk = self._window.checked(self._window.source[number], start, opening=number == 0)
            if len(chunk.x) != end - start:
                raise ValueError(
                    f"x[{number}] had {end - start} steps when it was first read and has {len(chunk.x)} now; give a sequence "
                    f"that returns the same chunk for the same number"
                )
            self._last = number, chunk
        return self._last[1]

    def _is_there(self, number: int) -> bool:
        return number < len(self._edges) - 1


class Onward(Steps):
    """A window whose steps are asked for but once, in their order: any iterator will do. Chunks are kept until their steps are
    over."""

    def __init__(self, window: Window):
        super().__init__(window)
        self._unread = iter(window)
        self._kept: dict[int, Chunk] = {}

    def up_to(self, stop: int | None) -> int:
        """Read on: `stop`, or the window's end if that comes first."""
        while (stop is None or self._edges[-1] < stop) and self._is_there(len(self._edges) - 1):
            pass
        return self._edges[-1] if stop is None else min(stop, self._edges[-1])

    def next_edge(self, start: int) -> int:
        """Where the chunk ends that begins at a step; the step itself, if there is none."""
        number = bisect_right(self._edges, start) - 1
        return self._edges[number + 1] if self._is_there(number) else start

    def forget_before(self, step: int) -> None:
        """Steps before this one are over."""
        self._kept = {number: chunk for number, chunk in self._kept.items() if self._edges[number + 1] > step}

    def _chunk(self, number: int) -> Chunk:
        return self._kept[number]

    def _is_there(self, number: int) -> bool:
        while number > len(self._edges) - 2:
            chunk = next(self._unread, None)
            if chunk is None:
                return False
            self._kept[len(self._edges) - 1] = chunk
            self._edges.append(self._edges[-1] + len(chunk.x))
        return True


def cut(chunk: Chunk, start: int, stop: int) -> Chunk:
    """Steps start to stop of a checked chunk, and the boundaries behind them, where they are known."""

    def steps(value: Tensor | None, more: int = 0) -> Tensor | None:
        return None if value is None else value[start : stop + more]

    lengths, reset = chunk.lengths, steps(chunk.reset)
    if lengths is not None:
        lengths = (lengths - start).clamp(0, stop - start)
        lengths = None if bool((lengths == stop - start).all()) else lengths
    if reset is not None and not bool(reset.any()):
        reset = None
    return Chunk(chunk.x[start:stop], steps(chunk.y), steps(chunk.mask), steps(chunk.boundaries, 1), lengths, reset)


@dataclass
class Piece:
    """Some steps of a window, whose chunks are forgotten: (steps, rows, ...) each, as in `Chunk`. valid: None: all rows have
    all steps. following (rows, given levels): is a boundary known to come behind each row's last step? origin: the number of
    the first step, or, if rows are at different ones, (steps, rows) the number of each."""

    x: Tensor
    y: Tensor | None
    mask: Tensor | None
    boundaries: Tensor | None
    valid: Tensor | None
    reset: Tensor | None
    following: Tensor | None
    origin: int | Tensor

    def complete(self, window: Window, clock: Clock, batches: bool) -> Tensor:
        """(rows,) how many of each row's steps belong to complete segments of the level below the top; batches: to complete
        batches of them, if rows are alike."""
        ends = complete_steps(
            window.wiring, clock, len(self.x), boundaries=self.boundaries, valid=self.valid, reset=self.reset, alike=batches
        )
        return ends.to(self.x.device)

    def plan(self, window: Window, clock: Clock, goes_on: bool = False) -> Plan:
        """goes_on: the window does, behind these steps."""
        start = self.origin if isinstance(self.origin, int) else int(self.origin.max()) + 1 - len(self.x)
        return schedule(
            window.wiring, clock, len(self.x), boundaries=self.boundaries, following=self.following, valid=self.valid,
            reset=self.reset, learned=learned_starts(window.model.levels), goes_on=goes_on, start=start,
        )  # fmt: skip

    def last(self, stop: int) -> int:
        """The number behind the step before `stop`."""
        return self.origin + stop if isinstance(self.origin, int) else int(self.origin[:stop].max()) + 1


def piece(chunks: list[Chunk], start: int, behind: Behind) -> Piece:
    """Chunks as one piece. behind: what the window has said of boundaries by then, which is brought up to date."""
    first, steps = chunks[0], sum(len(chunk.x) for chunk in chunks)
    following = None
    for chunk in chunks:
        following = behind.after(chunk.boundaries, chunk.lengths, len(chunk.x))
    valid = None
    if any(chunk.lengths is not None for chunk in chunks):
        valid = torch.cat([_there(chunk) for chunk in chunks])
    if len(chunks) == 1:
        flags = None if first.boundaries is None else first.boundaries[:steps]
        return Piece(first.x, first.y, first.mask, flags, valid, first.reset, following, start)

    def together(name: str) -> Tensor | None:
        parts = [getattr(chunk, name) for chunk in chunks]
        like = next((part for part in parts if part is not None), None)
        if like is None:
            return None
        fill = {"mask": True, "reset": False}.get(name, 0)
        return torch.cat(
            [
                like.new_full((len(chunk.x), *like.shape[1:]), fill) if part is None else part[: len(chunk.x)]
                for chunk, part in zip(chunks, parts, strict=True)
            ]
        )

    x = together("x")
    assert x is not None
    mask, flags = together("mask"), together("boundaries")
    return Piece(x, together("y"), mask, flags, valid, together("reset"), following, start)


def _there(chunk: Chunk) -> Tensor:
    """(steps, rows): has a row this step?"""
    step = torch.arange(len(chunk.x), device=chunk.x.device)[:, None]
    lengths = chunk.lengths
    return (step < (len(chunk.x) if lengths is None else lengths)).expand(len(chunk.x), chunk.x.shape[1])


class Rounds:
    """A window in rounds of so many steps, or of one chunk each where rows are alike: of every round what has ended runs, that
    is, each row's steps up to the end of its last segment of the level below the top. The rest waits, as inputs, so batches are
    whole, and no graph but the top's outlives a round."""

    def __init__(self, window: Window, size: int | None, every: bool = False, batches: bool = True):
        """size: None: one round, or as many as there are chunks. every: also those in which nothing has ended, as it may have
        in other processes. batches: segments side by side are not taken apart, as levels that move do so behind a batch."""
        self.window, self.size, self.every, self.batches, self.behind = window, size, every, batches, Behind()
        self.steps = Onward(window)

    def __iter__(self) -> Iterator[tuple[Piece, Plan, bool]]:
        """Pieces with their plans, and whether others follow."""
        waiting, start, clock, apart = None, 0, self.window.state.clock, self.window.may_part
        if self.size is None and not self.window.streamed:
            whole = piece(list(self.window), 0, self.behind)
            yield whole, whole.plan(self.window, clock), False
            return
        while True:
            if self.size is not None:
                stop = self.steps.up_to(start + self.size)
                goes_on = self.steps.up_to(stop + 1) > stop
            elif self.window.streamed and not apart:
                stop = self.steps.next_edge(start)
                goes_on = self.steps.next_edge(stop) > stop
            else:
                stop, goes_on = self.steps.up_to(None), False
            if not apart:  # what waits is read again: that is a view, where the window is one tensor
                begin = start if waiting is None else waiting.last(0)
                whole = piece(list(self.steps.chunks(begin, stop)), begin, self.behind)
            else:
                new = piece(list(self.steps.chunks(start, stop)), start, self.behind)
                self.steps.forget_before(stop)
                whole = new if waiting is None else _behind_each_other(waiting, new)
            start = stop
            if not goes_on:
                yield whole, whole.plan(self.window, clock), False
                return
            ready, waiting = _split(whole, whole.complete(self.window, clock, self.batches and not apart))
            if not apart:
                self.steps.forget_before(stop if waiting is None else waiting.last(0))
            if ready is None and self.every:
                nowhere = torch.zeros(whole.x.shape[:2], dtype=torch.bool, device=whole.x.device)
                ready = replace(whole, valid=nowhere, following=None)
            if ready is not None:
                plan = ready.plan(self.window, clock, True)
                clock = plan.clock
                yield ready, plan, True


def _behind_each_other(waiting: Piece, new: Piece) -> Piece:
    """What waits, and new steps."""
    counts = len(waiting.x), len(new.x)

    def together(name: str, fill: int = 0) -> Tensor | None:
        parts = getattr(waiting, name), getattr(new, name)
        like = next((part for part in parts if part is not None), None)
        if like is None:
            return None
        return torch.cat(
            [like.new_full((n, *like.shape[1:]), fill) if p is None else p for p, n in zip(parts, counts, strict=True)]
        )

    x, rows = together("x"), new.x.shape[1]
    assert x is not None
    valid = together("valid", True)
    origin = torch.cat([_numbers(one, rows) for one in (waiting, new)])
    if isinstance(waiting.origin, int) and isinstance(new.origin, int):
        origin = waiting.origin  # type: ignore[assignment]
    return Piece(
        x, together("y"), together("mask", True), together("boundaries"), valid, together("reset"), new.following, origin
    )


def _numbers(one: Piece, rows: int) -> Tensor:
    if isinstance(one.origin, Tensor):
        return one.origin
    return torch.arange(one.origin, one.origin + len(one.x), device=one.x.device)[:, None].expand(-1, rows)


def _split(whole: Piece, ends: Tensor) -> tuple[Piece | None, Piece | None]:
    """The steps of each row before `ends` (rows,), and the others, which move to the beginning."""
    steps, rows = whole.x.shape[:2]
    step = torch.arange(steps, device=whole.x.device)[:, None]
    if whole.valid is None and bool((ends == ends[0]).all()) and isinstance(whole.origin, int):
        at = int(ends[0])
        return _cut(whole, slice(0, at), whole.origin), _cut(whole, slice(at, steps), whole.origin + at)
    valid = torch.ones(steps, rows, dtype=torch.bool, device=step.device) if whole.valid is None else whole.valid
    ready = None
    if bool((before := valid & (step < ends)).any()):
        told = None
        if whole.boundaries is not None:
            column = torch.arange(rows, device=step.device)
            told = whole.boundaries[ends.clamp(max=steps - 1), column] & before.any(0)[:, None]
        ready = replace(whole, valid=before, mask=before if whole.mask is None else whole.mask & before, following=told)
    behind = valid & (step >= ends)
    counts = behind.sum(0)
    most = int(counts.max())
    if not most:
        return ready, None
    order = torch.argsort(~behind, dim=0, stable=True)[:most]  # of each row what waits, in the order of time
    column = torch.arange(rows, device=step.device)

    def taken(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[order, column]

    x, there = taken(whole.x), torch.arange(most, device=step.device)[:, None] < counts
    assert x is not None
    mask = there if whole.mask is None else taken(whole.mask) & there  # type: ignore[operator]
    numbers = taken(_numbers(whole, rows))
    assert numbers is not None
    waiting = Piece(x, taken(whole.y), mask, taken(whole.boundaries), there, taken(whole.reset), whole.following, numbers)
    return ready, waiting


def _cut(whole: Piece, at: slice, origin: int) -> Piece | None:
    if at.start == at.stop:
        return None

    def own(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[at]

    flags, x = whole.boundaries, whole.x[at]
    told = None if flags is None or at.stop == len(flags) else flags[at.stop]
    return Piece(x, own(whole.y), own(whole.mask), own(whole.boundaries), None, own(whole.reset), told, origin)
