"""What decoders recover: of the input j ticks back, how much is lost on the way into a summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hrnn.decoders import Decoder, counted
from hrnn.executor import Ended
from hrnn.precision import wide

AT_ONCE = 1 << 18  # numbers of the lowest level's outputs


def pieces(x: Tensor, lengths: Any, reset: Tensor | None, steps: int) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """A window's inputs so many steps at a time, with what is left of lengths and resets."""
    counts = None if lengths is None else torch.as_tensor(lengths)
    for first in range(0, len(x), steps):
        some = x[first : first + steps]
        left = None if counts is None else (counts - first).clamp(0, len(some))
        starts = reset if reset is None or reset.dim() > 1 or first == 0 else None
        yield some, left, starts if starts is None or starts.dim() == 1 else starts[first : first + steps]


class Recovery:
    """Gathers, for one decoder, losses by index beside those of guessing: of the mean, or by the frequency of tokens."""

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        size = int(decoder.layers[-1].out_features)  # type: ignore[arg-type]
        self.losses = torch.zeros(decoder.reach, dtype=torch.float64)
        self.sums = torch.zeros(decoder.reach, size, dtype=torch.float64)  # of targets; of tokens, how often each was seen
        self.squares = torch.zeros(decoder.reach, dtype=torch.float64)
        self.counts = torch.zeros(decoder.reach, dtype=torch.float64)

    def add(self, ended: Ended) -> None:
        """Segments that ended."""
        decoder, n = self.decoder, len(ended.row)
        index = torch.arange(1, decoder.reach + 1, device=ended.row.device)[:, None].expand(-1, n)
        there = (index <= ended.ticks).expand(index.shape)
        targets, decoded = counted(ended.recent(index), index, ended.ticks, decoder.reach), wide(decoder(ended.summary, index))
        if decoder.tokens:
            losses = F.cross_entropy(decoded.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
            values = F.one_hot(targets, decoded.shape[-1]).double()
        else:
            values = targets.double()
            losses = (decoded - values).square().mean(-1)
        self.losses += losses.double().where(there, 0.0).sum(1).cpu()
        values = values * there[..., None]
        self.sums += values.sum(1).cpu()
        self.squares += values.square().mean(-1).sum(1).cpu()
        self.counts += there.sum(1).cpu()

    def lost(self) -> Tensor:
        """(reach,): what is lost of the input j ticks back, j from 1: 0 is nothing, 1 as much as by guessing, taken over all
        indices as the local loss is (the last pixel of every image row may hardly vary); nan where no segment was so long, or
        there was nothing to guess."""
        total = self.counts.sum()
        means, squares = self.sums.sum(0) / total, self.squares.sum() / total
        guessed = torch.special.entr(means).sum() if self.decoder.tokens else squares - means.square().mean()
        return torch.where((self.counts > 0) & (guessed > 1e-12 * squares), self.losses / self.counts / guessed, torch.nan)
