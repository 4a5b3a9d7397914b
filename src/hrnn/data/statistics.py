"""Mean and scale of channels, which values occur: gathered block by block, missing values left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.sequences import Sequences
from hrnn.data.splits import Spans

Floats = NDArray[np.float64]
CONSTANT = 1e-8  # a deviation below this share of the mean is rounding: float32 has no such differences
SAMPLE = 1_000_000  # differences of time that are looked at for the typical one


@dataclass
class Moments:
    """Count, mean and sum of squared deviations of each channel, so far."""

    count: Floats
    mean: Floats
    squares: Floats

    @staticmethod
    def of(channels: int) -> Moments:
        return Moments(np.zeros(channels), np.zeros(channels), np.zeros(channels))

    def add(self, values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> None:
        """(steps, channels)"""
        values = np.asarray(values, np.float64)
        there = np.isfinite(values) if missing is None else np.isfinite(values) & ~missing
        values, count = np.where(there, values, 0), there.sum(0)
        mean = values.sum(0) / np.maximum(count, 1)
        squares = (np.where(there, values - mean, 0) ** 2).sum(0)
        total, away = self.count + count, mean - self.mean
        self.squares += squares + away**2 * self.count * count / np.maximum(total, 1)
        self.mean += away * count / np.maximum(total, 1)
        self.count = total

    @property
    def scale(self) -> Floats:
        """Standard deviations; 1 for what does not vary."""
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(deviation > CONSTANT * np.abs(self.mean), deviation, 1.0)


def moments(sequences: Sequences, spans: Spans) -> tuple[Moments, NDArray[np.int64]]:
    """Of the channels in some spans; and how many values of each are missing there."""
    found, missing = Moments.of(len(sequences.layout.channels)), np.zeros(len(sequences.layout.channels), np.int64)
    for steps in sequences.stretches(spans.numbers, spans.starts, spans.stops):
        values, absent, _ = sequences.across(steps)
        found.add(values, absent)
        if absent is not None:
            missing += absent.sum(0)
    return found, missing


def codes_met(sequences: Sequences, spans: Spans, channel: int | None, size: int) -> NDArray[np.bool_]:
    """(size,) which codes of a categorical channel, or of tokens (None), occur in some spans."""
    met = np.zeros(size, bool)
    for steps in sequences.stretches(spans.numbers, spans.starts, spans.stops):
        values = sequences.across(steps)[0]
        met[np.unique(values if channel is None else values[:, channel]).astype(np.int64)] = True
    return met


def target_values(sequences: Sequences, spans: Spans, most: int) -> tuple[Floats, Moments]:
    """The different targets in some spans, or the first `most` + 1 of them, sorted; and their moments."""
    found, moments_ = np.zeros(0), Moments.of(1)
    facts = sequences.fact("target")
    if facts is not None:
        found = np.unique(facts[spans.numbers])
        moments_.add(facts[spans.numbers][:, None])
        return found, moments_
    for steps in sequences.stretches(spans.numbers, spans.starts, spans.stops):
        targets = sequences.across(steps)[2]
        assert targets is not None
        moments_.add(targets[:, None])
        if len(found) <= most:
            found = np.union1d(found, targets[np.isfinite(targets)])
    return found, moments_


def spacing(sequences: Sequences, spans: Spans) -> tuple[float, float, float]:
    """The typical (median), least and largest difference of times in some spans, of timestamps in seconds; zeros if there is
    none."""
    stretches = list(sequences.stretches(spans.numbers, spans.starts, spans.stops))
    every = max(1, sum(steps.stop - steps.start for steps in stretches) // SAMPLE)
    sample, least, most = list[NDArray[Any]](), np.inf, -np.inf
    for steps, after in zip(stretches, [*stretches[1:], None], strict=True):
        if after is not None and after.start == steps.stop:  # from block to block, too
            steps = slice(steps.start, steps.stop + 1)
        if (some := sequences.differences(steps)).size:
            sample.append(some[::every].copy())  # not a view, which would keep all of them
            least, most = min(least, float(some.min())), max(most, float(some.max()))
    return (float(np.median(np.concatenate(sample))), least, most) if sample else (0.0, 0.0, 0.0)
