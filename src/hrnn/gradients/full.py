"""`Full`: true gradients over the window, by autograd. Memory grows with the window."""

from __future__ import annotations

import torch
from torch import Tensor

from hrnn.forward import Ended, Forward
from hrnn.gradients.base import Gradient
from hrnn.gradients.gathered import leaves, muted
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Window
from hrnn.state import State


class Full(Gradient):
    """True gradients: backpropagation through the whole window, upward edges included.

    `on_segment` is told of every level once, at the end; `updates` are refused.
    """

    @torch.enable_grad()
    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        model, gathered = window.model, objective.gathered
        terms: list[Tensor | None] = []
        heads: dict[Tensor, None] = {}

        def listen(ended: Ended) -> None:
            terms.append(objective.local_loss(ended))

        forward = Forward(
            model.levels, model.periods, window.state, listen if any(window.betas) else None, shows_all=model.shows_all
        )
        for chunk in window:
            output = forward.feed(chunk.x, chunk.boundaries, chunk.lengths, chunk.reset)
            term = objective.task(output, chunk.y, chunk.mask)
            if term is not None:
                terms.append(term)
                heads |= dict.fromkeys(leaves([term], stop=output)[0])
        after = forward.close().detach()
        wanted: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        if window.given_x is not None:
            wanted.append(window.given_x)
        wanted += [leaf for leaf in heads if all(leaf is not other for other in wanted)]
        losses = [term for term in terms if term is not None and term.requires_grad]
        if losses and wanted:
            with muted(wanted):
                gradients = torch.autograd.grad(losses, wanted, allow_unused=True)
            for leaf, gradient in zip(wanted, gradients, strict=True):
                gathered.add(leaf, gradient)
        objective.tell(forward.steps)
        return after
