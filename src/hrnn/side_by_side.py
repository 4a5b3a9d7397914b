"""What a window takes, before it is run, where nothing hidden goes up: all ticks of a batch run by one operation of torch's,
segments side by side. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hrnn.room import AT_ONCE, CELLS, ceiling, cell_numbers, reader_numbers, round_of, side_by_side

_FLOAT = 4
_OVERHEAD = 300_000
_LEFT = 0.5  # of what batches below have taken, when the top is differentiated: holes
_RECYCLED = 1_000_000  # bytes of a workspace that lie in memory which has been used before, and count whether used again or not
# In vectors of the hidden size, of each tick and row: the workspace of torch's operation, what of it has been written to behind
# the way forward, and all that is there at the end of the way back. For a GRU and an RNN torch keeps single tensors instead.
_WORKSPACE = {"lstm": (15.4, 5.0, 16.0), "gru": (6.7, 6.7, 13.0), "rnn": (2.4, 2.4, 6.0)}
_BESIDE = 3  # vectors of each tick beside it: what is read, the hidden state, its gradient


@dataclass(frozen=True)
class Shape:
    """A hierarchy of fixed periods none of whose levels reads a summary, and the rows of its windows. segments: of each level
    below the top, how many share a batch; None: as many as `HRNN` takes."""

    sizes: Sequence[int]
    periods: Sequence[int]
    batch: int
    inputs: int
    tokens: bool
    cell: str
    outputs: int
    shown: int
    contexts: Sequence[str]
    burn_in: int
    segments: Sequence[int | None]

    def weights(self) -> int:
        """Numbers that are learned; the head's are few."""
        total, top = 0, len(self.periods)
        for level, size in enumerate(self.sizes):
            read = size if level else self.inputs
            above = self.sizes[level + 1] if level < top else 0
            starts = level < top and self.contexts[level] == "state"
            total += cell_numbers(self.cell, read, 0 if starts else above, size)
            total += (above + 1) * size * CELLS[self.cell][1] if starts else 0
            total += reader_numbers("linear", self.inputs, size, self.periods[:level]) if level else 0
        return total


def needed(shape: Shape, window: int) -> int:
    """Bytes that `Restricted` takes for one window."""
    periods, top = list(shape.periods), len(shape.periods)
    size = prod(periods)
    rounds = round_of(size, window)
    steps = window if rounds is None else min(window, ceiling(rounds, size) * size)
    total: float = _OVERHEAD + _FLOAT * shape.weights() + max(_FLOAT * cell_numbers(shape.cell, n, 0, n) for n in shape.sizes)
    ticks = ceiling(steps, size)  # of a batch, all columns and no rows
    kept, below = _forward(shape, top, ticks, 1), 0.0
    last = _backward(shape, top, ticks, 1) - kept
    total += ceiling(window, steps) * kept + _read(shape, top, ticks)
    for level in reversed(range(top)):
        given = shape.segments[level]
        share = side_by_side(shape.sizes[level], periods[level], shape.batch) if given is None else given
        columns = _largest(ticks, share)
        length = periods[level] + (shape.burn_in if level == 0 else 0)
        below += _backward(shape, level, length, columns) + _read(shape, level, length * columns)
        ticks = columns * periods[level]
    return int(total + max(below, last + _LEFT * below))


def _largest(ticks: int, share: int) -> int:
    """Of so many ticks that begin segments, those whose segments share the largest batch: a small rest joins another."""
    rest = ticks % share
    return ticks if ticks <= share else share + (rest if 2 * rest < share else 0)


def _vector(shape: Shape, level: int, ticks: int, columns: int) -> int:
    return _FLOAT * shape.sizes[level] * ticks * columns * shape.batch


def _forward(shape: Shape, level: int, ticks: int, columns: int) -> float:
    """What is kept of a level's ticks until they are differentiated."""
    vector, (whole, written, _) = _vector(shape, level, ticks, columns), _WORKSPACE[shape.cell]
    # Of a few ticks it has more than its share.
    whole_bytes = vector * whole + 8 * vector / ticks + 10_000
    return min(whole_bytes, written * vector + _RECYCLED) + _BESIDE * vector


def _backward(shape: Shape, level: int, ticks: int, columns: int) -> float:
    """What is there while they are differentiated."""
    vector = _vector(shape, level, ticks, columns)
    shown = 2 * _FLOAT * (shape.shown + shape.outputs) * ticks * columns * shape.batch if level == 0 else vector
    loss = shown + (_WORKSPACE[shape.cell][1] + _BESIDE) * vector
    return max(_WORKSPACE[shape.cell][2] * vector + (0 if level == 0 else vector), loss)


def _read(shape: Shape, level: int, ticks: int) -> float:
    """Raw inputs, and the reader's graph where it is kept, or of those ticks for which it is made again."""
    if level == 0:
        return 2 * _FLOAT * shape.inputs * ticks * shape.batch
    parts = list(shape.periods[:level])[::-1]
    numbers = (1 if shape.tokens else shape.inputs) * prod(parts)
    vectors = sum(prod(parts[:stage]) for stage in range(len(parts)))
    return min(AT_ONCE, _FLOAT * ticks * shape.batch * (2 * numbers + shape.sizes[level] * vectors))
