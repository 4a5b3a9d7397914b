"""What is counted and predicted before a window is run: the paper's count, an exact one, and bytes.

A count is in vectors per batch row. Bytes are those of the whole process above what it had before the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hrnn.arguments import entries, flag, shown, whole
from hrnn.native import library
from hrnn.recomputation import DIFFERENTIATED, Costs, costs_of_levels, graph_of_tick, root, within
from hrnn.recomputation import every as keep_every
from hrnn.room import (
    BACKWARD_TICKS,
    CELLS,
    OVERHEAD,
    batches_at_once,
    ceiling,
    cell_numbers,
    complete_segments,
    output_size,
    reader_numbers,
    segments_at_once,
)
from hrnn.side_by_side import Shape, needed

_FLOAT, _TOKEN = 4, 8
_BLOCK = 18_000  # bytes of the objects of a block of compiled code
_LEAF, _BATCH = 5_000, 2_000  # of a context with its gradient, and of a batch in the schedule
_TWO_PASSES = 600_000  # what a process takes for a pass forward before one that differentiates, beside tensors


def paper_count(periods: Sequence[int], window: int) -> int:
    """The paper's count for restricted gradients: the sum of the periods plus twice the top level's ticks. 166 for a period
    of 10 and a window of 784. Without a hierarchy, and for true gradients, it is the window."""
    periods, window = _fixed(periods, window)
    return sum(periods) + 2 * (window // math.prod(periods)) if periods else window


def exact_count(hidden_sizes: Sequence[int], periods: Sequence[int], window: int) -> float:
    """What has to be stored by the same reckoning, nothing left out: hidden states of every level, and, above the lowest, the
    gradients of contexts. In vectors of the lowest level's size: a vector of twice that size counts twice. Small networks run
    several segments of the lowest level side by side, in 2.5 MB at most, which is not counted."""
    sizes, periods, window = _checked(hidden_sizes, periods, window)
    ticks = [*periods, ceiling(window, math.prod(periods))]
    numbers = sum(n * size * (1 if level == 0 else 2) for level, (n, size) in enumerate(zip(ticks, sizes, strict=True)))
    return numbers / sizes[0]


def predict(
    hidden_sizes: Sequence[int],
    periods: Sequence[int],
    window: int,
    batch: int,
    *,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    decoder_units: int = 256,
    all_indices: bool = False,
    outputs: int = 3,
    output: str = "lowest",
    native: bool | None = None,
    top: str = "stored",
    reads: str | Sequence[str] = "summary",
    context: str | Sequence[str] = "input",
    burn_in: int = 0,
    segments: int | Sequence[int | None] | None = None,
) -> int:
    """Bytes that `Restricted` takes for one window, above the model, its inputs and targets: float32, fixed periods, a linear
    head of `outputs` numbers. It adds up what is allocated, and what a process takes beside that. output, reads, context,
    burn_in, segments, top: as `HRNN` and `Restricted` have them. native: is there compiled code? None is what this machine
    has. `Restricted(replay=p)` takes what `Checkpointed` does: `predict_checkpointed`."""
    hidden_sizes, periods, window = _checked(hidden_sizes, periods, window)
    batch, inputs, outputs = whole("batch", batch), whole("inputs", inputs), whole("outputs", outputs)
    decoder_units = whole("decoder_units", decoder_units)
    flag("tokens", tokens), flag("all_indices", all_indices)
    in_c = library() is not None if native is None else flag("native", native)
    if top not in ("stored", "checkpointed"):
        raise ValueError(f"top is {shown(top)}; expected 'stored' or 'checkpointed'")
    numbers = _shown(hidden_sizes, output)
    shape = _Shape(hidden_sizes, periods, batch, inputs, tokens, _cell(cell), decoder_units, all_indices, outputs, numbers)
    edges = _Edges.of(periods, reads, context, burn_in, segments)
    if not edges.plain:
        return _of_edges(shape, edges, window, top)
    if top == "checkpointed":
        return _with_checkpointed_top(shape, window)
    return _compiled(shape, window) if in_c else _literal(shape, window)


@dataclass(frozen=True)
class _Shape:
    """What predictions depend on, beside the window and the method."""

    sizes: list[int]
    periods: list[int]
    batch: int
    inputs: int
    tokens: bool
    cell: str
    decoder_units: int
    all_indices: bool
    outputs: int
    shown: int

    def around(self) -> list[tuple[int, int, int]]:
        """Of every level its own size, that of the level below and that of the level above."""
        return list(zip(self.sizes, [self.inputs, *self.sizes], [*self.sizes[1:], 0], strict=False))

    def ticks(self, window: int) -> list[int]:
        """Of every level, those of a batch."""
        return [*self.periods, ceiling(window, math.prod(self.periods))]

    def costs(self, pieces: bool = True) -> Costs:
        return costs_of_levels(
            self.sizes, self.periods, self.batch, cells=[self.cell] * len(self.sizes), inputs=self.inputs, tokens=self.tokens,
            decoder_units=[self.decoder_units] * len(self.periods), outputs=self.outputs, shown=self.shown,
            pieces=pieces,
        )  # fmt: skip


@dataclass(frozen=True)
class _Edges:
    """Who reads what, and where contexts enter, of every level that has it."""

    reads: list[str]
    contexts: list[str]
    burn_in: int
    segments: list[int | None]

    @staticmethod
    def of(periods: list[int], reads: Any, context: Any, burn_in: Any, segments: Any) -> _Edges:
        def each(name: str, value: Any, allowed: tuple[str, ...]) -> list[str]:
            many = len(periods)
            found = [value] * many if isinstance(value, str) else entries(name, value, shown([allowed[0]] * many))
            if len(found) != many or any(one not in allowed for one in found):
                raise ValueError(f"{name} is {shown(value)}; expected one of {allowed}, or one for each of {many} periods")
            return found

        counts = [segments] * len(periods) if segments is None or isinstance(segments, int) else list(segments)
        counts = [None if one is None else whole("segments", one) for one in counts]
        return _Edges(
            each("reads", reads, ("summary", "inputs", "both")),
            each("context", context, ("input", "state")),
            whole("burn_in", burn_in, 0),
            counts,
        )

    @property
    def plain(self) -> bool:
        return "inputs" not in self.reads and "both" not in self.reads and "state" not in self.contexts


def _of_edges(shape: _Shape, edges: _Edges, window: int, top: str) -> int:
    """Where something else is read than summaries, or contexts enter otherwise: exact where no summary is read, else what
    summaries take and, of raw inputs, readers with their gradients and what they give."""
    if all(one == "inputs" for one in edges.reads) and top == "stored":
        side = Shape(
            shape.sizes, shape.periods, shape.batch, shape.inputs, shape.tokens, shape.cell, shape.outputs, shape.shown,
            edges.contexts, edges.burn_in, edges.segments,
        )  # fmt: skip
        return needed(side, window)
    total = _with_checkpointed_top(shape, window) if top == "checkpointed" else _literal(shape, window)
    for level, (read, ticks) in enumerate(zip(edges.reads, shape.ticks(window)[1:], strict=True), start=1):
        if read != "summary":
            total += _FLOAT * shape.sizes[level] * (2 * shape.batch * ticks + shape.sizes[level] * CELLS[shape.cell][3])
            total += 2 * _FLOAT * reader_numbers("linear", shape.inputs, shape.sizes[level], shape.periods[:level])
    return total


def _compiled(shape: _Shape, window: int) -> int:
    """Buffers: tanh(c) is computed again, and gradients of gates take the place of the gates."""
    gates, parts, _, _, recurrent = CELLS[shape.cell]
    periods, batch, total, temporary = shape.periods, shape.batch, 0, 0
    group = complete_segments(periods, window)
    if periods:
        numbers = 1 if shape.tokens else shape.inputs
        group = min(group, segments_at_once(shape.cell, shape.sizes[0], periods[0], batch, numbers, _FLOAT))
    for level, ((size, below, above), ticks) in enumerate(zip(shape.around(), shape.ticks(window), strict=True)):
        highest = level == len(periods)
        blocks = ceiling(ticks, BACKWARD_TICKS) if highest else 1
        read = _TOKEN if shape.tokens and level == 0 else _FLOAT * below
        places = batch * (1 if level else group)
        total += places * (ticks * (_FLOAT * size * (gates + parts + 1) + read) + blocks * _FLOAT * size * parts)
        # Gradients, and weights packed.
        total += _FLOAT * (2 * cell_numbers(shape.cell, below, above, size) + recurrent * size * size) + blocks * _BLOCK
        if not highest:
            gradients = _FLOAT * shape.decoder_units * (size + below + ticks)
            total += gradients + batch * ticks * read  # history in the new state
            temporary = max(temporary, 2 * gradients + _FLOAT * places * (5 * shape.decoder_units + size + below))
    lowest = periods[0] * group if periods else BACKWARD_TICKS
    return total + max(temporary, _loss(shape, lowest)) + OVERHEAD


def _literal(shape: _Shape, window: int) -> int:
    """Graphs: of one batch of each level, side by side at the lowest one, and of the top's ticks; then gradients."""
    batch, ticks, periods = shape.batch, shape.ticks(window), shape.periods
    if not periods:
        return shape.costs(pieces=False).of(window, 0)
    group = min(batches_at_once(shape.sizes[0], periods[0] * batch, 1), complete_segments(periods, window))
    total, temporary = _BATCH * sum(window / math.prod(periods[:level]) for level in range(1, len(ticks))), 0
    for level, (size, below, above) in enumerate(shape.around()):
        weights = _FLOAT * cell_numbers(shape.cell, below, above, size)
        if level:
            total += ticks[level] * (graph_of_tick(shape.cell, size, below, batch) + _FLOAT * batch * size + _LEAF)
            temporary = max(temporary, 3 * weights)  # gathered, those of the ticks so far, of the next
        else:
            tick = graph_of_tick(shape.cell, size, below, batch * group, ticks[0])
            lowest = ticks[0] * (tick + 2 * _FLOAT * batch * group * shape.shown)
            more = 2 * weights + _FLOAT * batch * group * ticks[0] * DIFFERENTIATED * size
            temporary = max(temporary, int(lowest + max(more, _loss(shape, ticks[0] * group))))
        if level == 1 and group == 1 and shape.cell != "lstm":
            total += 2.5 * _FLOAT * batch * below * ticks[1]  # holes that its segments leave between the summaries
        if level < len(periods):
            total += weights
            decoded = ticks[level] if shape.all_indices else 1
            total += _FLOAT * shape.decoder_units * (size + below + ticks[level])
            total += batch * ticks[level] * (_TOKEN if shape.tokens and level == 0 else _FLOAT * below)  # history
            places = batch * (1 if level else group)
            temporary = max(temporary, _FLOAT * places * decoded * (3 * shape.decoder_units + 3 * below))
    return int(total) + temporary + OVERHEAD


