"""Local losses: a small network must recover a level's recent inputs from the one hidden state that it sends up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.statistics import Scale, Statistics
from hrnn.unchanged import unchanged

INDICES = ("sampled", "all")


class Decoder(nn.Module):
    """Feed-forward, from a summary and an index j in 1..reach to the level's j-th most recent input.

    outputs: how many numbers an input has, or symbols where `tokens`. `layers` counts weight layers, so that the paper's
    two-layer network is one hidden layer of `units` and an output layer. The one-hot index enters the first layer; its
    product is a row of `index`, and the summary's product is shared by all indices.

    normalized: its loss is divided by the variance of what it is to recover, or the entropy of tokens; 1 is then what is lost
    by guessing the mean, or by frequency. weighted: tokens count for the inverse of their frequency. halves: where an input is
    two things, the size of the first, each of which is divided by its own variance. See `Statistics`.
    """

    def __init__(
        self,
        summary: int,
        outputs: int,
        reach: int,
        *,
        tokens: bool,
        layers: int = 2,
        units: int = 256,
        indices: str = "all",
        normalized: bool = True,
        weighted: bool = False,
        halves: int = 0,
    ):
        super().__init__()
        self.reach, self.tokens, self.indices = reach, tokens, indices
        sizes = [summary, *[units] * (layers - 1), outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.index = nn.Parameter(torch.empty(reach, sizes[1]))
        self.statistics: Statistics | None = None
        if normalized or weighted:
            self.statistics = Statistics(outputs, tokens=tokens, normalized=normalized, weighted=weighted, halves=halves)
        self._reset_first()

    def _reset_first(self) -> None:
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        bound = (first.in_features + self.reach) ** -0.5  # both parts of the first layer as one layer over their concatenation
        for parameter in (first.weight, first.bias, self.index):
            nn.init.uniform_(parameter, -bound, bound)

    def reset_parameters(self) -> None:
        """Draw all parameters anew, e.g. after `to_empty`, and forget all statistics."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        if self.statistics is not None:
            self.statistics.reset()
        self._reset_first()

    @property
    def plain(self) -> bool:
        """Is it as it was made? Then `hrnn.decoding` is right; a layer that was changed (parametrised, pruned, replaced, given
        hooks) is left to autograd."""
        modules = [self, self.layers, *self.layers]
        kinds = [Decoder, nn.ModuleList, *[nn.Linear] * len(self.layers)]
        return unchanged(modules, kinds, 2 * len(self.layers) + 1)

    def draw(self, seed: int, level: int, row: Tensor, ordinal: Tensor, ticks: Tensor | int) -> Tensor:
        """The indices (m, n) to decode for n segments: m is 1 or reach. `ticks` is how many inputs each segment had;
        indices beyond them or beyond the reach are not drawn, or, where all are decoded, do not count."""
        if self.indices == "all":
            return torch.arange(1, self.reach + 1, device=row.device)[:, None].expand(-1, row.shape[0])
        most = torch.as_tensor(ticks, device=row.device).clamp(max=self.reach)
        return (segment_hash(seed, level, row, ordinal) % most + 1)[None]

    def forward(self, summary: Tensor, index: Tensor) -> Tensor:
        """summary (n, hidden) and index (m, n) to (m, n, outputs): logits of tokens, or vectors."""
        x: Tensor = self.layers[0](summary) + F.embedding(index - 1, self.index)
        for layer in list(self.layers)[1:]:
            x = layer(F.relu(x))
        return x

    def shares(self, index: Tensor, ticks: Tensor | int) -> Tensor | float:
        """What each index (m, n) is of its segment's mean, (m, n) or one number for all."""
        if index.shape[0] == 1 or (isinstance(ticks, int) and ticks >= self.reach):
            return 1 / index.shape[0]
        counts = (index <= ticks).to(self.index.dtype)
        return counts / counts.sum(0)

    def loss(
        self,
        summary: Tensor,
        index: Tensor,
        targets: Tensor,
        ticks: Tensor | int,
        decode: Callable[..., Tensor] | None = None,
        scale: Scale | None = None,
    ) -> Tensor:
        """The local loss (n,) of n segments, the mean over decoded indices and features. targets: (m, n, ...). `decode` may
        stand for the module itself. Of the scale, only the weights of symbols are applied."""
        decoded = (decode or self)(summary, index)
        if self.tokens:
            values = F.cross_entropy(decoded.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
        else:
            errors = (decoded - targets).square()
            values = (errors if scale is None or scale.features is None else errors * scale.features).mean(-1)
        if scale is not None and (weights := scale.of(targets)) is not None:
            values = values * weights
        if index.shape[0] == 1:
            return values[0]
        if isinstance(ticks, int) and ticks >= self.reach:
            return values.mean(0)
        counts = index <= ticks
        return values.where(counts, 0.0).sum(0) / counts.sum(0)


def counted(targets: Tensor, index: Tensor, ticks: Tensor | int, reach: int) -> Tensor:
    """Targets (m, n, ...) with zeros where a segment had no such input: what stands there is of an older one, whose numbers may
    be none (0 times nan is nan)."""
    if isinstance(ticks, int) and ticks >= reach:
        return targets
    there = index <= ticks
    return targets.where(there.view(*there.shape, *[1] * (targets.dim() - 2)), 0)


def segment_hash(seed: int, level: int, row: Tensor, ordinal: Tensor) -> Tensor:
    """A non-negative 63-bit hash of each segment, whatever order, batch or process it is computed in (splitmix64)."""
    x = _mix(row.new_full((), seed))
    for part in (level, row, ordinal):
        x = _mix(x + part)
    return x & 0x7FFFFFFFFFFFFFFF


_GOLDEN = 0x9E3779B97F4A7C15 - 2**64


def _mix(x: Tensor) -> Tensor:
    x = x + _GOLDEN
    x = (x ^ _shift(x, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    x = (x ^ _shift(x, 27)) * (0x94D049BB133111EB - 2**64)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: torch's keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
