"""What a decoder is asked to recover, in running statistics: local losses are divided by what they say, so that one beta suits
all data, and rare symbols can count for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hrnn.precision import summed_in, wide

KEPT = 0.99  # of what was known before, after each window
LEAST_VARIANCE, LEAST_ENTROPY = 1e-6, 0.1  # what a local loss is divided by, at least
MOST = 100.0  # times what a symbol of mean frequency counts for: rarer ones are hardly ever seen
SYMBOL_WEIGHTS = ("equal", "inverse")


@dataclass(frozen=True)
class Scale:
    """Constants of a window. A local loss is multiplied by `factor`; each symbol's part of it by its own weight."""

    factor: float = 1.0
    weights: Tensor | None = None  # (symbols,)
    features: Tensor | None = None  # (features,) what each one's squared error is multiplied by, where that differs

    def of(self, targets: Tensor) -> Tensor | None:
        """What each target counts for; None: the same."""
        return None if self.weights is None else self.weights[targets]


class Statistics(nn.Module):
    """Of the targets of one decoder: for vectors how many they were, their mean and their variance, pooled over features; for
    tokens how often each was seen. Each counts for as many steps as its error does, and windows are forgotten slowly.

    A window divides by what was known at its start; before the first one nothing is known, and the loss stays as it is. In
    evaluation mode nothing is learned, as in batch normalisation. They stay in float32 where the model goes to half precision:
    a window changes them by less than that can tell, and counts grow beyond it.
    """

    seen: Tensor
    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, outputs: int, *, tokens: bool, normalized: bool, weighted: bool, halves: int = 0):
        super().__init__()
        self.tokens, self.normalized, self.weighted = tokens, normalized, weighted
        self.halves = [halves, outputs - halves] if halves else [outputs]
        if tokens:
            self.register_buffer("seen", torch.empty(outputs))
        else:
            self.register_buffer("count", torch.empty(()))
            self.register_buffer("mean", torch.empty(outputs))
            self.register_buffer("variance", torch.empty([len(self.halves)] * (len(self.halves) > 1)))
        self.reset()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Statistics:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in self._buffers.items():
            old = before[name]
            if buffer is not None and old is not None and buffer.dtype != summed_in(buffer.dtype):
                self._buffers[name] = old.to(buffer.device)
        return self

    def reset(self) -> None:
        """Nothing is known."""
        for buffer in self.buffers():
            buffer.zero_()

    def scale(self) -> Scale:
        """What they say now."""
        return self._of_tokens() if self.tokens else self._of_vectors()

    def _of_vectors(self) -> Scale:
        if not self.normalized or not float(self.count):
            return Scale()
        if len(self.halves) == 1:
            return Scale(1 / max(float(self.variance), LEAST_VARIANCE))
        each = 1 / self.variance.clamp(min=LEAST_VARIANCE)
        return Scale(features=each.repeat_interleave(torch.tensor(self.halves, device=each.device)))

    def _of_tokens(self) -> Scale:
        seen = self.seen.to("cpu", torch.float64)
        if not bool(seen.any()):
            return Scale()
        share = seen / seen.sum()
        weights = None
        if self.weighted:
            weights = 1 / share.clamp(min=1 / (MOST * int((seen > 0).sum())))
            weights = weights / (share * weights).sum()  # their mean is 1
            share = share * weights
        entropy = float(torch.special.entr(share).sum())  # what guessing by frequency costs
        factor = 1 / max(entropy, LEAST_ENTROPY) if self.normalized else 1.0
        return Scale(factor, None if weights is None else weights.to(self.seen))

    def gathered(self) -> Tensor:
        """Sums of a window, before any: for `add`, to be added up over processes, for `commit`."""
        count = len(self.seen) if self.tokens else len(self.mean) + 1 + len(self.halves)
        return torch.zeros(count, dtype=torch.float64)

    def add(self, sums: Tensor, targets: Tensor, weight: Tensor | float) -> None:
        """Add targets (m, n, ...), each counting for `weight`, (m, n) or a number."""
        flat = targets.flatten(0, 1)
        if self.tokens:
            flat = flat.clamp(0, len(sums) - 1)  # they were in range when they were checked
            each = weight.flatten().double() if isinstance(weight, Tensor) else None
            counts = torch.bincount(flat, each, minlength=len(sums)).to("cpu", torch.float64)
            sums += counts if isinstance(weight, Tensor) else counts * weight
            return
        flat = wide(flat)
        if isinstance(weight, Tensor):
            each = weight.flatten()[:, None].to(flat)
            total = each.sum()
            mean = (flat * each).sum(0) / total
            apart = (flat - mean).square_().mul_(each).sum(0)
        else:
            total = flat.new_full((), weight * len(flat))
            mean = flat.mean(0)
            apart = (flat - mean).square_().sum(0) * weight
        # About their own mean in the model's precision, and only then about zero: nothing cancels out.
        total, mean, apart = (part.to("cpu", torch.float64) for part in (total, mean, apart))
        sums[0] += total
        sums[1 : 1 + len(mean)] += total * mean
        sums[1 + len(mean) :] += self._means(apart + total * mean.square())

    def _means(self, features: Tensor) -> Tensor:
        """Of each half of the features."""
        return torch.stack([part.mean() for part in features.split(self.halves)])

    def commit(self, sums: Tensor) -> None:
        """A window has succeeded: what it saw is known from now on, unless it is not finite."""
        if not self.training or not bool(sums.isfinite().all()) or not bool(sums.any()):
            return
        if self.tokens:
            self.seen.mul_(KEPT).add_(sums.to(self.seen))
            return
        count, mean, variance = (buffer.to("cpu", torch.float64) for buffer in (self.count, self.mean, self.variance))
        before = KEPT * count
        now = before + sums[0]
        middle = (before * mean + sums[1 : 1 + len(mean)]) / now
        squares = (before * (variance + self._means(mean.square())) + sums[1 + len(mean) :]) / now
        self.count.copy_(now)
        self.mean.copy_(middle)
        self.variance.copy_((squares - self._means(middle.square())).clamp(min=0).view_as(self.variance))
