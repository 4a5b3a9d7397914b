"""`Gradient`: what every method shares. A method fills in `differentiate`: how one window is run forward and backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from hrnn.arguments import shown
from hrnn.gradients.objective import Objective
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Chunk, Differentiated, Loss, Result, Window
from hrnn.hierarchy import HRNN
from hrnn.parallel import ALONE, Group
from hrnn.precision import without_autocast
from hrnn.state import State


class Gradient(ABC):
    """How the gradient of a window is computed. Methods are interchangeable: one signature, one objective, one result."""

    default_beta = 0.0  # where `betas` is None; methods that cut upward edges need local losses, and have 1

    def backward(
        self,
        model: HRNN,
        x: Shaped[Tensor, "outer inner *features"] | Iterable[Chunk],
        y: Shaped[Tensor, "outer inner *target"] | None = None,
        *,
        loss: Loss,
        betas: Sequence[float] | None = None,
        state: State | None = None,
        mask: Bool[Tensor, "outer inner"] | None = None,
        boundaries: Bool[Tensor, "..."] | None = None,
        lengths: Shaped[Tensor, " batch"] | Sequence[int] | None = None,
        reset: Bool[Tensor, "..."] | None = None,
        weight: float | None = None,
        local_weight: float | None = None,
        generator: torch.Generator | None = None,
        on_segment: Callable[[Differentiated], None] | None = None,
        updates: Updates | None = None,
        group: Group | None = None,
    ) -> Result:
        """Run one window forward and backward, and add to `.grad` of every parameter, as loss.backward() does.

        x, boundaries, lengths, reset, state: as in `HRNN.forward`. x may also be an iterable of `Chunk`s, so that a window
                      is never in memory as a whole; then y and the rest are in the chunks.
        y:            targets (time, batch, ...) of any dtype
        loss:         a function (output, target) -> one value per step and row, (steps, rows), as reduction="none" gives;
                      it may return a pair of that and a dict of values to be summed as metrics. It is called for blocks
                      (steps, rows, hidden) of the output; its own parameters get gradients too
        betas:        the weight of each local loss, one for each level below the top. 0: no local loss. None: 1 for each where
                      upward edges are cut (`Restricted`, `Synthetic`) and the model has decoders, otherwise 0
        mask:         bool (time, batch), true where there is a target; the loss never sees the other positions
        weight:       what each target's loss is multiplied by; by default one over the targets. Give it, and
                      local_weight, if several windows make one update or the window comes as an iterator
        local_weight: the same for local losses; by default one over the steps of all rows
        generator:    where the window's seed for sampled indices comes from; None is torch's own
        on_segment:   called with `Differentiated` whenever a level's ticks have been differentiated
        updates:      `Updates`: every level's parameters move as soon as its own segments have been differentiated, and nothing
                      of theirs is left in `.grad`. None: one gradient for the window, which the caller's optimizer uses
        group:        the processes that share the batch, as hrnn.parallel.join() returns them: what is known of the decoders'
                      targets is added up over them at the window's end. None: those of `updates`, or this process alone

        If anything fails, `.grad` and `state` are as before.
        """
        if group is not None and not isinstance(group, Group):
            raise TypeError(f"group is {shown(group)}; give what hrnn.parallel.join() returns, or None")
        window = Window(
            model, Chunk(x, y, mask, boundaries, lengths, reset), loss=loss, betas=betas, state=state, weight=weight,
            local_weight=local_weight, generator=generator, on_segment=on_segment, default_beta=self.default_beta,
        )  # fmt: skip
        allowed = self.allowed(updates, window, weight)
        objective = Objective(window, loss, allowed)
        with torch.no_grad(), without_autocast(model.device):
            after = self.differentiate(window, objective, allowed)
            objective.succeed(group or (updates.group if updates is not None else ALONE))
        return objective.result(after)

    def allowed(self, updates: Updates | None, window: Window, weight: float | None) -> Updates | None:
        """The updates that a window is to make, if the method can make any. `weight` is the user's."""
        if updates is not None:
            raise ValueError(
                f"updates were given to {type(self).__name__}: its gradient is complete only at the window's end; use "
                f"hrnn.Restricted, or step the optimizer after backward"
            )
        return None

    @abstractmethod
    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        """Go through the window's chunks, let the objective gather all gradients, and return the state after them."""
