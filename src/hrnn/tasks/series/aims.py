"""--readout mean: one loss for each sequence, of the mean of its logits, learned while segments are forgotten as they end.

The mean is known only when a sequence has ended, and by then restricted gradients have let its segments go. So the network
goes through a batch twice: first it only says what it would answer; then every step learns the gradient of that answer's loss,
which is the same for all steps of a sequence. With one update for a batch this is the gradient of the loss of the mean,
exactly; where levels move on the way, the answer is that of the weights before the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import overload

import torch
from torch import Tensor

from hrnn.tasks.series.judging import Readout
from hrnn.tasks.windows import Batch, Window

Said = Iterable[tuple[Window, Tensor, bool]]  # windows, their logits (time, rows, outputs), and whether sequences begin there
Loss = Callable[[Tensor, Tensor], Tensor]  # answers (1, rows, outputs) and targets (1, rows) to values (1, rows)


class Aimed(Sequence[Window]):
    """A batch's windows, whose targets are what `aims` (rows, 2 + outputs) says: see below."""

    def __init__(self, windows: Sequence[Window], aims: Tensor):
        self.windows, self.aims = windows, aims

    def __len__(self) -> int:
        return len(self.windows)

    @overload
    def __getitem__(self, place: int) -> Window: ...
    @overload
    def __getitem__(self, place: slice) -> list[Window]: ...
    def __getitem__(self, place: int | slice) -> Window | list[Window]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        window = self.windows[place]
        steps, rows = window.x.shape[:2]
        return replace(window, y=self.aims[:rows].expand(steps, -1, -1))


def aims(batch: Batch, said: Said, loss: Loss) -> Tensor:
    """(rows, 2 + outputs) the loss of the sequence's mean logits, the target that there was, and the gradient of the loss with
    respect to the mean."""
    readout, answers = Readout(last=False), torch.zeros(0)
    for window, logits, fresh in said:
        if fresh:
            answers = logits.new_zeros(logits.shape[1:])
        found, rows = readout.add(window, logits, fresh)
        answers[rows] = found.to(answers.dtype)
    target = batch.windows[0].y[:1]  # that of a sequence is the same at all of its steps
    with torch.enable_grad():
        leaf = answers[None].requires_grad_()
        values = loss(leaf, target)
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return torch.cat([values.detach()[0, :, None], target[0, :, None].to(leaf.dtype), gradient[0]], 1)


def towards(logits: Tensor, aims: Tensor) -> Tensor:
    """One value for each (step, row): that of the sequence, which has the gradient of the sequence's loss."""
    values, gradient = aims[..., 0], aims[..., 2:]
    return values + (gradient * (logits - logits.detach())).sum(-1)