def _loss(shape: _Shape, steps: int) -> int:
    """The loss: its copy of the output, the gradient of that and what the head makes of it."""
    return _FLOAT * shape.batch * steps * 3 * (shape.shown + shape.outputs)


def _with_checkpointed_top(shape: _Shape, window: int) -> int:
    """A block, as a window; beside it the states of all blocks, the one that the block ends with and the gradient of that, and
    gradients gathered from block to block."""
    periods = shape.periods
    block_steps = min(window, root(ceiling(window, math.prod(periods))) * math.prod(periods))
    block = _literal(shape, block_steps)
    if block_steps == window:
        return block
    weights = sum(cell_numbers(shape.cell, below, above, own) for own, below, above in shape.around())
    return block + shape.costs().state * (ceiling(window, block_steps) + 1) + _FLOAT * weights + _TWO_PASSES


def _shown(hidden_sizes: Sequence[int], output: Any) -> int:
    """Numbers of the output, for each step and row."""
    if output not in ("lowest", "all"):
        raise ValueError(f"output is {shown(output)}; expected 'lowest' or 'all'")
    return output_size(hidden_sizes, output)


def predict_truncated(
    hidden_sizes: Sequence[int], periods: Sequence[int], window: int, batch: int, steps: int, **options: Any
) -> int:
    """Bytes that `Truncated(steps)` takes for one window, by the same reckoning. Further options are those of `predict`, but
    not `native` and `top`."""
    sizes, periods, window = _checked(hidden_sizes, periods, window)
    steps = whole("steps", steps)
    return _costs(sizes, periods, whole("batch", batch), pieces=steps < window, **options).of(min(window, steps), 0)


