"""`Restricted`: gradients that are not sent back along the upward edges, each segment differentiated as soon as it ends."""

from __future__ import annotations

from hrnn.arguments import whole
from hrnn.forward import in_phase
from hrnn.gradients.base import Gradient
from hrnn.gradients.in_phase import SegmentBySegment
from hrnn.gradients.objective import Objective
from hrnn.gradients.rounds import Rounds
from hrnn.gradients.updates import Mover, Updates, check_updates
from hrnn.gradients.window import Window
from hrnn.state import State


class Restricted(Gradient):
    """Restricted gradients, in memory of about the sum of the periods plus twice the top level's ticks.

    round_steps: where rows tick at different times (given boundaries, `lengths`, `reset`), how many steps are run forward
    before what is complete is differentiated. None is four times the lowest level's period or reach. It bounds the memory
    and changes nothing else.
    """

    def __init__(self, round_steps: int | None = None):
        self.round_steps = (
            None if round_steps is None else whole("round_steps", round_steps, remedy="at least 1, or None for a default")
        )

    def allowed(self, updates: Updates | None, window: Window, weight: float | None) -> Updates | None:
        if updates is not None:
            check_updates(updates, window.model, window.state.batch, weight, window.local_weight)
        return updates

    def differentiate(self, window: Window, objective: Objective, updates: Updates | None) -> State:
        model, clock = window.model, window.state.clock
        mover = Mover(updates, len(model.levels), window.local_weight, window.state.batch)
        together = window.in_phase and in_phase(model.levels, model.periods, clock)
        if mover.agreed_phase(clock.position[0].tolist() if together else None, len(model.periods)) is not None:
            return SegmentBySegment(window, objective, mover).run()
        return Rounds(window, objective, self.round_steps, mover).run()
