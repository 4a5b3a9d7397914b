"""What an evaluation of series counts, as sums that processes can add up, and the metrics that people use, from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hrnn.data import Preprocessing
from hrnn.tasks.confusion import matrix, taken_for
from hrnn.tasks.contract import Judge
from hrnn.tasks.windows import Window

BINS, REACH = 2400, 12.0  # of the log-odds of a class, from -12 to 12
MOST_CURVES = 100  # classes up to which the area under each curve is taken


class Readout:
    """One answer for each sequence, from the logits of its steps: their mean, or those of the last step."""

    def __init__(self, last: bool):
        self.last = last
        self.total, self.count = torch.zeros(0, 0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)

    def add(self, window: Window, logits: Tensor, fresh: bool) -> tuple[Tensor, Tensor]:
        """One more window; returns the answers (n, outputs), float64, of sequences that end in it, and their rows (n,)."""
        steps, rows = logits.shape[:2]
        assert window.ends is not None
        ended = window.ends.any(0).nonzero()[:, 0]
        wide = logits.double()
        if self.last:
            at = window.ends[:, ended].int().argmax(0)
            return wide[at, ended], ended
        if fresh:
            self.total, self.count = wide.new_zeros(rows, logits.shape[2]), wide.new_zeros(rows)
        if window.lengths is not None:
            there = torch.arange(steps)[:, None] < window.lengths
            wide = wide * there[..., None]
        self.total = self.total[:rows] + wide.sum(0)
        self.count = self.count[:rows] + (steps if window.lengths is None else window.lengths)
        return self.total[ended] / self.count[ended, None], ended


def answered(readout: Readout | None, window: Window, logits: Tensor, fresh: bool) -> tuple[Tensor, Tensor]:
    """Answers (n, outputs) and their targets (n,): of the sequences that end in a window, or of its steps."""
    if readout is not None:
        answers, rows = readout.add(window, logits, fresh)
        return answers, window.y[0, rows]
    if window.there is None:
        return logits.flatten(0, 1), window.y.flatten()
    return logits[window.there], window.y[window.there]


class Classes(Judge):
    """Predicted classes beside true ones, of sequences (with a readout) or of steps."""

    def __init__(self, names: Sequence[str], readout: Readout | None):
        self.names, self.readout = names, readout
        self.classes = classes = len(names)
        self.sums = {"confusion": torch.zeros(classes, classes, dtype=torch.float64)}  # (true, predicted)
        if classes <= MOST_CURVES:
            self.sums["odds"] = torch.zeros(classes, 2, BINS, dtype=torch.float64)  # of each class, of others and of its own

    def add(self, window: Window, logits: Tensor, fresh: bool) -> None:
        answers, true = answered(self.readout, window, logits, fresh)
        if not len(true):
            return
        self.sums["confusion"] += taken_for(true, answers.argmax(-1), self.classes)
        if "odds" in self.sums:
            logs = answers.double().log_softmax(-1)
            odds = logs - torch.log1p(-logs.exp().clamp(max=1 - 1e-12))
            bins = ((odds + REACH) * (BINS / (2 * REACH))).long().clamp(0, BINS - 1)
            own = true[:, None] == torch.arange(self.classes)
            places = (torch.arange(self.classes) * 2 + own) * BINS + bins
            self.sums["odds"] += torch.bincount(places.flatten(), minlength=self.classes * 2 * BINS).view(self.classes, 2, BINS)

    def report(self) -> dict[str, float]:
        report = of_confusion(self.sums["confusion"].numpy())
        if "odds" in self.sums:
            found = [area for one in self.sums["odds"].numpy() if (area := area_under_curve(*one)) is not None]
            report |= {"auroc": float(np.mean(found))} if found else {}
        return report

    def details(self) -> dict[str, Any]:
        return matrix(self.names, self.sums["confusion"])


def of_confusion(confusion: np.ndarray) -> dict[str, float]:
    """Metrics of a matrix (true, predicted); classes that do not occur have no say in means over classes."""
    right, true, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    there, met = true > 0, (true + predicted) > 0
    scores = 2 * right / np.maximum(true + predicted, 1)
    return {
        "accuracy": float(right.sum() / max(1, confusion.sum())),
        "balanced_accuracy": float((right[there] / true[there]).mean()) if there.any() else 0.0,
        "macro_f1": float(scores[met].mean()) if met.any() else 0.0,
    }


def area_under_curve(others: np.ndarray, own: np.ndarray) -> float | None:
    """How often one of the class scores above one of the others, by counts in bins of rising scores; ties count half."""
    if not others.sum() or not own.sum():
        return None
    below = np.cumsum(others) - others
    return float((own * (below + others / 2)).sum() / (own.sum() * others.sum()))


class Numbers(Judge):
    """Errors of targets that are numbers, in the source's units."""

    def __init__(self, preprocessing: Preprocessing, readout: Readout | None):
        self.scale, self.readout = preprocessing.target_scale, readout
        self.sums = {"errors": torch.zeros(4, dtype=torch.float64)}  # absolute, squared, of the mean of training, count

    def add(self, window: Window, logits: Tensor, fresh: bool) -> None:
        answers, true = answered(self.readout, window, logits, fresh)
        error = (answers[:, 0].double() - true) * self.scale
        guess = (true.double() * self.scale).abs().sum()  # the mean of training is 0 there
        self.sums["errors"] += torch.stack([error.abs().sum(), (error**2).sum(), guess, torch.tensor(float(len(true)))])

    def report(self) -> dict[str, float]:
        absolute, squared, guess, count = self.sums["errors"].tolist()
        count = max(1.0, count)
        return {"mae": absolute / count, "rmse": (squared / count) ** 0.5, "mae_of_mean": guess / count}


class Forecasts(Judge):
    """Errors of the values that follow, by channel, beside those of taking the last value (naive).

    naive:   of each channel, the mean change in training, as the network reads it: what MASE divides by
    changes: of each channel, what the network's targets were divided by
    scale:   of each channel, in the source's units; None where sequences have their own, and errors in units would not add up
    """

    def __init__(self, naive: tuple[float, ...], changes: tuple[float, ...], scale: np.ndarray | None):
        self.naive, self.changes = torch.tensor(naive).double(), torch.tensor(changes).double()
        self.scale = None if scale is None else torch.from_numpy(scale)
        self.sums = {"errors": torch.zeros(5, len(naive), dtype=torch.float64)}  # ours, naive, their squares, count

    def add(self, window: Window, logits: Tensor, fresh: bool) -> None:
        y = window.y.double()
        known = ~y.isnan()
        if window.there is not None:
            known = known & window.there[..., None, None]
        y = y.nan_to_num()
        ours, naive = (logits.double().view_as(y) - y).abs() * known, y.abs() * known
        errors = torch.stack([ours, naive, ours**2, naive**2, known.double()])
        self.sums["errors"] += errors.view(5, -1, len(self.naive)).sum(1)

    def report(self) -> dict[str, float]:
        *sums, count = self.sums["errors"]
        met = count > 0
        means = [one[met] / count[met] for one in sums]
        ours, naive = (one * self.changes[met] for one in means[:2])
        scaled = {
            "mase": float((ours / self.naive[met]).mean()),
            "naive_mase": float((naive / self.naive[met]).mean()),
        }
        if self.scale is None:
            return scaled
        roots = [one.sqrt() * self.changes[met] * self.scale[met] for one in means[2:]]
        return scaled | {
            "mae": float((ours * self.scale[met]).mean()),
            "naive_mae": float((naive * self.scale[met]).mean()),
            "rmse": float(roots[0].mean()),
            "naive_rmse": float(roots[1].mean()),
        }
