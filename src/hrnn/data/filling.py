"""What needs the steps of a sequence in order: times that increase, and missing values, which take the last one there was."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hrnn.data.growing import HEADER, GrowingArray, blocks
from hrnn.data.source import Numbers
from hrnn.errors import UserError, shortened
from hrnn.files import change


def check_times(path: Path, offsets: Numbers, ids: list[str]) -> list[float]:
    """Refuse times that do not increase within a sequence; returns the smallest and the largest difference."""
    times = np.load(path, mmap_mode="r")
    least, most = np.inf, -np.inf
    for first, last in blocks(len(times) - 1):
        some = np.asarray(times[first : last + 1])
        differences = some[1:] - some[:-1]
        inside = np.ones(last - first, bool)
        begins = offsets[np.searchsorted(offsets, first + 1) : np.searchsorted(offsets, last, side="right")]
        inside[begins - first - 1] = False
        if (wrong := np.flatnonzero(inside & ~(differences > 0))).size:
            step = first + int(wrong[0])
            number = int(np.searchsorted(offsets, step, side="right")) - 1
            same = differences[wrong[0]] == 0
            what = "has the same time twice" if same else "has times that are not in order"
            remedy = "keep one row for each time" if same else "sort the table by id and time"
            if len(ids) == 1:
                remedy += ", or name the column that tells sequences apart (--id COLUMN) if these are several"
            where = f"steps {step - offsets[number]:,} and {step + 1 - offsets[number]:,}"
            raise UserError(f"sequence {shortened(ids[number])!r} {what} ({where}); {remedy}")
        if inside.any():
            least, most = min(least, float(differences[inside].min())), max(most, float(differences[inside].max()))
    return [least, most] if most >= least else [0.0, 0.0]


def fill(values_file: Path, missing_file: Path, offsets: Numbers, ids: list[str]) -> None:
    """Missing values become the last one of their channel and sequence, in place; before the first they stay nan. Which were
    missing is written as bits, (steps, bytes): eight channels in each, the first one highest."""
    values = np.load(values_file, mmap_mode="r")
    length, channels = values.shape
    del values
    bits = GrowingArray(missing_file, np.uint8, (-(-channels // 8),))
    something = np.zeros(len(ids), bool)  # does the sequence have any value?
    last = np.full((1, channels), np.nan, np.float32)
    with change(values_file) as file:
        for first, stop in blocks(length):
            place = HEADER + first * channels * 4
            file.seek(place)
            some = np.frombuffer(file.read((stop - first) * channels * 4), np.float32).reshape(-1, channels)
            absent = np.isnan(some)
            bits.append(np.packbits(absent, axis=1))
            earliest = int(np.searchsorted(offsets, first, side="right")) - 1
            begins = offsets[earliest : np.searchsorted(offsets, stop)]
            there = np.maximum.reduceat(~absent.all(1), np.maximum(begins - first, 0))
            something[earliest : earliest + len(begins)] |= there
            if absent.any():
                # Row 0 is the one before the block; a step's source is the last one with a value, or where its sequence begins.
                rows = np.concatenate([last, some])
                source = np.where(np.isnan(rows), 0, np.arange(len(rows))[:, None])
                source[begins[begins >= first] - first + 1] = (begins[begins >= first] - first + 1)[:, None]
                np.maximum.accumulate(source, axis=0, out=source)
                some = np.take_along_axis(rows, source, axis=0)[1:]
                file.seek(place)
                file.write(np.ascontiguousarray(some).data)
            last = some[-1:]
    bits.close()
    if not something.all():
        raise UserError(f"all values of sequence {shortened(ids[int(np.argmin(something))])!r} are missing; leave it out")
