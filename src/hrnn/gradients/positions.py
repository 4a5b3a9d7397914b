"""The steps of a window by their numbers, whatever chunks they came in: read again and again, or only onward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from hrnn.gradients.window import Chunk, Window, by_position


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

    def up_to(self, stop: int) -> int:
        """Read on: `stop`, or the window's end if that comes first."""
        while self._edges[-1] < stop and self._is_there(len(self._edges) - 1):
            pass
        return min(stop, self._edges[-1])

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
