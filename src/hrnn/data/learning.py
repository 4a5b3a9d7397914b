"""Preprocessing from the training part: means, vocabularies, classes. Others are only looked at for what training lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import flag, shown
from hrnn.data.preprocessing import Preprocessing
from hrnn.data.sequences import Sequences
from hrnn.data.splits import Spans
from hrnn.data.statistics import codes_met, moments, spacing, target_values
from hrnn.data.times import time_kind
from hrnn.errors import UserError, shortened
from hrnn.telling import working

MOST_CLASSES = 100  # whole numbers of more different values are amounts, unless somebody says otherwise
EXACT = 1 << 53  # whole numbers up to here are told apart by floats
IRREGULAR = 1.01  # the largest difference of times over the least, from where on it is one


def learn(
    sequences: Sequences,
    parts: Mapping[str, Spans],
    *,
    normalise: Literal["channel", "sequence", "none"] = "channel",
    patch: int = 1,
    intervals: bool | None = None,
    target: Literal["class", "number"] | None = None,
) -> Preprocessing:
    """What the training part says.

    parts:     as `split` gives them
    normalise: by "channel", by "sequence" (recordings of different loudness), or "none"
    patch:     so many steps of the source become one input (8 suits audio)
    intervals: the log of the time since the last step is an input; None: if times are irregular
    target:    what targets are; by default texts are classes, and whole numbers of at most 100 different values
    """
    layout, training = sequences.layout, parts["training"]
    if normalise not in ("channel", "sequence", "none"):
        raise UserError(f"normalise is {shown(normalise)}; give channel, sequence or none")
    if target not in (None, "class", "number"):
        raise UserError(f"target is {shown(target)}; give class or number, or None")
    if not isinstance(patch, int) or isinstance(patch, bool) or patch < 1 or (patch > 1 and layout.tokens):
        raise UserError(f"patch is {shown(patch)}; give a whole number of at least 1, and 1 for tokens")
    if intervals is not None:
        flag("intervals", intervals)
    entries: dict[str, Any] = {
        "channels": layout.channels,
        "normalise": normalise,
        "patch": patch,
        "rate": layout.rate or 0,
        "complete": layout.complete,
    }
    with working("looking at what there is to learn from"):
        entries |= _tokens(sequences, training) if layout.tokens else _vectors(sequences, training)
    if normalise == "none":
        entries |= {"mean": (0.0,) * len(layout.channels), "scale": (1.0,) * len(layout.channels)}
    if not layout.tokens:
        entries |= _interval(sequences, training, intervals)
    if layout.target is not None:
        entries |= _targets(sequences, parts, target)
    return Preprocessing(**entries)


def _tokens(sequences: Sequences, training: Spans) -> dict[str, Any]:
    vocabulary = sequences.vocabularies[sequences.layout.channels[0]]
    if not sequences.layout.complete:
        met = codes_met(sequences, training, None, len(vocabulary))
        vocabulary = sorted(entry for entry, there in zip(vocabulary, met, strict=True) if there)
    return {"kinds": ("token",), "vocabularies": (tuple(vocabulary),), "mean": (0.0,), "scale": (1.0,), "normalise": "none"}


def _vectors(sequences: Sequences, training: Spans) -> dict[str, Any]:
    layout = sequences.layout
    if rounded := lossy(sequences):
        raise UserError(f"{rounded[0]}; subtract an offset from it, e.g. its first value, or leave it out")
    found, missing = moments(sequences, training)
    mean, scale = found.mean, found.scale
    vocabularies = list[tuple[str, ...]]()
    for place, name in enumerate(layout.channels):
        if name in layout.categorical:
            mean[place], scale[place] = 0.0, 1.0
            entries = sequences.vocabularies[name]
            met = codes_met(sequences, training, place, len(entries))
            vocabularies.append(tuple(sorted(entry for entry, there in zip(entries, met, strict=True) if there)))
        else:
            if not found.count[place]:
                raise UserError(f"all values of channel {name!r} are missing in the training part; leave the channel out")
            vocabularies.append(())
    return {
        "kinds": tuple("category" if name in layout.categorical else "number" for name in layout.channels),
        "vocabularies": tuple(vocabularies),
        "mean": tuple(mean.tolist()),
        "scale": tuple(scale.tolist()),
        "masked": tuple(name for name, count in zip(layout.channels, missing, strict=True) if count),
    }


def lossy(sequences: Sequences) -> list[str]:
    """Channels of which float32 leaves too little, in words: large numbers that hardly differ."""
    shares = sequences.manifest.get("lost") or [0.0] * len(sequences.layout.channels)
    return [
        f"channel {name!r} has large values that hardly differ: float32, as networks have it, rounds them by up to "
        f"{share:.0%} of their range"
        for name, share in zip(sequences.layout.channels, shares, strict=True)
        if share
    ]


def _interval(sequences: Sequences, training: Spans, wanted: bool | None) -> dict[str, Any]:
    if sequences.layout.time is None and wanted:
        raise UserError("intervals are asked for, and the sequences have no times; name the column of times")
    if sequences.layout.time is None or wanted is False:
        return {}
    typical, least, most = spacing(sequences, training)
    read = typical > 0 and (wanted or most > IRREGULAR * least)
    return {"interval": typical, "times": time_kind(sequences.layout.time)} if read else {}


def class_name(value: float) -> str:
    """A class that is a number, as text."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _targets(sequences: Sequences, parts: Mapping[str, Spans], wanted: str | None) -> dict[str, Any]:
    layout, labels = sequences.layout, sequences.labels["target"]
    values, found = target_values(sequences, parts["training"], MOST_CLASSES if wanted != "class" else 1 << 20)
    kind = wanted
    if kind is None:
        whole = bool(np.all(values == np.round(values))) and len(values) <= MOST_CLASSES
        kind = "class" if labels is not None or whole else "number"
    entries = {"targets": layout.target, "target_kind": kind, "target_name": layout.target_name or ""}
    if kind == "number":
        if labels is not None:
            raise UserError(f"target is 'number', and {layout.target_name} holds texts such as {shortened(labels[0])!r}")
        return entries | {"target_mean": float(found.mean[0]), "target_scale": float(found.scale[0])}
    if labels is None and (large := values[np.abs(values) >= EXACT]).size:
        raise UserError(
            f"{layout.target_name} has classes such as {class_name(float(large[0]))}, and whole numbers from {EXACT:,} on are "
            "not told apart; write them as texts, e.g. with a letter in front"
        )
    if len(values) < 2:
        only = f" ({_name(values[0], labels)!r})" if len(values) else ""
        raise UserError(f"the training part has one class only{only}; give at least two, or another split")
    names = tuple(sorted(_name(v, labels) for v in values) if labels is not None else [_name(v, None) for v in values])
    for part, spans in parts.items():
        strange = np.setdiff1d(target_values(sequences, spans, 1 << 20)[0], values)
        if part != "training" and strange.size:
            raise UserError(
                f"class {_name(strange[0], labels)!r} occurs in {part} only, and training has none of it; split otherwise, or "
                f"leave it out"
            )
    return entries | {"classes": names}


def _name(value: Any, labels: list[str] | None) -> str:
    return class_name(float(value)) if labels is None else labels[int(value)]


def class_codes(sequences: Sequences, classes: tuple[str, ...], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Targets as places among the classes; -1 where there is none."""
    labels, places = sequences.labels["target"], {name: place for place, name in enumerate(classes)}
    if labels is not None:
        table = np.array([places.get(label, -1) for label in labels] + [-1])
        codes: NDArray[np.int64] = table[np.where(np.isfinite(values), values, len(labels)).astype(np.int64)]
        return codes
    met, back = np.unique(values, return_inverse=True)
    return np.array([places.get(class_name(value), -1) if np.isfinite(value) else -1 for value in met], np.int64)[back]