def predict_checkpointed(
    hidden_sizes: Sequence[int],
    periods: Sequence[int],
    window: int,
    batch: int,
    *,
    every: int | None = None,
    bytes: int | None = None,
    **options: Any,
) -> int:
    """Bytes that `Checkpointed(every, bytes)` takes for one window, by the same reckoning; with `bytes` no more than these.
    Further options as in `predict_truncated`."""
    sizes, periods, window = _checked(hidden_sizes, periods, window)
    costs = _costs(sizes, periods, whole("batch", batch), pieces=every is None or whole("every", every) < window, **options)
    if bytes is not None:
        return within(whole("bytes", bytes), window, costs).bytes(costs)
    return keep_every(root(window) if every is None else every, window).bytes(costs)


def _costs(
    hidden_sizes: list[int],
    periods: list[int],
    batch: int,
    *,
    pieces: bool,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    decoder_units: int = 256,
    all_indices: bool = False,  # which makes no difference: decoders have no graph
    outputs: int = 3,
    output: str = "lowest",
) -> Costs:
    flag("tokens", tokens), flag("all_indices", all_indices)
    inputs, decoder_units, outputs = whole("inputs", inputs), whole("decoder_units", decoder_units), whole("outputs", outputs)
    numbers = _shown(hidden_sizes, output)
    shape = _Shape(hidden_sizes, periods, batch, inputs, tokens, _cell(cell), decoder_units, all_indices, outputs, numbers)
    return shape.costs(pieces)


def _fixed(periods: Sequence[int], window: int) -> tuple[list[int], int]:
    """Fixed periods and a window, as whole numbers."""
    window = whole("window", window)
    return [whole(f"periods[{i}]", p) for i, p in enumerate(entries("periods", periods, "[10]"))], window


def _checked(hidden_sizes: Sequence[int], periods: Sequence[int], window: int) -> tuple[list[int], list[int], int]:
    """A hierarchy of fixed periods and its window, as whole numbers."""
    found, window = _fixed(periods, window)
    sizes = [whole(f"hidden_sizes[{i}]", size) for i, size in enumerate(entries("hidden_sizes", hidden_sizes, "[256, 256]"))]
    if len(sizes) != len(found) + 1:
        raise ValueError(f"periods has {len(found)} entries for {len(sizes)} levels; give one fewer than hidden_sizes")
    return sizes, found, window


def _cell(name: Any) -> str:
    if not isinstance(name, str) or name not in CELLS:
        raise ValueError(f"cell is {shown(name)}; expected one of {sorted(CELLS)}")
    return name
