"""`Full`: true gradients over the window, by autograd. Memory grows with the window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from hrnn.arguments import shown
from hrnn.forward import Ended, Run
from hrnn.gradients.gathered import leaves, muted
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Chunk, Differentiated, Loss, Result, Window
from hrnn.hierarchy import HRNN
from hrnn.precision import without_autocast
from hrnn.state import State


class Full:
    """True gradients: backpropagation through the whole window, upward edges included."""

    def backward(
        self,
        model: HRNN,
        x: Tensor | Iterable[Chunk],
        y: Tensor | None = None,
        *,
        loss: Loss,
        betas: Sequence[float] | None = None,
        state: State | None = None,
        mask: Tensor | None = None,
        boundaries: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
        weight: float | None = None,
        local_weight: float | None = None,
        generator: torch.Generator | None = None,
        on_segment: Callable[[Differentiated], None] | None = None,
        updates: Updates | None = None,
    ) -> Result:
        """Run one window forward and backward; arguments and result as in `Restricted.backward`. `on_segment` is told of
        every level once, at the end; `updates` is refused."""
        if on_segment is not None and not callable(on_segment):
            raise TypeError(f"on_segment is {shown(on_segment)}; give a function of hrnn.gradients' Differentiated, or None")
        if updates is not None:
            raise ValueError(
                "updates were given to Full: a true gradient is complete only at the window's end; use hrnn.Restricted, or "
                "step the optimizer after backward"
            )
        window = Window(
            model, x, y, loss=loss, betas=betas, state=state, mask=mask, boundaries=boundaries, lengths=lengths,
            reset=reset, weight=weight, local_weight=local_weight, generator=generator,
        )  # fmt: skip
        objective = Objective(window, loss)
        terms: list[Tensor] = []
        heads: dict[Tensor, None] = {}

        def listen(ended: Ended) -> None:
            term = objective.local_loss(ended)
            if term is not None:
                terms.append(term)

        with torch.enable_grad(), without_autocast(model.device):
            run = Run(model, window.state, listen if any(window.betas) else None)
            steps = 0
            for chunk in window:
                output = run.feed(chunk.x, chunk.boundaries, chunk.lengths, chunk.reset)
                steps += output.shape[0]
                term = objective.task(output, chunk.y, chunk.mask)
                if term is not None:
                    terms.append(term)
                    heads |= dict.fromkeys(leaves([term], stop=output)[0])
            after = run.close().detach()
            gathered = objective.gathered
            wanted: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
            if window.given_x is not None:
                wanted.append(window.given_x)
            wanted += [leaf for leaf in heads if all(leaf is not other for other in wanted)]
            loss_terms = [term for term in terms if term.requires_grad]
            if loss_terms and wanted:
                with muted(wanted):
                    gradients = torch.autograd.grad(loss_terms, wanted, allow_unused=True)
                for leaf, gradient in zip(wanted, gradients, strict=True):
                    gathered.add(leaf, gradient)
        if on_segment is not None:
            for level, cell in enumerate(model.cells):
                own = [p for p in cell.parameters() if p in gathered.sums]
                on_segment(Differentiated(level, steps, partial(gathered.only, own)))
        objective.succeed()
        return objective.result(after)
