"""A piece of a window: run forward only, or with its graph, and differentiated, the gradient of the state handed on.

A window may be cut into pieces at any step. A piece begins with a `Midway`, all that the steps before it have left behind; run
again from there it does the same again. Its losses are computed when it is run with its graph, which is once.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from hrnn.cells import by_hand
from hrnn.cells.block import BACKWARD_TICKS
from hrnn.forward import Ended, Forward, Midway
from hrnn.gradients.edges import Edges, weigh
from hrnn.gradients.gathered import muted
from hrnn.gradients.objective import Objective
from hrnn.gradients.positions import Positions, Steps
from hrnn.gradients.randomness import Streams
from hrnn.gradients.window import Chunk, InputGradient, Window
from hrnn.room import shown_at_once
from hrnn.schedules import Behind
from hrnn.state import State

Pairs = list[tuple[Tensor, Tensor]]  # tensors, and the gradients that reach them
StateGradient = list[Tensor | None]  # of every part of every level's state, the lowest first; None: zero


class Pieces:
    """The pieces of one window. `restricted`: no gradient goes back along upward edges; edges: or with these weights."""

    def __init__(
        self, window: Window, objective: Objective, steps: Steps, *, restricted: bool = False, edges: Edges | None = None
    ):
        self.edges = edges
        self.window, self.objective, self.steps, self.restricted = window, objective, steps, restricted
        self.model, self.d_x = window.model, InputGradient(window)
        self.streams: Streams | None = None  # of a user's cells, if steps are run again
        if isinstance(steps, Positions) and not all(map(by_hand, self.model.levels)):
            self.streams = Streams(self.model.device, steps.steps)

    def begin(self, state: State | None = None, step: int = 0, behind: Behind | None = None) -> Midway:
        """Before the window; or, at a step within it, before a window of its own, which begins with a state. behind: what the
        steps before have said of boundaries behind rows that are over."""
        random = () if self.streams is None else self.streams.now()
        return Midway(self.window.state if state is None else state, behind or Behind(), step, random)

    @torch.no_grad()
    def forward(self, at: Midway, stop: int) -> Midway:
        """Run up to a step, and remember nothing."""
        with self._drawing(at, stop):
            forward = Forward.resumed(self.model.levels, self.model.periods, at)
            few = max(BACKWARD_TICKS, shown_at_once(at.state.batch, self.model.hidden_sizes[0]))  # steps shown at once
            for start in range(at.steps, stop, few):
                for chunk in self.steps.chunks(start, min(stop, start + few)):
                    forward.feed(chunk.x.detach(), chunk.boundaries, chunk.lengths, chunk.reset)
            after = forward.midway()
            return after if self.streams is None else replace(after, random=self.streams.now())

    def _drawing(self, at: Midway, stop: int) -> AbstractContextManager[None]:
        return nullcontext() if self.streams is None else self.streams.cells(at.random, stop)

    def differentiate(
        self, at: Midway, stop: int, d_after: StateGradient | None = None, *, wanted: bool, close: bool
    ) -> tuple[StateGradient, State | None]:
        """Run up to a step with losses and graph, and gather all gradients. d_after: the gradient of the state there, None:
        zero. `wanted`: that of the state before is to be returned. `close`: a window ends there, and the state after is
        returned, too."""
        levels, periods, listen = self.model.levels, self.model.periods, any(self.window.betas)
        given = (p.clone() if p.is_inference() else p.detach() for cell in at.state.cells for p in cell)
        leaves = [part.requires_grad_(wanted and part.is_floating_point()) for part in given]
        reached: Pairs = []
        inputs: Pairs = []  # x, and where its gradient is to be added
        parts: list[tuple[Chunk, Tensor]] = []
        with torch.enable_grad(), self._drawing(at, stop):
            begun = replace(at, state=_with_cells(at.state, leaves))
            listener = partial(self._local, reached) if listen else None
            forward = Forward.resumed(levels, periods, begun, listener, self.restricted, shows_all=self.model.shows_all)
            if self.edges is not None:
                weigh(forward, begun.state, self.edges)
            for chunk in self.steps.chunks(at.steps, stop):
                x = chunk.x.detach()
                if (d_x := self.d_x.steps(forward.steps, forward.steps + len(x))) is not None:
                    inputs.append((x.requires_grad_(), d_x))
                parts.append((chunk, forward.feed(x, chunk.boundaries, chunk.lengths, chunk.reset)))
            cells = [part for level in forward.levels for part in level.state]
            after = forward.close().detach() if close else None
        if d_after is not None:
            reached += [(part, d) for part, d in zip(cells, d_after, strict=True) if d is not None]
        while parts:
            chunk, output = parts.pop(0)
            reached += self._task(chunk, output)
        del forward, listener, begun, cells
        d_before = self._backward(reached, [leaf for leaf in leaves if leaf.requires_grad], inputs)
        found = iter(d_before)
        return [next(found) if leaf.requires_grad else None for leaf in leaves], after

    def _local(self, reached: Pairs, ended: Ended) -> None:
        """The local losses of segments that have ended: all that is left of them is the gradient of the summaries."""
        if self.window.betas[ended.level]:
            with torch.no_grad(), nullcontext() if self.streams is None else self.streams.others():
                gradient = self.objective.local_gradient(replace(ended, summary=ended.summary.detach()))
            reached.append((ended.summary, gradient))

    def _task(self, chunk: Chunk, output: Tensor) -> Pairs:
        """The task's loss, some steps at a time: all that is left is the gradient of the output."""
        gradient: Tensor | None = None
        size = shown_at_once(output.shape[1], output.shape[2])
        for start in range(0, len(output), size):
            at = slice(start, start + size)
            leaf = output[at].detach().clone().requires_grad_()  # a copy: the loss may keep it
            with torch.enable_grad():
                y, mask = (None if value is None else value[at] for value in (chunk.y, chunk.mask))
                d_leaf = self.objective.differentiate(self.objective.task(leaf, y, mask), leaf)
            if d_leaf is not None:
                gradient = torch.zeros_like(output) if gradient is None else gradient
                gradient[at] = d_leaf
        return [] if gradient is None else [(output, gradient)]

    def _backward(self, reached: Pairs, state: list[Tensor], inputs: Pairs) -> list[Tensor | None]:
        """Gather what reaches the cells' parameters and x, and return what reaches the state."""
        reached = [(tensor, gradient) for tensor, gradient in reached if tensor.requires_grad]
        parameters = [p for p in self.model.cells.parameters() if p.requires_grad]
        wanted = [*state, *parameters, *(x for x, _ in inputs)]
        if not reached or not wanted:
            return [None] * len(state)
        with muted(parameters):
            tensors, gradients = zip(*reached, strict=True)
            found = list(torch.autograd.grad(tensors, wanted, gradients, allow_unused=True))
        d_state: list[Tensor | None] = [*found[: len(state)]]
        for parameter, gradient in zip(parameters, found[len(state) :], strict=False):
            self.objective.gathered.add(parameter, gradient)
        for (_, d_x), gradient in zip(inputs, found[len(state) + len(parameters) :], strict=True):
            if gradient is not None:
                d_x += gradient
        return d_state

    def gather(self) -> None:
        """The window is over."""
        self.d_x.gather(self.objective.gathered)

    def tell(self, step: int) -> None:
        """Say what has been gathered for every level by then."""
        self.objective.tell(step)


def _with_cells(state: State, parts: list[Tensor]) -> State:
    """The state with other tensors in its cells."""
    found = iter(parts)
    cells = tuple(tuple(next(found) for _ in cell) for cell in state.cells)
    return State.of(cells, state.clock, state.row, state.history)
