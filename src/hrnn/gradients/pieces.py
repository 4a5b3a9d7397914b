"""A window in pieces: run forward only, or with a graph that is differentiated, the gradient of the state handed on.

A window may be cut into pieces at any step. Let S(t) be all that the steps before t leave behind (`Midway`). A piece is a
function of it and of its own steps, and gives S(t') and the losses that are known by then, so that

    dE/dS(t[n]) = dE_n/dS(t[n]) + (dS(t[n+1])/dS(t[n]))^T dE/dS(t[n+1])

Only the cells' states in S have a gradient. Losses are computed when a piece runs with its graph, which is once.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hrnn.gradients.edges import Edges
from hrnn.gradients.literal import Literal
from hrnn.gradients.objective import Objective
from hrnn.gradients.steps import Steps, piece
from hrnn.gradients.window import InputGradient, Window
from hrnn.recomputation import Schedule
from hrnn.segments import Behind, Clock
from hrnn.state import State


@dataclass(frozen=True)
class Midway:
    """Where a forward pass is within its window: the state, and what has been said of boundaries behind rows that are over."""

    state: State
    behind: Behind
    step: int
    numbers: dict[str, Tensor] = field(default_factory=dict)  # steps of the raw inputs that the state remembers


class Pieces:
    """The pieces of one window. edges: what the gradients of summaries count for; None: true gradients."""

    def __init__(self, window: Window, objective: Objective, steps: Steps, edges: Edges | None = None):
        self.window, self.objective, self.steps, self.edges = window, objective, steps, edges
        self.d_x = InputGradient(window)

    def begin(self) -> Midway:
        return Midway(self.window.state, Behind(), 0)

    def forward(self, at: Midway, stop: int, size: int) -> Midway:
        """Run up to a step, and remember nothing but what is there. Cuts are where those of `differentiate` are, `size` steps
        before the stop and so on: random numbers of users' cells follow the batches."""
        for end in range(stop - (stop - at.step - 1) // size * size, stop + 1, size):
            at = self._run(at, end, losses=False, goes_on=True)[1]
        return at

    def differentiate(
        self, at: Midway, stop: int, d_after: list[Tensor | None], *, wanted: bool, goes_on: bool, many: int | None = None
    ) -> tuple[list[Tensor | None], Midway]:
        """Run up to a step with losses and graph, and gather all gradients. d_after: that of the state there, nothing: zero.
        wanted: that of the state before is to be returned. many: steps of the output that the loss is shown at once."""
        parts = [[_leaf(part, wanted) for part in cell] for cell in at.state.cells]
        state = replace(at.state, cells=tuple(map(tuple, parts)))
        run, after = self._run(replace(at, state=state), stop, losses=True, goes_on=goes_on, many=many)
        return run.differentiate(d_after), after

    def _run(self, at: Midway, stop: int, *, losses: bool, goes_on: bool, many: int | None = None) -> tuple[Literal, Midway]:
        run = Literal(
            self.window, self.objective, at.state, cut=False, losses=losses, d_x=self.d_x.part(), edges=self.edges,
            many=many, numbers=at.numbers,
        )  # fmt: skip
        behind = copy(at.behind)
        steps = piece(list(self.steps.chunks(at.step, stop)), at.step, behind)
        with torch.set_grad_enabled(losses):
            run.go(steps.plan(self.window, at.state.clock, goes_on), steps, goes_on)
        return run, Midway(run.after_detached(), behind, stop, run.numbers)

    def gather(self, step: int) -> None:
        """The window is over."""
        self.objective.tell(step)
        self.d_x.gather(self.objective.gathered)


def backward(run: Pieces, schedule: Schedule) -> State:
    """Go through a window from its last piece to its first, and return the state after it."""
    shelf = Shelf(schedule.states, run.window.state)
    ahead = [(run.begin(), schedule.steps, 0)]  # where to go on from, up to which step, states kept by then
    after: State | None = None
    d_state: list[Tensor | None] = []
    while ahead:
        at, stop, kept = ahead.pop()
        while (first := schedule.split(stop - at.step, kept)) is not None:
            ahead.append((at, at.step + first, kept))
            at, kept = shelf.keep(kept, run.forward(at, at.step + first, schedule.length)), kept + 1
        last = stop == schedule.steps
        d_state, behind = run.differentiate(at, stop, d_state, wanted=at.step > 0, goes_on=not last)
        after = after or behind.state
    assert after is not None
    run.gather(schedule.steps)
    return after


class Shelf:
    """Where states wait while steps are run: room for some, made once. States that are allocated one by one, between pieces
    that come and go, would leave holes in the process's memory that nothing fits into."""

    def __init__(self, slots: int, like: State):
        self._cells = tuple(tuple(_buffer(part, slots) for part in cell) for cell in like.cells)
        self._clock = {name: _buffer(part, slots) for name, part in vars(like.clock).items()}
        self._history = tuple(_buffer(part, slots) for part in like.history)
        self._raw = {name: _buffer(part, slots) for name, part in like.raw.items()}

    def keep(self, slot: int, at: Midway) -> Midway:
        """The same, its state in a slot, whose last one is gone."""
        state = at.state
        cells = tuple(
            tuple(buffer[slot].copy_(part) for buffer, part in zip(buffers, cell, strict=True))
            for buffers, cell in zip(self._cells, state.cells, strict=True)
        )
        clock = Clock(**{name: self._clock[name][slot].copy_(part) for name, part in vars(state.clock).items()})
        history = tuple(buffer[slot].copy_(part) for buffer, part in zip(self._history, state.history, strict=True))
        raw = {name: self._raw[name][slot].copy_(part) for name, part in state.raw.items()}
        return replace(at, state=State.of(cells, clock, state.row, history, **raw))


def _buffer(part: Tensor, slots: int) -> Tensor:
    return torch.empty(slots, *part.shape, dtype=part.dtype, device=part.device)


def _leaf(part: Tensor, wanted: bool) -> Tensor:
    part = part.clone() if part.is_inference() else part.detach()
    return part.requires_grad_(wanted and part.is_floating_point())
