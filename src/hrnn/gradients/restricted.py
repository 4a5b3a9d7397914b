"""`Restricted`: gradients that are not sent back along the upward edges, each segment differentiated as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from hrnn.arguments import shown, whole
from hrnn.forward import phase
from hrnn.gradients.dense import Dense
from hrnn.gradients.objective import Objective
from hrnn.gradients.rounds import Rounds
from hrnn.gradients.updates import Mover, Updates, check_updates
from hrnn.gradients.window import Chunk, Differentiated, Loss, Result, Window
from hrnn.hierarchy import HRNN
from hrnn.precision import without_autocast
from hrnn.state import State


class Restricted:
    """Restricted gradients, in memory of about the sum of the periods plus twice the top level's ticks.

    round_steps: where rows tick at different times (given boundaries, `lengths`, `reset`), how many steps are run forward
    before what is complete is differentiated. None is four times the lowest level's period or reach. It bounds the memory
    and changes nothing else.
    """

    def __init__(self, round_steps: int | None = None):
        self.round_steps = (
            None if round_steps is None else whole("round_steps", round_steps, remedy="at least 1, or None for a default")
        )

    @torch.no_grad()
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
        """Run one window forward and backward, and add to `.grad` of every parameter, as loss.backward() does.

        x, boundaries, lengths, reset, state: as in `HRNN.forward`. x may also be an iterable of `Chunk`s, so that a window
                      is never in memory as a whole; then y and the rest are in the chunks.
        y:            targets (time, batch, ...) of any dtype
        loss:         a function (output, target) -> one value per step and row, (steps, rows), as reduction="none" gives;
                      it may return a pair of that and a dict of values to be summed as metrics. It is called for blocks
                      (steps, rows, hidden) of the output; its own parameters get gradients too
        betas:        the weight of each local loss, one for each level below the top; None is all zero
        mask:         bool (time, batch), true where there is a target; the loss never sees the other positions
        weight:       what each target's loss is multiplied by; by default one over the targets. Give it, and
                      local_weight, if several windows make one update or the window comes as an iterator
        local_weight: the same for local losses; by default one over the steps of all rows
        generator:    where the window's seed for sampled indices comes from; None is torch's own
        on_segment:   called with `Differentiated` whenever a level's ticks have been differentiated
        updates:      `Updates`: every level's parameters move as soon as its own segments have been differentiated, and nothing
                      of theirs is left in `.grad`. None: one gradient for the window, which the caller's optimizer uses

        If anything fails, `.grad` and `state` are as before.
        """
        window = Window(
            model, x, y, loss=loss, betas=betas, state=state, mask=mask, boundaries=boundaries, lengths=lengths,
            reset=reset, weight=weight, local_weight=local_weight, generator=generator,
        )  # fmt: skip
        if on_segment is not None and not callable(on_segment):
            raise TypeError(f"on_segment is {shown(on_segment)}; give a function of hrnn.gradients' Differentiated, or None")
        if updates is not None:
            check_updates(updates, model, window.state.batch, weight, window.local_weight)
        objective = Objective(window, loss)
        mover = Mover(updates, len(model.cells), window.local_weight, window.state.batch)
        position = phase(model, window.state.clock) if window.in_phase else None
        position = mover.together(position, len(model.periods))
        with without_autocast(model.device):
            if position is not None:
                after = Dense(window, objective, position, on_segment, mover).run()
            else:
                after = Rounds(window, objective, self.round_steps, on_segment, mover).run()
        objective.succeed()
        return objective.result(after)
