"""What is learned of series: classes, numbers, the next symbol or the next values, each with its loss, scores and words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hrnn.data import Part, Preprocessing
from hrnn.metrics import Metric
from hrnn.tasks.contract import ACCURACY, BITS_PER_NAT, Judge, cross_entropy
from hrnn.tasks.series.aims import aims, towards
from hrnn.tasks.series.baselines import of_forecasts, of_symbols
from hrnn.tasks.series.batches import Asked
from hrnn.tasks.series.judging import Classes, Forecasts, Numbers, Readout
from hrnn.tasks.windows import Batch, Window

BITS_PER_SYMBOL = Metric("bits_per_symbol", short="bits")
SQUARES = Metric("loss", unit="squared error")
CLASS_METRICS = ("balanced_accuracy", "macro_f1", "auroc", "step_accuracy")

Values = tuple[Tensor, dict[str, Tensor]]
ReadoutName = Literal["every", "mean", "last"]


class Objective(ABC):
    """One answer to what a series task learns; `hrnn.tasks.contract.Task` says what its parts mean."""

    pre: Preprocessing

    @property
    @abstractmethod
    def asked(self) -> Asked: ...

    @property
    @abstractmethod
    def outputs(self) -> int: ...

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]: ...

    @property
    @abstractmethod
    def purpose(self) -> str:
        """What is learned, in words."""

    @abstractmethod
    def loss(self, logits: Tensor, target: Tensor) -> Values: ...

    def aims(self, batch: Batch, said: Callable[[], Iterator[tuple[Window, Tensor, bool]]]) -> Tensor | None:
        return None

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {}

    def judge(self) -> Judge | None:
        return None

    def baselines(self, rows: Callable[[str], Part], part: str) -> dict[str, float]:
        """rows: reads a part; training data may be gone, and most need none."""
        return {}


@dataclass(frozen=True)
class GivenTargets(Objective):
    """A target that the data have, for each sequence or step.

    readout: for one target a sequence, as `Series.readout` has it
    """

    pre: Preprocessing
    readout: ReadoutName

    @property
    def asked(self) -> Asked:
        return Asked(self.pre.targets, last=self.of_sequences and self.readout == "last")  # type: ignore[arg-type]

    @property
    def of_sequences(self) -> bool:
        return self.pre.targets == "sequence"

    @property
    def outputs(self) -> int:
        return self.pre.outputs

    @property
    def purpose(self) -> str:
        return f"{self.what} for each {self.pre.targets} ({self.pre.target_name or 'target'})"

    @property
    @abstractmethod
    def what(self) -> str: ...

    @abstractmethod
    def values(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of each (step, row)."""

    def counted(self, logits: Tensor, target: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """What is summed beside the loss."""
        return {}

    def loss(self, logits: Tensor, target: Tensor) -> Values:
        if target.dim() == 3:  # of a batch that is aimed
            values, target = towards(logits, target), target[..., 1]
        else:
            values = self.values(logits, target)
        return values, self.counted(logits, target, values.dtype)

    def aims(self, batch: Batch, said: Callable[[], Iterator[tuple[Window, Tensor, bool]]]) -> Tensor | None:
        return aims(batch, said(), self.values) if self.of_sequences and self.readout == "mean" else None

    def reading_out(self) -> Readout | None:
        return Readout(self.readout == "last") if self.of_sequences else None


@dataclass(frozen=True)
class OneOfClasses(GivenTargets):
    """weights: of each class, what its loss is multiplied with; none: all count the same"""

    weights: tuple[float, ...] = ()

    @property
    def what(self) -> str:
        return f"one of {len(self.pre.classes)} classes"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (ACCURACY, *(Metric(name, higher_is_better=True, least=0, most=1) for name in CLASS_METRICS))

    def values(self, logits: Tensor, target: Tensor) -> Tensor:
        values = cross_entropy(logits, target)
        return values * torch.tensor(self.weights, dtype=values.dtype)[target] if self.weights else values

    def counted(self, logits: Tensor, target: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        return right(logits, target, dtype)

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {"step_accuracy" if self.of_sequences else "accuracy": sums["right"] / targets}

    def judge(self) -> Judge:
        return Classes(self.pre.classes, self.reading_out())


@dataclass(frozen=True)
class Number(GivenTargets):
    what = "a number"
    metrics = (Metric("mae"), Metric("rmse"), Metric("mae_of_mean"), SQUARES)

    def values(self, logits: Tensor, target: Tensor) -> Tensor:
        return (logits[..., 0] - target) ** 2

    def judge(self) -> Judge:
        return Numbers(self.pre, self.reading_out())


@dataclass(frozen=True)
class NextSymbol(Objective):
    pre: Preprocessing
    asked = Asked("next")
    metrics = (BITS_PER_SYMBOL, ACCURACY)
    purpose = "what comes next, 1 input(s) ahead"

    @property
    def outputs(self) -> int:
        return self.pre.tokens

    def loss(self, logits: Tensor, target: Tensor) -> Values:
        values = cross_entropy(logits, target)
        return values, right(logits, target, values.dtype)

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {"bits_per_symbol": sums["loss"] / targets * BITS_PER_NAT, "accuracy": sums["right"] / targets}

    def baselines(self, rows: Callable[[str], Part], part: str) -> dict[str, float]:
        return of_symbols(rows("training"), rows(part))


@dataclass(frozen=True)
class NextValues(Objective):
    """The next `horizon` inputs.

    naive, changes: of each channel, as `hrnn.tasks.series.judging.Forecasts` has them
    season:         steps of a season, for the seasonal naive forecast; None: there is none
    """

    pre: Preprocessing
    horizon: int
    naive: tuple[float, ...]
    changes: tuple[float, ...]
    season: int | None

    @property
    def asked(self) -> Asked:
        return Asked("next", self.horizon, changes=self.changes)

    @property
    def outputs(self) -> int:
        return self.horizon * self.pre.patch * len(self.pre.numeric)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        in_units = () if self.pre.normalise == "sequence" else ("mae", "naive_mae", "rmse", "naive_rmse")
        return (*map(Metric, ("mase", "naive_mase", *in_units)), SQUARES)

    @property
    def purpose(self) -> str:
        return f"what comes next, {self.horizon} input(s) ahead"

    def loss(self, logits: Tensor, target: Tensor) -> Values:
        known = ~target.isnan()
        squares = torch.where(known, logits.view_as(target) - target.nan_to_num(), 0) ** 2
        return squares.sum((-2, -1)) / known.sum((-2, -1)).clamp(min=1), {}

    def judge(self) -> Judge:
        pre = self.pre
        scale = {"channel": np.array(pre.scale)[pre.numeric], "none": np.ones(len(pre.numeric)), "sequence": None}
        return Forecasts(self.naive, self.changes, scale[pre.normalise])

    def baselines(self, rows: Callable[[str], Part], part: str) -> dict[str, float]:
        return {} if self.season is None else of_forecasts(rows(part), self.naive, self.season, self.horizon)


def right(logits: Tensor, target: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    return {"right": (logits.argmax(-1) == target).to(dtype)}
