"""Steps of sequences that were written as they came, mixed with those of others -> each sequence's steps in one stretch.

Where a step goes to is counted while the file is gone through once, so nothing is sorted in memory; but it is written here and
there, which is quick only while the system can keep the file in its own memory. Hence the budget.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.data.growing import HEADER, blocks, header
from hrnn.data.source import Numbers
from hrnn.errors import UserError
from hrnn.files import create, move
from hrnn.room import in_words


def bring_together(files: list[Path], order: Path, offsets: Numbers, budget: int) -> None:
    """Rewrite files of one entry for each step.

    order:   a file (runs, 2) of the sequences as their steps stand in the files: number, and how many steps of it follow
    offsets: (sequences + 1,) where each sequence's steps are to begin
    budget:  bytes of a file that may be written in any order
    """
    size = max(path.stat().st_size for path in files)
    if size > budget:
        raise UserError(
            f"rows of different ids are mixed, and bringing together {in_words(size)} of them takes more than the "
            f"{in_words(budget)} that it may; sort the table by id and time first, e.g. with DuckDB or Polars, or "
            f"allow more (--memory, in Python sort_budget)"
        )
    runs = np.load(order, mmap_mode="r")
    for path in files:
        entries = np.load(path, mmap_mode="r")
        temporary = path.with_suffix(".grouped")
        with create(temporary) as file:
            size = HEADER + entries.nbytes
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and a crash below
            else:
                file.truncate(size)
                file.seek(0)
            file.write(header(entries.shape, entries.dtype))
            file.flush()
            grouped = np.memmap(file, entries.dtype, "r+", HEADER, entries.shape)
        for first, places in _places(runs, offsets):
            grouped[places] = entries[first : first + len(places)]
        grouped.flush()
        del grouped, entries
        move(temporary, path)


def _places(runs: NDArray[np.int32], offsets: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Where the steps go to, a block at a time."""
    free, first = offsets[:-1].copy(), 0
    for sequences in _sequences(runs):
        by_sequence = np.argsort(sequences, kind="stable")
        met, counts = np.unique(sequences, return_counts=True)
        within = np.arange(len(sequences)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.empty(len(sequences), np.int64)
        places[by_sequence] = np.repeat(free[met], counts) + within
        free[met] += counts
        yield first, places
        first += len(sequences)


def _sequences(runs: NDArray[np.int32]) -> Iterator[Numbers]:
    """The sequence of each step, a block at a time."""
    for at, stop in blocks(len(runs)):
        numbers, ends = runs[at:stop, 0], np.cumsum(runs[at:stop, 1], dtype=np.int64)
        for first, last in blocks(int(ends[-1])):
            yield numbers[np.searchsorted(ends, np.arange(first, last), side="right")].astype(np.int64)
