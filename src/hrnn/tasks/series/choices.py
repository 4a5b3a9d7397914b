"""Sizes, periods, window, batch and length of a run that suit some data and a budget of bytes; what is known to be poor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn import memory, room
from hrnn.data import Preprocessing
from hrnn.errors import UserError

PLACES = 8_000_000  # steps of all rows that a run learns, where data are few: a minute or two of one core
MOST_EPOCHS, LONGEST_WINDOW, STREAM_WINDOW, ROWS = 30, 4096, 512, 32
COPIES = 7  # weights, gradients twice, average, two moments, and what a checkpoint takes on the way
SPREAD = 4  # of the longest sequence and the usual one, from which on stretches are learned


@dataclass(frozen=True)
class Shape:
    """What choices depend on. lengths: inputs of the training part's rows; carried: are states carried over windows of long
    series?"""

    lengths: NDArray[np.int64]
    preprocessing: Preprocessing
    outputs: int
    carried: bool


def chosen(shape: Shape, budget: int | None) -> dict[str, Any]:
    """Options of the run by name. budget: bytes that learning may take."""
    total, longest = int(shape.lengths.sum()), int(shape.lengths.max())
    typical = min(2 * STREAM_WINDOW, max(1, total // 8)) if shape.carried else int(np.median(shape.lengths))
    periods = periods_for(typical)
    window = min(STREAM_WINDOW, typical) if shape.carried else min(longest, LONGEST_WINDOW)
    window = max(1, -(-window // periods[0]) * periods[0])
    batch = rows_for(len(shape.lengths), total, window, shape.carried)
    sizes = (64, 64, 96, 128)[: len(periods) + 1]
    if not shape.preprocessing.tokens and shape.preprocessing.inputs >= 64:
        sizes = tuple(max(size, min(256, 2 * shape.preprocessing.inputs)) for size in sizes)
    if shape.preprocessing.tokens:
        sizes = (128, 256, 384, 512)[: len(periods) + 1]
    while budget is not None and needed(shape, sizes, periods, window, batch) + SLACK > budget:
        if batch > 4:
            batch //= 2
        elif window > 4 * math.prod(periods):
            window = window // 2 // periods[0] * periods[0]
        elif sizes[0] > 16:
            sizes = tuple(size // 2 for size in sizes)
        else:
            least = room.in_words(needed(shape, sizes, periods, window, batch) + SLACK)
            raise UserError(f"--memory is {room.in_words(budget)} and the least that learns anything takes {least}; give more")
    return {
        "hidden_sizes": sizes, "periods": periods, "window": window, "batch": batch, "learning_rate": 2e-3,
        "schedule": "cosine", "epochs": epochs_for(total),
    }  # fmt: skip


def epochs_for(total: int, longer: float = 1.0) -> int:
    """By the steps of an epoch; longer: how many times as many there are in all, where it has stretches of them."""
    return max(1, round(min(MOST_EPOCHS * longer, PLACES / total)))


def crop_for(lengths: NDArray[np.int64]) -> int | None:
    """The length of most sequences where a few are far longer, or None. Otherwise these would be most of what is learned, alone
    in the batches that they make long."""
    typical = int(np.median(lengths))
    return typical if int(lengths.max()) > SPREAD * typical else None


def periods_for(length: int) -> tuple[int, ...]:
    """16 to 20 for 1,000 to 1,500 steps, more levels for more."""
    if length <= 2_300:
        return (max(min(2, length), round(math.sqrt(length) / 2)),)
    if length <= 35_000:
        return (max(8, round(0.75 * length ** (1 / 3))),) * 2
    return (min(24, round(0.9 * length**0.25)),) * 3


def rows_for(sequences: int, total: int, window: int, carried: bool) -> int:
    """Rows of a batch, a power of two where there are enough: many for a good mean, few for many updates."""
    most = total // (2 * window) if carried else sequences // 6
    return min(ROWS, 1 << max(0 if carried else 2, most.bit_length() - 1), sequences if not carried else ROWS)


SAVED = 5  # more copies, while a checkpoint is written: bytes of its parts and of the whole
SCORED = 1 << 18  # hidden numbers of the lowest level that are there at once in a validation; as output and put together
BESIDE = 1_000_000  # objects, journal, judge
LEAST = 9_000_000  # what even the smallest run was measured to take
SLACK = 3_000_000  # of a budget that are left free: by so much a prediction may be too small


def needed(shape: Shape, sizes: tuple[int, ...], periods: tuple[int, ...], window: int, batch: int) -> int:
    """Bytes that a run takes beside the interpreter and its libraries: weights, a batch's window, its gradient, a checkpoint, a
    validation."""
    pre = shape.preprocessing
    inputs, tokens = pre.tokens or pre.inputs, bool(pre.tokens)
    gradient = memory.predict(
        sizes, periods, window, batch, inputs=inputs, tokens=tokens, all_indices=True, outputs=shape.outputs
    )
    below = len(periods)
    weights = room.weight_numbers(
        sizes, periods, ["lstm"] * len(sizes), inputs=inputs, decoder_layers=[2] * below, decoder_units=[256] * below,
        decoders=True,
    )  # fmt: skip
    forecast = pre.targets == "none" and not tokens  # otherwise a target is one number, however many classes there are
    place = (8 if tokens else 4 * inputs) + (5 * shape.outputs if forecast else 8) + 2
    kept = 4 * (COPIES + SAVED) * (weights + (sizes[0] + 1) * shape.outputs)
    scored = 8 * min(window * batch * sizes[0], SCORED)
    return max(LEAST, gradient + kept + scored + 2 * window * batch * place + BESIDE)


def warnings(shape: Shape, period: int, spread: float, last: bool) -> Iterator[str]:
    """What is known to be poor. spread: the largest scale or mean of a channel, where they are not normalised."""
    pre = shape.preprocessing
    if pre.normalise == "none" and spread > 10:
        yield f"--normalise none leaves channels at up to {spread:.3g} times the usual scale, which costs accuracy; use channel"
    if pre.rate and pre.patch == 1:
        yield "--patch 1 reads audio sample by sample, which is slower and less accurate than --patch 8"
    if last:
        yield "--readout last has one target at the end of each sequence; every, one at each step, learns more"
    if not shape.carried and (short := int((shape.lengths < period).sum())):
        yield (
            f"{short:,} sequence(s) of the training part are shorter than a period of {period}: levels above the lowest learn "
            "little from them; give smaller --periods"
        )
