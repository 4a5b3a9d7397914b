"""A stream of blocks -> arrays on disk: one pass as the blocks come; then, only if need be, one that brings the steps of each
sequence together, and one that fills in missing values. Each holds a block in memory, and a few numbers for each sequence."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.filling import check_times, fill
from hrnn.data.grouping import bring_together
from hrnn.data.growing import GrowingArray, save
from hrnn.data.source import Block, Stream
from hrnn.errors import UserError, shortened
from hrnn.files import remove
from hrnn.telling import working

ROUNDING = 2.0**-24  # of a value, to the nearest in float32
LOST = 0.01  # of a channel's range: where float32 rounds values by more, too little of them is left
VALUES, TIMES, TARGETS, RUNS = "values.npy", "times.npy", "step_targets.npy", "runs.npy"


class _Steps:
    """What is written as blocks come."""

    def __init__(self, stream: Stream, folder: Path, closing: ExitStack):
        self.stream, self.folder, self.layout, self.closing = stream, folder, stream.layout, closing
        channels = len(self.layout.channels)
        self.files: dict[str, GrowingArray] = {}
        self.values = self._file(
            VALUES, np.uint8 if self.layout.tokens else np.float32, () if self.layout.tokens else (channels,)
        )
        self.lengths = np.zeros(1024, np.int64)
        self.missing = np.zeros(channels, np.int64)
        self.least, self.most, self.rounded = np.full(channels, np.inf), np.full(channels, -np.inf), np.zeros(channels)
        self.runs = self._open(RUNS, np.int32, (2,))  # as they come: number of the sequence, steps
        self.last = -1
        self.together = True  # do the steps of each sequence follow each other?

    def _file(self, name: str, dtype: Any, shape: tuple[int, ...] = ()) -> GrowingArray:
        self.files[name] = self._open(name, dtype, shape)
        return self.files[name]

    def _open(self, name: str, dtype: Any, shape: tuple[int, ...]) -> GrowingArray:
        array = GrowingArray(self.folder / name, dtype, shape)
        self.closing.callback(array.close)
        return array

    def add(self, block: Block) -> None:
        self._count(block)
        if self.layout.tokens:
            if block.values.max(initial=0) > np.iinfo(self.values.dtype).max:
                self.values.widen(np.min_scalar_type(int(block.values.max())))
            self.values.append(block.values)
        else:
            self.values.append(self._numbers(block))
        for name, entries in ((TIMES, block.times), (TARGETS, block.targets)):
            if entries is not None:
                dtype = entries.dtype if name == TIMES else np.float64
                (self.files.get(name) or self._file(name, dtype)).append(entries)

    def _count(self, block: Block) -> None:
        steps = np.diff(np.append(block.starts, block.steps))
        while block.numbers.max() >= len(self.lengths):
            self.lengths = np.concatenate([self.lengths, np.zeros_like(self.lengths)])
        changes = block.numbers[1:] if block.numbers[0] == self.last else block.numbers
        self.together = self.together and not self.lengths[changes].any() and len(np.unique(changes)) == len(changes)
        np.add.at(self.lengths, block.numbers, steps)
        self.last = int(block.numbers[-1])
        self.runs.append(np.stack([block.numbers, steps], axis=1))

    def _numbers(self, block: Block) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            values = block.values.astype(np.float32)
        finite = np.isfinite(values)
        if not finite.all():
            absent = np.isnan(values)
            self.missing += absent.sum(0)
            if not (finite | absent).all():
                step, channel = np.argwhere(~(finite | absent))[0]
                place = np.searchsorted(block.starts, step, side="right") - 1
                who = self.stream.register.ids.entries[block.numbers[place]]
                what = "an infinite value" if np.isinf(block.values[step, channel]) else "a value beyond float32"
                raise UserError(
                    f"channel {self.layout.channels[channel]!r} of sequence {shortened(who)!r} has {what} "
                    f"({block.values[step, channel]:g}); clean it, or leave it empty"
                )
        if block.values.dtype != np.float32:
            self._note_rounding(np.ascontiguousarray(block.values.T), values.T)
        return values

    def _note_rounding(self, exact: NDArray[Any], kept: NDArray[np.float32]) -> None:
        """(channels, steps). Where even the largest value is rounded by little, nothing more need be looked at."""
        self.least = np.fmin(self.least, np.fmin.reduce(exact, axis=1))
        self.most = np.fmax(self.most, np.fmax.reduce(exact, axis=1))
        perhaps = np.fmax(-self.least, self.most) * ROUNDING > LOST * (self.most - self.least)
        if perhaps.any():
            away = np.fmax.reduce(np.abs(exact[perhaps] - kept[perhaps]), axis=1)
            self.rounded[perhaps] = np.fmax(self.rounded[perhaps], away)

    @property
    def lost(self) -> list[float]:
        """Of each channel the share of its range by which float32 rounds values, at most; 0 where that is little, or all values
        are the same."""
        spans = np.where(self.most > self.least, self.most - self.least, np.inf)
        return [float(share) if share > LOST else 0.0 for share in self.rounded / spans]


def write(stream: Stream, folder: Path, sort_budget: int) -> dict[str, Any]:
    """Write everything that a cache holds but for its own description, which is returned."""
    with ExitStack() as closing, working("reading data") as at:
        steps, total = _Steps(stream, folder, closing), 0
        for block in stream.blocks:
            if block.steps:
                steps.add(block)
                total += block.steps
                at(f"{total:,} steps")
    ids = stream.register.ids.entries
    lengths = steps.lengths[: len(ids)]
    if not ids:
        raise UserError("there are no sequences; give data with at least one")
    if not lengths.all():
        raise UserError(f"sequence {shortened(ids[int(np.argmin(lengths))])!r} is empty; leave it out")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if not steps.together:
        with working("bringing the steps of each sequence together"):
            bring_together([folder / name for name in steps.files], folder / RUNS, offsets, sort_budget)
    remove(folder / RUNS)
    spacing = check_times(folder / TIMES, offsets, ids) if TIMES in steps.files else None
    if steps.missing.any():
        with working("filling in missing values"):
            fill(folder / VALUES, folder / "missing.npy", offsets, ids)
    save(folder / "offsets.npy", offsets)
    _save_ids(folder, ids)
    facts = _save_facts(stream, folder, len(ids))
    return {
        "layout": asdict(stream.layout),
        "vocabularies": {name: vocabulary.entries for name, vocabulary in stream.vocabularies.items()},
        "labels": None if stream.labels is None else stream.labels.entries,
        "facts": facts,
        "sequences": len(ids),
        "steps": int(offsets[-1]),
        "missing": steps.missing.tolist(),
        "lost": steps.lost,
        "spacing": spacing,
    }


def _save_ids(folder: Path, ids: list[str]) -> None:
    """One text after the other, and where each ends."""
    texts = [name.encode("utf-8", "surrogatepass") for name in ids]
    save(folder / "ids.npy", np.frombuffer(b"".join(texts), np.uint8))
    save(folder / "id_ends.npy", np.cumsum([len(text) for text in texts], dtype=np.int64))


def _save_facts(stream: Stream, folder: Path, count: int) -> dict[str, list[str] | None]:
    """The labels of each fact that is known, None where it is a number."""
    known = {}
    for name, fact in stream.register.facts.items():
        values = np.full(count, np.nan)
        there = fact.values[:count]
        values[: len(there)] = there
        if np.isnan(values).any():
            which = stream.register.ids.entries[int(np.argmax(np.isnan(values)))]
            raise UserError(f"sequence {shortened(which)!r} has no {name}, and others have; give it one, or leave it out")
        save(folder / f"{name}.npy", values)
        known[name] = None if fact.labels is None else fact.labels.entries
    return known
