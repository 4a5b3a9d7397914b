"""What is counted and predicted before a window is run: the paper's count, an exact one, and bytes.

A count is in vectors per batch row. Bytes are those of the whole process above what it had before the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hrnn.arguments import entries, flag, shown, whole
from hrnn.native import library
from hrnn.recomputation import Costs, costs_of_levels, root, within
from hrnn.recomputation import every as keep_every
from hrnn.room import (
    BACKWARD_TICKS,
    CELLS,
    MOST_AT_ONCE,
    OBJECTS,
    OVERHEAD,
    ceiling,
    cell_numbers,
    complete_segments,
    output_size,
    shown_at_once,
)
from hrnn.room import segments_at_once as _at_most

_FLOAT, _TOKEN = 4, 8
_TORCH_BLOCK, _NATIVE_BLOCK = 7_000, 18_000  # bytes of the objects of a block
_TWO_PASSES = 600_000  # what a process takes for a pass forward before one that differentiates, beside tensors


def paper_count(periods: Sequence[int], window: int) -> int:
    """The paper's count for restricted gradients: the sum of the periods plus twice the top level's ticks. 166 for a period
    of 10 and a window of 784. Without a hierarchy, and for true gradients, it is the window."""
    periods, window = _fixed(periods, window)
    return sum(periods) + 2 * (window // math.prod(periods)) if periods else window


def exact_count(hidden_sizes: Sequence[int], periods: Sequence[int], window: int, segments_at_once: int = 1) -> float:
    """What has to be stored by the same reckoning, nothing left out: hidden states of every level, of the lowest those of all
    segments that are differentiated together, and, above it, the gradients of contexts. In vectors of the lowest level's size:
    a vector of twice that size counts twice."""
    sizes, periods, window = _checked(hidden_sizes, periods, window)
    at_once = whole("segments_at_once", segments_at_once, most=MOST_AT_ONCE)
    ticks = [*periods, ceiling(window, math.prod(periods))]
    ticks[0] *= min(at_once, complete_segments(periods, window))
    numbers = sum(n * size * (1 if level == 0 else 2) for level, (n, size) in enumerate(zip(ticks, sizes, strict=True)))
    return numbers / sizes[0]


def segments_at_once(
    hidden_sizes: Sequence[int],
    periods: Sequence[int],
    batch: int,
    *,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    width: int = _FLOAT,
) -> int:
    """How many segments of the lowest level `Restricted` runs before it differentiates them, if nobody says otherwise: as many
    as take 2.5 MB, 8 at most. width: bytes of a number. A window may have fewer that can be taken together."""
    sizes, periods, _ = _checked(hidden_sizes, periods, 1)
    batch, inputs, width = whole("batch", batch), whole("inputs", inputs), whole("width", width)
    numbers = 1 if flag("tokens", tokens) else inputs
    return _at_most(_cell(cell), sizes[0], periods[0], batch, numbers, width) if periods else 1


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
    segments_at_once: int | None = None,
    native: bool | None = None,
    top: str = "stored",
) -> int:
    """Bytes that `Restricted` takes for one window, above the model, its inputs and targets: float32, fixed periods, a linear
    head of `outputs` numbers. It adds up the buffers that the code allocates, and what a process takes beside them. output: as
    `HRNN` has it.
    segments_at_once, top: as `Restricted` has them; of the first, None is what it chooses. native: does compiled code run the
    ticks? None is what this machine does. `Restricted(replay=p)` takes what `Checkpointed` does: `predict_checkpointed`."""
    hidden_sizes, periods, window = _checked(hidden_sizes, periods, window)
    batch, inputs, outputs = whole("batch", batch), whole("inputs", inputs), whole("outputs", outputs)
    decoder_units = whole("decoder_units", decoder_units)
    flag("tokens", tokens), flag("all_indices", all_indices)
    gates, parts, scratch, _, recurrent = CELLS[_cell(cell)]
    in_c = library() is not None if native is None else flag("native", native)
    if in_c:  # tanh(c) is computed again, and gradients of gates take the place of the gates
        scratch = 0
    at_once = chosen_at_once(segments_at_once, hidden_sizes, periods, batch, inputs=inputs, tokens=tokens, cell=cell)
    if top not in ("stored", "checkpointed"):
        raise ValueError(f"top is {shown(top)}; expected 'stored' or 'checkpointed'")
    if top == "checkpointed":
        options = {"inputs": inputs, "tokens": tokens, "cell": cell, "decoder_units": decoder_units, "outputs": outputs}
        return _with_checkpointed_top(
            hidden_sizes, periods, window, batch, at_once, in_c, all_indices, {**options, "output": output}
        )
    group = min(at_once, complete_segments(periods, window))
    levels, total, temporary = len(hidden_sizes), 0, 0
    sizes = [inputs, *hidden_sizes, 0]
    for level, size in enumerate(hidden_sizes):
        below, above = sizes[level], sizes[level + 2]
        reads_tokens = tokens and level == 0
        highest = level == levels - 1
        ticks = ceiling(window, math.prod(periods)) if highest else periods[level]
        blocks = ceiling(ticks, BACKWARD_TICKS) if highest else 1
        read = _TOKEN if reads_tokens else _FLOAT * below
        tick = _FLOAT * size * (gates + parts + scratch + 1) + read
        segments = 1 if level else group
        places = batch * segments
        total += places * (ticks * tick + blocks * _FLOAT * size * parts)
        copies = 2 if in_c or cell == "lstm" else 1  # gradients, and weights packed or scaled
        total += _FLOAT * (cell_numbers(cell, below, above, size) * copies + (recurrent * size * size if in_c else 0))
        total += blocks * (_NATIVE_BLOCK if in_c else _TORCH_BLOCK)
        if not in_c:
            # What a block takes to be differentiated.
            total += places * min(ticks, BACKWARD_TICKS) * _FLOAT * size * (gates + (1 if cell == "lstm" else 0))
            total += OBJECTS * (min(ticks, BACKWARD_TICKS) if highest else ticks * segments)
        if not highest:
            reach, width = periods[level], (inputs if reads_tokens else below)
            gradients = _FLOAT * decoder_units * (size + width + reach)
            total += gradients
            total += batch * reach * read  # history in the new state
            decoded = 1 if in_c or not all_indices else reach  # in C one index after the other
            of_place = 5 * decoder_units + size + width if in_c else 3 * decoder_units + 3 * width
            packed = 2 * gradients if in_c else gradients
            temporary = max(temporary, packed + _FLOAT * places * decoded * of_place)
    lowest = periods[0] * group if periods else BACKWARD_TICKS
    # The loss: its copy of the output, the gradient of that and what the head makes of it.
    temporary = max(temporary, _FLOAT * batch * lowest * (3 * _shown(hidden_sizes, output) + 3 * outputs))
    return total + temporary + OVERHEAD


def _with_checkpointed_top(
    hidden_sizes: list[int],
    periods: list[int],
    window: int,
    batch: int,
    at_once: int,
    in_c: bool,
    all_indices: bool,
    options: dict[str, Any],
) -> int:
    """The larger of a block, as a window, and of what runs forward before; beside it the states of all blocks, the one that the
    block ends with and the gradient of that, and gradients gathered from block to block."""
    cell, inputs = options["cell"], options["inputs"]
    block_ticks = root(ceiling(window, math.prod(periods)))
    block_steps = min(window, block_ticks * math.prod(periods))
    block = predict(
        hidden_sizes, periods, block_steps, batch, segments_at_once=at_once, native=in_c, all_indices=all_indices, **options
    )
    if block_steps == window:
        return block
    costs = _costs(hidden_sizes, periods, batch, native=in_c, **options)
    around = zip([inputs, *hidden_sizes], [*hidden_sizes[1:], 0], hidden_sizes, strict=False)
    weights = sum(cell_numbers(cell, below, above, own) for below, above, own in around)
    gates, parts, *_ = CELLS[cell]
    few = min(block_steps, max(BACKWARD_TICKS, shown_at_once(batch, hidden_sizes[0])))  # steps whose outputs are there
    forward = _FLOAT * batch * hidden_sizes[0] * (2 * few + (periods[0] if periods else few) * (gates + parts))
    return max(block, forward + OVERHEAD) + costs.state * (ceiling(window, block_steps) + 1) + _FLOAT * weights + _TWO_PASSES


def _shown(hidden_sizes: Sequence[int], output: Any) -> int:
    """Numbers of the output, for each step and row."""
    if output not in ("lowest", "all"):
        raise ValueError(f"output is {shown(output)}; expected 'lowest' or 'all'")
    return output_size(hidden_sizes, output)


def chosen_at_once(given: int | None, hidden_sizes: Sequence[int], periods: Sequence[int], batch: int, **options: Any) -> int:
    if given is None:
        return segments_at_once(hidden_sizes, periods, batch, **options)
    return whole("segments_at_once", given, most=MOST_AT_ONCE)


def predict_truncated(
    hidden_sizes: Sequence[int], periods: Sequence[int], window: int, batch: int, steps: int, **options: Any
) -> int:
    """Bytes that `Truncated(steps)` takes for one window, by the same reckoning. Further options are those of `predict`, but
    not `segments_at_once` and `top`."""
    sizes, periods, window = _checked(hidden_sizes, periods, window)
    return _costs(sizes, periods, whole("batch", batch), **options).of(min(window, whole("steps", steps)), 0)


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
    costs = _costs(sizes, periods, whole("batch", batch), **options)
    if bytes is not None:
        return within(whole("bytes", bytes), window, costs).bytes(costs)
    return keep_every(root(window) if every is None else whole("every", every), window).bytes(costs)


def _costs(
    hidden_sizes: list[int],
    periods: list[int],
    batch: int,
    *,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    decoder_units: int = 256,
    all_indices: bool = False,  # which makes no difference: decoders have no graph
    outputs: int = 3,
    output: str = "lowest",
    native: bool | None = None,
) -> Costs:
    flag("tokens", tokens), flag("all_indices", all_indices)
    return costs_of_levels(
        hidden_sizes, periods, batch, cells=[_cell(cell)] * len(hidden_sizes), inputs=whole("inputs", inputs), tokens=tokens,
        decoder_units=[whole("decoder_units", decoder_units)] * len(periods), outputs=whole("outputs", outputs),
        shown=_shown(hidden_sizes, output), native=library() is not None if native is None else flag("native", native),
    )  # fmt: skip


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
