"""What a source holds: lengths, channels, missing values, times and gaps, targets. For people to read before they train."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hrnn.data.caching import cache
from hrnn.data.learning import IRREGULAR, MOST_CLASSES, class_name, lossy
from hrnn.data.sequences import Sequences
from hrnn.data.source import Source
from hrnn.data.splits import whole
from hrnn.data.statistics import moments, spacing, target_values
from hrnn.data.times import time_kind

GAP = 1.5  # usual differences of time, from where on steps are missing
FAR = 30  # standard deviations of a mean or a scale from where it is known to harm


@dataclass(frozen=True)
class Channel:
    """kind: "number", "category" or "token". missing: how many values. values: different ones, of categories and tokens."""

    name: str
    kind: str
    missing: int = 0
    mean: float | None = None
    scale: float | None = None
    values: int | None = None


@dataclass(frozen=True)
class Times:
    """type: "number" or that of a timestamp. usual, least, most: differences of neighbours, of timestamps in seconds. gaps:
    differences of more than 1.5 usual ones."""

    type: str
    usual: float
    least: float
    most: float
    gaps: int

    @property
    def irregular(self) -> bool:
        return self.most > IRREGULAR * self.least


@dataclass(frozen=True)
class Targets:
    """of: "sequence" or "step". classes: how many sequences or steps of each, or None; numbers: mean and scale, or None."""

    of: str
    name: str | None
    classes: dict[str, int] | None = None
    numbers: tuple[float, float] | None = None


@dataclass(frozen=True)
class Description:
    """lengths: the shortest, the median and the longest. bytes: of the cache's values. parts, groups: sequences of each part,
    number of groups. warnings: what is known to harm."""

    sequences: int
    steps: int
    lengths: tuple[int, float, int]
    channels: tuple[Channel, ...]
    bytes: int
    times: Times | None = None
    targets: Targets | None = None
    rate: int | None = None
    parts: dict[str, int] = field(default_factory=dict)
    groups: int = 0
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For a terminal."""
        low, median, high = self.lengths
        lines = [f"{self.sequences:,} sequence(s), {self.steps:,} steps; lengths {low:,} to {high:,}, median {median:,.0f}"]
        if self.rate:
            lines.append(f"{self.rate:,} samples a second")
        for one in self.channels[:20]:
            about = f"mean {one.mean:.4g}, scale {one.scale:.4g}" if one.mean is not None else f"{one.values:,} different"
            lines.append(f"  {one.name}: {one.kind}, {about}" + (f", {one.missing:,} missing" if one.missing else ""))
        if len(self.channels) > 20:
            lines.append(f"  and {len(self.channels) - 20:,} more channels")
        if self.times is not None:
            regular = "irregular" if self.times.irregular else "regular"
            usual = f"{self.times.usual:g}{' s' if time_kind(self.times.type) == 'timestamps' else ''}"
            lines.append(f"times ({self.times.type}): {regular}, usually {usual} apart, {self.times.gaps:,} gap(s)")
        if self.targets is not None and self.targets.classes is not None:
            counts = ", ".join(f"{name} {count:,}" for name, count in list(self.targets.classes.items())[:20])
            lines.append(f"{len(self.targets.classes)} classes, one for each {self.targets.of}: {counts}")
        elif self.targets is not None and self.targets.numbers is not None:
            mean, scale = self.targets.numbers
            lines.append(f"a number for each {self.targets.of}, mean {mean:.4g}, scale {scale:.4g}")
        if self.parts:
            lines.append("parts: " + ", ".join(f"{name} {count:,}" for name, count in self.parts.items()))
        return lines + [f"warning: {words}" for words in self.warnings]


def inspect(source: Source, folder: str | Path | None = None) -> Description:
    """Read a source once and describe it. folder: where its cache is to be left; None: nowhere."""
    return describe(cache(source, folder))


def describe(sequences: Sequences) -> Description:
    """All parts together."""
    layout, everything = sequences.layout, whole(sequences)
    channels = _tokens(sequences) if layout.tokens else _vectors(sequences)
    targets = _targets(sequences)
    codes, labels = sequences.fact("part"), sequences.labels.get("part")
    parts = {} if codes is None or labels is None else {name: int((codes == code).sum()) for code, name in enumerate(labels)}
    lengths = sequences.lengths
    times = None
    if layout.time is not None:
        usual, least, most = spacing(sequences, everything)
        stretches = sequences.stretches(everything.numbers, everything.starts, everything.stops)
        gaps = sum(int((sequences.differences(steps) > GAP * usual).sum()) for steps in stretches)
        times = Times(layout.time, usual, least, most, gaps)
    return Description(
        sequences=len(sequences),
        steps=int(lengths.sum()),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        channels=channels,
        bytes=sequences.read(0).itemsize * int(lengths.sum()) * len(layout.channels),
        times=times,
        targets=targets,
        rate=layout.rate,
        parts=parts,
        groups=len(sequences.labels.get("group") or ()),
        warnings=(*lossy(sequences), *_warnings(channels, targets)),
    )


def _tokens(sequences: Sequences) -> tuple[Channel, ...]:
    name = sequences.layout.channels[0]
    return (Channel(name, "token", values=len(sequences.vocabularies[name])),)


def _vectors(sequences: Sequences) -> tuple[Channel, ...]:
    found, missing = moments(sequences, whole(sequences))
    return tuple(
        Channel(name, "category", values=len(sequences.vocabularies[name]))
        if name in sequences.layout.categorical
        else Channel(name, "number", int(missing[place]), float(found.mean[place]), float(found.scale[place]))
        for place, name in enumerate(sequences.layout.channels)
    )


def _targets(sequences: Sequences) -> Targets | None:
    of, name, labels = sequences.layout.target, sequences.layout.target_name, sequences.labels.get("target")
    if of is None:
        return None
    everything = whole(sequences)
    values, found = target_values(sequences, everything, MOST_CLASSES)
    if labels is None and (len(values) > MOST_CLASSES or (values != np.round(values)).any()):
        return Targets(of, name, numbers=(float(found.mean[0]), float(found.scale[0])))
    facts, counts = sequences.fact("target"), np.zeros(len(values), np.int64)
    if facts is not None:
        counts += np.bincount(np.searchsorted(values, facts), minlength=len(values))
    else:
        for steps in sequences.stretches(everything.numbers, everything.starts, everything.stops):
            targets = sequences.across(steps)[2]
            assert targets is not None
            counts += np.bincount(np.searchsorted(values, targets[np.isfinite(targets)]), minlength=len(values))
    names = [class_name(value) if labels is None else labels[int(value)] for value in values]
    return Targets(
        of,
        name,
        classes=dict(sorted(zip(names, counts.tolist(), strict=True)))
        if labels
        else dict(zip(names, counts.tolist(), strict=True)),
    )


def _warnings(channels: tuple[Channel, ...], targets: Targets | None) -> list[str]:
    found = []
    for one in channels:
        if one.mean is not None and one.scale is not None and (one.scale > FAR or abs(one.mean) > FAR * one.scale):
            found.append(f"channel {one.name!r} is far from mean 0 and scale 1; do not train with normalise 'none'")
    if targets is not None and targets.classes is not None:
        counts = targets.classes.values()
        if len(counts) < 2:
            found.append("there is one class only")
        elif max(counts) > 10 * min(counts):
            found.append(
                f"the largest class has {max(counts) / max(1, min(counts)):.0f} times as many as the smallest; weight them"
            )
    return found
