"""Gradients of summaries, predicted while a segment ends, and learned from when the level above runs backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hrnn.gradients.gathered import muted
from hrnn.gradients.objective import Objective
from hrnn.gradients.window import Window


class Predictions:
    """One window's. networks: for each level below the top, from a summary (n, hidden) to its gradient (n, hidden).

    A network predicts in units of `window.weight`: the gradient of the sum of losses, whatever it is multiplied by. What it has
    to learn is the mean over features of the squared error; as a local loss, it counts for as many steps as the segment spans.
    """

    def __init__(self, window: Window, objective: Objective, networks: Sequence[nn.Module]):
        self.objective, self.networks = objective, networks
        self.unit = window.weight or 1.0
        self.share = window.local_weight
        if self.share is None:
            raise ValueError(
                "local_weight is needed for Synthetic where the window comes as an iterator; give 1/(steps * batch): it says "
                "what a step counts for"
            )

    def gradient(self, level: int, summary: Tensor) -> Tensor:
        """Of the summaries (n, hidden) of complete segments."""
        with torch.no_grad():
            predicted: Tensor = self.networks[level](summary)
        return predicted * self.unit

    def learn(self, level: int, summary: Tensor, gradient: Tensor, span: Tensor) -> None:
        """From the gradients (n, hidden) that the level above has found for the summaries (n, hidden) it had read, of segments
        that span so many steps (n,); 0: it read nothing."""
        network = self.networks[level]
        parameters = [p for p in network.parameters() if p.requires_grad]
        if not parameters:
            return
        with torch.enable_grad(), muted(parameters):
            error = (network(summary.detach().clone()) - gradient / self.unit).square().mean(-1)
            loss = (error * span.to(error.dtype)).sum() * self.share
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, part in zip(parameters, found, strict=True):
            self.objective.gathered.add(parameter, part)
