"""A part as a network reads it: inputs and targets of its rows, preprocessed as they are asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.columns import check_column
from hrnn.data.learning import class_codes, class_name
from hrnn.data.names import code, codes_of
from hrnn.data.preprocessing import Preprocessing
from hrnn.data.sequences import Sequences
from hrnn.data.source import Numbers
from hrnn.data.splits import Spans, whole
from hrnn.data.statistics import Floats, Moments, target_values
from hrnn.data.times import per_second, time_kind
from hrnn.errors import UserError, shortened


class Part:
    """Rows 0..len-1, one for each span. Steps are counted in inputs: `patch` steps of the source each, the last one perhaps
    filled up with zeros.

    lengths: (rows,) inputs of each
    """

    def __init__(self, sequences: Sequences, preprocessing: Preprocessing, spans: Spans | None = None):
        """spans: by default every sequence, from beginning to end"""
        self.sequences, self.preprocessing = sequences, preprocessing
        self.spans = whole(sequences) if spans is None else spans
        self.lengths: Numbers = -(-self.spans.lengths // preprocessing.patch)
        self._places = _places(sequences, preprocessing)
        self._own: dict[int, tuple[Floats, Floats]] = {}

    def __len__(self) -> int:
        return len(self.spans)

    def id(self, row: int) -> str:
        return self.sequences.id(int(self.spans.numbers[row]))

    # Inputs

    def inputs(self, row: int, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Inputs start..stop-1 of a row: float32 (steps, inputs), or int64 (steps,) tokens."""
        number, first, last = self._steps(row, start, stop)
        pre = self.preprocessing
        raw = self.sequences.read(number, first, last)
        if pre.tokens:
            tokens: Numbers = self._tables[0][raw]
            return tokens
        columns: list[NDArray[Any]] = [pre.apply(raw[:, self._places[pre.numeric]], self._statistics(row))]
        if pre.changes:
            columns.append(self._changes(row, number, first, columns[0]))
        if pre.masked:
            missing = self.sequences.missing(number, first, last)
            places = [self._places[pre.channels.index(name)] for name in pre.masked]
            columns.append(np.zeros((last - first, len(places))) if missing is None else missing[:, places])
        if pre.interval:
            columns.append(self._intervals(number, first, last)[:, None])
        for place, kind in enumerate(pre.kinds):
            if kind == "category":
                codes = self._tables[place][raw[:, self._places[place]].astype(np.int64)]
                columns.append(np.eye(len(pre.vocabularies[place]) + 1, dtype=np.float32)[codes])
        steps = columns[0].astype(np.float32) if len(columns) == 1 else np.concatenate(columns, axis=1, dtype=np.float32)
        return self._patched(steps)

    def numbers(self, row: int, start: int = 0, stop: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The numeric channels of inputs start..stop-1, (steps, patch * channels), and which of them are there."""
        number, first, last = self._steps(row, start, stop)
        places = self._places[self.preprocessing.numeric]
        raw = self.sequences.read(number, first, last)[:, places]
        missing = self.sequences.missing(number, first, last)
        there = np.isfinite(raw) if missing is None else np.isfinite(raw) & ~missing[:, places]
        applied = self.preprocessing.apply(raw, self._statistics(row)).astype(np.float32)
        return self._patched(applied), self._patched(there)

    def _steps(self, row: int, start: int, stop: int | None) -> tuple[int, int, int]:
        """Sequence, and steps of the source."""
        length, patch = int(self.lengths[row]), self.preprocessing.patch
        stop = length if stop is None else stop
        if not 0 <= start <= stop <= length:
            raise IndexError(f"inputs {start} to {stop} of a row of {length}")
        begin, end = int(self.spans.starts[row]), int(self.spans.stops[row])
        return int(self.spans.numbers[row]), begin + start * patch, min(begin + stop * patch, end)

    def _patched(self, steps: NDArray[Any]) -> NDArray[Any]:
        patch = self.preprocessing.patch
        if patch == 1:
            return steps
        if lacking := -len(steps) % patch:
            steps = np.concatenate([steps, np.zeros((lacking, steps.shape[1]), steps.dtype)])
        return steps.reshape(-1, patch * steps.shape[1])

    def _changes(self, row: int, number: int, first: int, applied: Floats) -> Floats:
        """Of steps from `first` on, since the step before, in usual ones; 0 at a sequence's first."""
        pre, before = self.preprocessing, applied[:1]
        if first:
            raw = self.sequences.read(number, first - 1, first)[:, self._places[self.preprocessing.numeric]]
            before = pre.apply(raw, self._statistics(row))
        changes: Floats = np.diff(np.concatenate([before, applied])[: len(applied) + 1], axis=0) / np.array(pre.changes)
        return changes

    def _intervals(self, number: int, first: int, last: int) -> Floats:
        """The log of the time since the step before, in usual ones; 0 at a sequence's first."""
        times = self.sequences.times(number, max(first - 1, 0), last)
        assert times is not None
        unit = per_second(self.sequences.layout.time) if self.preprocessing.times == "timestamps" else 1
        logs = np.log(np.diff(np.asarray(times)) / unit / self.preprocessing.interval)
        return np.concatenate([[0.0], logs])[: last - first] if first == 0 else logs

    def _statistics(self, row: int) -> tuple[Floats, Floats] | None:
        """A sequence's own mean and scale, where these are asked for; computed once."""
        if self.preprocessing.normalise != "sequence":
            return None
        if row not in self._own:
            number, places = int(self.spans.numbers[row]), self._places[self.preprocessing.numeric]
            found = Moments.of(len(places))
            for steps in self.sequences.stretches(*(np.array([n]) for n in (number, 0, int(self.spans.known[row])))):
                values, missing, _ = self.sequences.across(steps)
                found.add(values[:, places], None if missing is None else missing[:, places])
            self._own[row] = found.mean, found.scale
        return self._own[row]

    @cached_property
    def _tables(self) -> dict[int, Numbers]:
        """By channel with a vocabulary: codes of the cache -> codes of the preprocessing, the last one for what is unknown."""
        pre, tables = self.preprocessing, {}
        for place, entries in enumerate(pre.vocabularies):
            if entries:
                known, cached = codes_of(entries), self.sequences.vocabularies[pre.channels[place]]
                tables[place] = np.array([code(known, entry, len(entries)) for entry in cached], np.int64)
        return tables

    # Targets

    def target(self, row: int) -> int | float:
        """Of a whole row: a class's number, or the normalised number."""
        facts = self.sequences.fact("target")
        if facts is None:
            raise UserError("the sequences have no target for each; give a target for each sequence")
        return self._targets(facts[self.spans.numbers[row : row + 1]])[0].item()  # type: ignore[no-any-return]

    def step_targets(self, row: int, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Of inputs start..stop-1: int64 classes, -1 where there is none; or float32, nan where there is none. That of an input
        is that of its last step."""
        number, first, last = self._steps(row, start, stop)
        targets = self.sequences.step_targets(number, first, last)
        if targets is None:
            raise UserError("the steps have no targets; give a target for each step")
        patch = self.preprocessing.patch
        ends = np.minimum(np.arange(patch - 1, len(targets) + patch - 1, patch), len(targets) - 1)
        return self._targets(np.asarray(targets)[ends])

    def class_counts(self) -> Numbers:
        """(classes,) how many rows, or steps of the source, have each class."""
        pre, facts = self.preprocessing, self.sequences.fact("target")
        counts = np.zeros(len(pre.classes), np.int64)
        if facts is not None:
            several = iter([facts[self.spans.numbers]])
        else:
            stretches = self.sequences.stretches(self.spans.numbers, self.spans.starts, self.spans.stops)
            several = (targets for steps in stretches if (targets := self.sequences.across(steps)[2]) is not None)
        for values in several:
            codes = class_codes(self.sequences, pre.classes, values)
            counts += np.bincount(codes[codes >= 0], minlength=len(counts))
        return counts

    def strange_class(self) -> str | None:
        """A class of some row or step that the preprocessing does not know."""
        pre, labels = self.preprocessing, self.sequences.labels["target"]
        values = target_values(self.sequences, self.spans, 1 << 20)[0]
        strange = values[class_codes(self.sequences, pre.classes, values) < 0]
        if not strange.size:
            return None
        return class_name(float(strange[0])) if labels is None else labels[int(strange[0])]

    def _targets(self, values: Floats) -> NDArray[Any]:
        pre = self.preprocessing
        if pre.target_kind == "class":
            return class_codes(self.sequences, pre.classes, values)
        return pre.apply_target(values).astype(np.float32)

    def next(self, row: int, start: int, stop: int, horizon: int = 1) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """What follows each of inputs start..stop-1, `horizon` inputs far, and what of it is known: (steps, horizon, numbers)
        of the numeric channels, or (steps, horizon) tokens. Behind the row's end and where values are missing nothing is."""
        last = min(stop + horizon, int(self.lengths[row]))
        if self.preprocessing.tokens:
            values: NDArray[Any] = self.inputs(row, min(start + 1, last), last)
            there = np.ones(len(values), bool)
        else:
            values, there = self.numbers(row, min(start + 1, last), last)
        if lacking := stop + horizon - 1 - start - len(values):
            behind = np.zeros((lacking, *values.shape[1:]), values.dtype)
            values, there = np.concatenate([values, behind]), np.concatenate([there, behind.astype(bool)])
        if horizon == 1:
            return values[:, None], there[:, None]
        places = np.arange(stop - start)[:, None] + np.arange(horizon)
        return values[places], there[places]

    def undo(self, row: int, values: NDArray[Any]) -> Floats:
        """Numbers of inputs (..., patch * channels) as the source has them, (..., patch, channels)."""
        channels = len(self.preprocessing.numeric)
        return self.preprocessing.undo(np.asarray(values).reshape(*values.shape[:-1], -1, channels), self._statistics(row))


def _places(sequences: Sequences, pre: Preprocessing) -> Numbers:
    """Where each channel of the preprocessing stands among the cache's, by name."""
    layout = sequences.layout
    if layout.tokens != bool(pre.tokens):
        now, before = ("tokens", "numbers") if layout.tokens else ("numbers", "tokens")
        raise UserError(f"the data hold {now}, and training had {before}; give data of the same kind")
    if (layout.rate or 0) != pre.rate:
        raise UserError(f"the data have {layout.rate or 0:,} samples a second, and training had {pre.rate:,}; resample them")
    for name, kind in zip(pre.channels, pre.kinds, strict=True):
        check_column(name, layout.channels, "the data", "values, which training had")
        if (kind == "category") != (name in layout.categorical):
            raise UserError(f"channel {shortened(name)!r} is of another type than in training, where it was a {kind}")
    if pre.interval:
        if layout.time is None:
            raise UserError("the data have no times, and training had; name the column of times")
        if pre.times != (now := time_kind(layout.time)):
            remedy = "numbers in the same unit" if pre.times == "numbers" else "timestamps, such as 2024-01-01 00:00:07"
            raise UserError(f"the times of the data are {now}, and training had {pre.times}; give {remedy}")
    return np.array([layout.channels.index(name) for name in pre.channels])
