"""A .npy file that grows at its end: nobody need know beforehand how long it will be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hrnn.files import create

HEADER = 128  # bytes: enough for any length, so that it can be written again when the length is known
BLOCK = 1 << 16  # steps at a time, where a file is gone through


class GrowingArray:
    """An array on disk, appended to along its first axis; `close` makes it a .npy file."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...] = ()):
        """shape: of one entry"""
        self.path, self.dtype, self.shape, self.length = path, np.dtype(dtype), shape, 0
        self._file = create(path)
        self._file.write(bytes(HEADER))

    def append(self, entries: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(entries, self.dtype).data)
        self.length += len(entries)

    def widen(self, dtype: DTypeLike) -> None:
        """Go on with a wider type of numbers; what is there is rewritten, from the end on, in place."""
        old, new = self.dtype, np.dtype(dtype)
        for first in reversed(range(0, self.length, BLOCK)):
            self._file.seek(HEADER + first * old.itemsize)
            some = np.frombuffer(self._file.read(min(BLOCK, self.length - first) * old.itemsize), old)
            self._file.seek(HEADER + first * new.itemsize)
            self._file.write(some.astype(new).data)
        self._file.seek(0, os.SEEK_END)
        self.dtype = new

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._file.write(header((self.length, *self.shape), self.dtype))


def header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    described = f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text = described.ljust(HEADER - 11).encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def save(path: Path, array: NDArray[Any]) -> None:
    with closing(GrowingArray(path, array.dtype, array.shape[1:])) as growing:
        growing.append(array)


def blocks(length: int, steps: int = BLOCK) -> Iterator[tuple[int, int]]:
    return ((first, min(first + steps, length)) for first in range(0, length, steps))
