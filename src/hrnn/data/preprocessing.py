"""How a source's values become a network's inputs, and its outputs the source's values again: learned on the training part,
stored as JSON, the same for whatever comes later."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import shown
from hrnn.data.times import TimeKind
from hrnn.errors import UserError
from hrnn.formats import check_format, numbered
from hrnn.limits import Limit, at_least, built, option

Floats = NDArray[np.float64]
MANY = Limit(entries=1 << 22)


@dataclass(frozen=True)
class Preprocessing:
    """What was learned. Channels that are numbers come first among the inputs, in their order; then perhaps their changes since
    the last step, which of some were missing, the log of the time since the last step, and the categories of each categorical
    channel, one-hot.

    channels:     of the source, by name and in this order
    kinds:        of each channel: "number", or "category"; or of the one channel of tokens "token"
    vocabularies: what the codes of each channel stand for, empty for numbers
    complete:     does the vocabulary of tokens hold whatever may come? Otherwise one more code stands for what is unknown
    normalise:    by "channel" (mean and scale of the training part), by "sequence" (each its own), or "none"
    mean, scale:  of each channel; 0 and 1 for categories
    changes:      of each channel that is a number, what its change since the last step is divided by, if that is an input;
                  empty if not
    masked:       channels that say, in one of their own, where values were missing
    interval:     the usual difference of times, if the time since the last step is an input; 0 if not
    times:        what these are: "timestamps", whose interval is in seconds, or "numbers"; None if the time is no input
    patch:        so many steps of the source are one of the inputs
    rate:         samples per second, of audio; 0 otherwise
    targets:      "sequence", "step" or "none"
    target_kind:  "class", "number" or "none"
    target_name:  the column it came from
    classes:      their names, in the order of the outputs
    target_mean, target_scale: of targets that are numbers
    """

    channels: tuple[str, ...] = option((), MANY)
    kinds: tuple[Literal["number", "category", "token"], ...] = option((), MANY)
    vocabularies: tuple[tuple[str, ...], ...] = option((), MANY)
    complete: bool = False
    normalise: Literal["channel", "sequence", "none"] = "channel"
    mean: tuple[float, ...] = option((), MANY)
    scale: tuple[float, ...] = option((), MANY)
    changes: tuple[float, ...] = option((), MANY)
    masked: tuple[str, ...] = option((), MANY)
    interval: float = option(0.0, at_least(0))
    times: TimeKind | None = None
    patch: int = option(1, at_least(1))
    rate: int = option(0, at_least(0))
    targets: Literal["sequence", "step", "none"] = "none"
    target_kind: Literal["class", "number", "none"] = "none"
    target_name: str = ""
    classes: tuple[str, ...] = option((), MANY)
    target_mean: float = 0.0
    target_scale: float = 1.0

    # What goes in

    @property
    def tokens(self) -> int:
        """How many symbols there are, what is unknown included; 0 if inputs are vectors."""
        return len(self.vocabularies[0]) + (not self.complete) if self.kinds == ("token",) else 0

    @cached_property
    def numeric(self) -> NDArray[np.int64]:
        """Places of the channels that are numbers."""
        return np.array([place for place, kind in enumerate(self.kinds) if kind == "number"], np.int64)

    @cached_property
    def width(self) -> int:
        """Of an input vector, before steps are put together; 0 for tokens."""
        if self.tokens:
            return 0
        categories = sum(
            len(entries) + 1 for entries, kind in zip(self.vocabularies, self.kinds, strict=True) if kind == "category"
        )
        return len(self.numeric) + len(self.changes) + len(self.masked) + (self.interval > 0) + categories

    @property
    def inputs(self) -> int:
        """Size of the network's input vectors; 0 for tokens."""
        return self.width * self.patch

    def apply(self, values: NDArray[Any], statistics: tuple[Floats, Floats] | None = None) -> Floats:
        """Numeric channels (..., channels) as inputs; nan, a value before the first, is 0.

        statistics: mean and scale of the sequence, if it is normalised by its own
        """
        mean, scale = self.statistics(statistics)
        applied: Floats = (np.asarray(values, np.float64) - mean) / scale
        applied[np.isnan(applied)] = 0
        return applied

    def undo(self, values: NDArray[Any], statistics: tuple[Floats, Floats] | None = None) -> Floats:
        """The source's numbers again; the last axis has the numeric channels."""
        mean, scale = self.statistics(statistics)
        undone: Floats = np.asarray(values, np.float64) * scale + mean
        return undone

    def statistics(self, own: tuple[Floats, Floats] | None = None) -> tuple[Floats, Floats]:
        """Mean and scale of the numeric channels."""
        if self.normalise == "sequence":
            if own is None:
                raise ValueError("normalise is 'sequence'; give the sequence's own mean and scale")
            return own
        return np.array(self.mean)[self.numeric], np.array(self.scale)[self.numeric]

    # What comes out

    @property
    def outputs(self) -> int:
        """Classes, or 1 for numbers; 0 without targets."""
        return len(self.classes) if self.target_kind == "class" else int(self.target_kind == "number")

    def apply_target(self, values: NDArray[Any]) -> Floats:
        """Targets that are numbers, as the network learns them."""
        applied: Floats = (np.asarray(values, np.float64) - self.target_mean) / self.target_scale
        return applied

    def undo_target(self, values: NDArray[Any]) -> Floats:
        undone: Floats = np.asarray(values, np.float64) * self.target_scale + self.target_mean
        return undone

    # On disk

    def to_json(self) -> dict[str, Any]:
        return numbered("preprocessing", {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @staticmethod
    def from_json(entries: Any, where: str = "the preprocessing") -> Preprocessing:
        """What `to_json` returned, perhaps by way of a file; checked."""
        if not isinstance(entries, dict):
            raise UserError(f"{where} is {shown(entries)}; expected its entries by their names")
        rest = check_format("preprocessing", entries, where)
        fields = [field.name for field in dataclasses.fields(Preprocessing)]
        if missing := [name for name in fields if name not in rest]:
            raise UserError(f"{where} lacks {', '.join(missing)}")
        try:
            found = built(Preprocessing, rest, where)
        except UserError as error:
            raise UserError(f"{where} cannot be used: {str(error).replace('--', '')}") from None
        _check(found, where)
        return found


def _check(found: Preprocessing, where: str) -> None:
    """Entries that contradict each other."""
    count = len(found.channels)
    for name in ("kinds", "vocabularies", "mean", "scale"):
        if len(getattr(found, name)) != count or not count:
            raise UserError(f"{where} has {len(getattr(found, name))} {name} for {count} channels")
    with_entries = [bool(entries) for entries in found.vocabularies]
    wrong = [
        ("scale", any(not scale > 0 for scale in found.scale)),
        ("channels", len(set(found.channels)) < count),
        ("kinds", "token" in found.kinds and count > 1),
        ("vocabularies", [kind != "number" for kind in found.kinds] != with_entries),
        ("changes", len(found.changes) not in (0, len(found.numeric)) or any(not change > 0 for change in found.changes)),
        ("times", found.interval > 0 and found.times is None),
        ("masked", not set(found.masked) <= {found.channels[place] for place in found.numeric}),
        ("classes", len(set(found.classes)) < len(found.classes) or (len(found.classes) < 2) == (found.target_kind == "class")),
        ("target_kind", (found.targets == "none") != (found.target_kind == "none")),
        ("target_scale", not (found.target_scale > 0 and math.isfinite(found.target_scale))),
    ]
    for name, fault in wrong:
        if fault:
            raise UserError(f"{where} has {name} {shown(getattr(found, name))}, which does not fit the rest")
