"""Which class was taken for which: counted beside what a task reports anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hrnn.tasks.contract import Judge
from hrnn.tasks.windows import Window


def taken_for(true: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """Counts (true, predicted) of numbers of classes (n,) beside each other."""
    return torch.bincount(true * classes + predicted, minlength=classes**2).view(classes, classes)


def matrix(names: Sequence[str], counts: Tensor) -> dict[str, Any]:
    """The classes, and of each, in a row, how often it was taken for which, as JSON."""
    return {"classes": list(names), "confusion": counts.long().tolist()}


class Confusion(Judge):
    """Of targets that are classes, wherever one stands; it reports no number."""

    def __init__(self, names: Sequence[str]):
        self.names = names
        self.sums = {"confusion": torch.zeros(len(names), len(names), dtype=torch.float64)}  # (true, predicted)

    def add(self, window: Window, logits: Tensor, fresh: bool) -> None:
        true, answers = (one.flatten(0, 1) if window.there is None else one[window.there] for one in (window.y, logits))
        self.sums["confusion"] += taken_for(true, answers.argmax(-1), len(self.names))

    def report(self) -> dict[str, float]:
        return {}

    def details(self) -> dict[str, Any]:
        return matrix(self.names, self.sums["confusion"])
