"""Random numbers by address: what a row of a batch holds depends on (seed, name, index, row) and on nothing else.

No state to save, no order to keep: any process can draw any row of any batch.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
Words = NDArray[np.uint64]


def _mix(z: Words) -> Words:
    """splitmix64's finaliser."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_words(seed: int, name: str, index: int, rows: range, count: int) -> Words:
    """64 random bits for each of `count` places of each row: uint64 (count, rows)."""
    address = hashlib.blake2b(f"{seed}/{name}/{index}".encode(), digest_size=8).digest()
    start = np.uint64(int.from_bytes(address, "little"))
    with np.errstate(over="ignore"):
        streams = _mix(start + np.arange(rows.start, rows.stop, dtype=np.uint64) * GOLDEN)
        places = np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
        return _mix(streams[None, :] + places[:, None])


def below(words: Words, limit: int) -> NDArray[np.int64]:
    """Random words as integers 0..limit-1 (limit well below 2**32)."""
    return (((words >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


@functools.lru_cache(4)
def permutation(seed: int, name: str, index: int, size: int) -> NDArray[np.int64]:
    """A random order of 0..size-1, the same with every version of numpy; the last ones are remembered."""
    return np.argsort(random_words(seed, name, index, range(1), size)[:, 0], kind="stable")
