"""What simple methods reach on a part: the seasonal naive forecast; an order-k Markov model and xz for symbols."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import LARGEST
from hrnn.data import Part

READ = 1 << 23  # symbols of training that a Markov model, and xz, learn from
BLOCK = 1 << 20  # steps that are read at once
ORDERS = 6


def of_forecasts(part: Part, naive: tuple[float, ...], season: int, horizon: int) -> dict[str, float]:
    """The error of taking what was one season or several before, in mean changes of training, where that is within the part."""
    channels, patch = len(naive), part.preprocessing.patch
    reach = horizon * patch
    total, count = np.zeros(channels), np.zeros(channels)
    back = -(-reach // season) * season  # so that nothing is taken from what is to be forecast
    for row in range(len(part)):
        for values, there in _numbers(part, row, back):
            moved = np.abs(values[back:].astype(np.float64) - values[:-back]) if len(values) > back else values[:0]
            known = there[back:] & there[:-back] if len(values) > back else there[:0]
            total += np.where(known, moved, 0).sum(0)
            count += known.sum(0)
    met = count > 0
    return {"seasonal_naive_mase": float((total[met] / count[met] / np.array(naive)[met]).mean())} if met.any() else {}


def _numbers(part: Part, row: int, back: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """A row's numeric channels in blocks, each with the steps before it that it is compared with."""
    channels, patch = len(part.preprocessing.numeric), part.preprocessing.patch
    length, lead = int(part.lengths[row]), -(-back // patch)
    for first in range(0, length, BLOCK):
        begin = max(0, first - lead)
        values, there = part.numbers(row, begin, min(first + BLOCK, length))
        skip = 0 if begin == 0 else lead * patch - back
        yield values.reshape(-1, channels)[skip:], there.reshape(-1, channels)[skip:]


def of_symbols(training: Part, part: Part) -> dict[str, float]:
    """Bits per symbol: of the best order-k Markov model (counts, mixed with those of the order below as Witten and Bell do), k
    chosen on the last tenth of training; and of xz, which has seen the training part."""
    symbols = training.preprocessing.tokens
    known, asked = _symbols(training, READ), _symbols(part, READ)
    kept = [one[: len(one) * 9 // 10] for one in known], [one[len(one) * 9 // 10 :] for one in known]
    orders = [k for k in range(ORDERS) if symbols ** (k + 1) <= LARGEST]  # a context and what follows are one number
    tried = _markov(*kept, orders[-1], symbols)
    order = tried.index(min(tried))
    found = {"markov_bits": _markov(known, asked, order, symbols)[order], "markov_order": float(order)}
    if symbols <= 256:
        before, after = (b"".join(one.astype(np.uint8).tobytes() for one in some) for some in (known, known + asked))
        sizes = [len(lzma.compress(text, preset=6)) for text in (before, after)]
        found["xz_bits"] = 8 * (sizes[1] - sizes[0]) / max(1, sum(map(len, asked)))
    return found


def _symbols(part: Part, most: int) -> list[NDArray[np.int64]]:
    """Sequences of a part, up to so many symbols."""
    found: list[NDArray[np.int64]] = []
    for row in range(len(part)):
        if most <= 0:
            break
        found.append(part.inputs(row, 0, min(int(part.lengths[row]), most)))
        most -= len(found[-1])
    return found


def _markov(known: list[Any], asked: list[Any], order: int, symbols: int) -> list[float]:
    """Bits per symbol of `asked` by the counts of `known`, for each order up to this one. Each is backed by
    the one below, which counts for as much as there are different symbols that were seen to follow."""
    shares, bits = [np.full(len(one), 1 / symbols) for one in asked], []
    for k in range(order + 1):
        codes, counts = np.unique(np.concatenate([_codes(one, k, symbols) for one in known]), return_counts=True)
        contexts, first = np.unique(codes // symbols, return_index=True)
        different = np.diff(first, append=len(codes))
        for one, share in zip(asked, shares, strict=True):
            if not len(codes):  # no training sequence is so long
                break
            total, wanted = np.add.reduceat(counts, first), _codes(one, k, symbols)
            seen, before = _looked_up(wanted, codes, counts), wanted // symbols
            weight, others = (_looked_up(before, contexts, values) for values in (total, different))
            share[k:] = np.where(weight > 0, (seen + others * share[k:]) / np.maximum(weight + others, 1), share[k:])
        bits.append(-sum(float(np.log2(share).sum()) for share in shares) / max(1, sum(map(len, asked))))
    return bits


def _looked_up(wanted: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of some of the sorted keys; 0 where there is none."""
    at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def _codes(symbols: NDArray[np.int64], order: int, count: int) -> NDArray[np.int64]:
    """The last `order` symbols and the one that follows, as one number for each place from `order` on."""
    codes = np.zeros(max(0, len(symbols) - order), np.int64)
    for back in range(order + 1):
        codes = codes * count + symbols[back : back + len(codes)]
    return codes
