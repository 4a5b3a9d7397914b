"""From logits to answers in the source's terms: classes with probabilities, numbers and forecasts in their units. One place for
arrays, files and streams, so that all say the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data import Preprocessing
from hrnn.tasks import Series

Floats = NDArray[np.float64]
Statistics = tuple[Floats, Floats]  # a sequence's own mean and scale


@dataclass(frozen=True)
class Answers:
    """What a run on series says.

    of: "sequence" (one answer when it has ended), "step" (one for each input), or "next" (what follows the last one)
    """

    task: Series

    @property
    def pre(self) -> Preprocessing:
        return self.task.learned

    @property
    def of(self) -> str:
        return "next" if self.pre.targets == "none" else self.pre.targets

    @property
    def running(self) -> bool:
        """Is an answer the mean of all logits so far?"""
        return self.of == "sequence" and self.task.readout != "last"

    @property
    def labels(self) -> tuple[str, ...]:
        """What the probabilities are of; nothing where answers are numbers."""
        if self.of != "next":
            return self.pre.classes
        if not self.pre.tokens or self.pre.complete:
            return self.pre.vocabularies[0] if self.pre.tokens else ()
        known, other = self.pre.vocabularies[0], "unknown"
        while other in known:  # a symbol of the data may be called so
            other = f"({other})"
        return (*known, other)

    @property
    def ahead(self) -> int:
        """Steps that a forecast of numbers reaches."""
        return (self.task.forecast or 1) * self.pre.patch if self.of == "next" and not self.pre.tokens else 0

    @property
    def names(self) -> list[str]:
        """Columns of answers."""
        if self.ahead:
            return [self.pre.channels[place] for place in self.pre.numeric]
        return ["prediction", *(f"p_{label}" for label in self.labels)]

    def columns(self, logits: Floats, last: NDArray[Any], statistics: Statistics | None) -> dict[str, NDArray[Any]]:
        """Answers by column. logits: (n, outputs); last: (n, inputs) that they were made after, of one sequence. A forecast has
        `ahead` rows for each."""
        if self.ahead:
            return dict(zip(self.names, self.forecast(logits, last, statistics).reshape(-1, len(self.names)).T, strict=True))
        if not self.labels:
            return {"prediction": self.pre.undo_target(logits[:, 0])}
        shares = probabilities(logits)
        chosen = np.array(self.labels, dtype=object)[shares.argmax(1)]
        return {"prediction": chosen, **{f"p_{label}": shares[:, place] for place, label in enumerate(self.labels)}}

    def forecast(self, logits: Floats, last: NDArray[Any], statistics: Statistics | None) -> Floats:
        """(n, ahead, channels) in the source's units."""
        pre = self.pre
        channels, first = len(pre.numeric), (pre.patch - 1) * pre.width
        since = last[:, None, first : first + channels].astype(np.float64)
        changes = logits.reshape(len(logits), -1, channels) * np.array(self.task.changed)
        return pre.undo(since + changes, statistics)


def probabilities(logits: Floats) -> Floats:
    """(n, classes) that sum to 1."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares: Floats = powers / powers.sum(1, keepdims=True)
    return shares
