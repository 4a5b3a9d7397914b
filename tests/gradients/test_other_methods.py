"""Methods that are not in the package, written over its walk: what a new one needs fits without touching it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

import hrnn
from hrnn.cells import CellState
from hrnn.forward import AutogradLevel, Ended, Forward
from hrnn.gradients import Gradient
from hrnn.gradients.objective import Objective
from hrnn.schedules import InPhase, RowByRow
from hrnn.segments import Clock, Ticks
from hrnn.walk import walk
from tests.helpers import assert_close, assert_same_gradients, assert_same_state, squares, steady, take_gradients


class Truncated(Gradient):
    """True gradients over shorter windows inside the window: states go on, gradients do not."""

    def __init__(self, steps: int):
        self.steps = steps

    @torch.enable_grad()
    def differentiate(self, window, objective, updates):
        model, state = window.model, window.state
        (chunk,) = window
        for x, y in zip(chunk.x.split(self.steps), chunk.y.split(self.steps), strict=True):
            terms: list[Tensor] = []
            forward = Forward(model.levels, model.periods, state, partial(self.listen, objective, terms))
            terms.append(objective.task(forward.feed(x, None, None, None), y, None))
            state = forward.close().detach()
            for parameter in model.parameters():
                (gradient,) = torch.autograd.grad(terms, parameter, retain_graph=True, allow_unused=True)
                objective.gathered.add(parameter, gradient)
        return state

    def listen(self, objective: Objective, terms: list[Tensor], ended: Ended) -> None:
        terms.append(objective.local_loss(ended))


@pytest.mark.parametrize("steps", [1, 4, 5, 17])
def test_truncated_is_consecutive_windows(steps):
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(2, [3, 4, 2], [2, 3], decoder_units=4, indices="all").double())
    x, y = torch.randn(17, 2, 2).double(), torch.randn(17, 2, 3).double()
    options = {"loss": squares, "betas": [0.5, 0.3], "weight": 0.1, "local_weight": 0.2}
    truncated = Truncated(steps).backward(model, x, y, **options)
    gradients = take_gradients(model)
    state, total = None, 0.0
    for part, target in zip(x.split(steps), y.split(steps), strict=True):
        result = hrnn.Full().backward(model, part, target, state=state, **options)
        state, total = result.state, total + result.loss
    assert_same_gradients(gradients, take_gradients(model))
    assert_same_state(truncated.state, state)
    assert_close(truncated.loss, total)


class Remembering(AutogradLevel):
    """Keeps what each tick started from, to run it again."""

    def __init__(self, below, *arguments):
        super().__init__(*arguments)
        self.below, self.ticks = below, []

    def run(self, inputs, ticks):
        tick = (self.state, inputs, *self._said)
        self.ticks.append((tick, [level.state for level in self.below]))
        return super().run(inputs, ticks)


class Replayed(Gradient):
    """While a level runs backward, each segment below is run again, with the gradient that was just found for its summary: true
    gradients, though nothing but one segment of each level is remembered at a time."""

    def differentiate(self, window, objective, updates):
        (chunk,) = window
        model = window.model
        self.window, self.objective, self.chunk, self.periods = window, objective, chunk, model.periods
        forward = Forward(model.levels, model.periods, window.state)
        forward.feed(chunk.x, None, None, None)
        self.d_summary: dict[int, Tensor] = {}  # of each level's segment before, once the tick that read it is done
        self.again(len(model.levels) - 1, 0, len(chunk.x), None, window.state.cells[:-1])
        return forward.close()

    def again(self, level: int, start: int, stop: int, context: Tensor | None, below: Sequence[CellState]) -> Tensor | None:
        """One segment of a level, steps start to stop, later ones being done: add its gradients, and return its context's.
        below: the states of the levels below before it, whose summaries its first ticks read."""
        model, batch = self.window.model, self.window.state.batch
        state = model.initial_state(batch)
        levels: list[Remembering] = []
        for i in range(level + 1):
            levels.append(Remembering(levels[:], i, model.cell(i), state, self.decode if i == level else None))
        for lower, before in zip(levels, below, strict=False):
            lower.state = before
        clock = Clock.start(batch, len(self.periods[: level + 1]))
        schedule = InPhase(self.periods[: level + 1], clock)
        begins, hiddens = [], []
        for moment, hidden in walk(schedule.moments(stop - start), levels, self.chunk.x[start:stop], context):
            hiddens.append(hidden)
            if moment.ticking >= level:
                begins.append(start + moment.start)
        own = levels[level]
        d_state = [torch.zeros_like(part) for part in own.state]
        d_state[0] += self.d_summary.pop(level, 0.0)
        if level < len(self.periods):
            self.d_local = torch.zeros_like(d_state[0])
            own.end(schedule.close())  # calls `decode`, if the segment is complete
            d_state[0] += self.d_local
        if level == 0:
            return self.tick(own, own.ticks[0][0], d_state, self.task_gradient(torch.cat(hiddens), start, stop))[2]
        d_context = None
        for (tick, states), begin, end in reversed(list(zip(own.ticks, begins, [*begins[1:], stop], strict=True))):
            after = self.run(own, tick)[1][0].detach()
            d_state[0] = d_state[0] + self.again(level - 1, begin, end, after, states[:-1])
            d_state, self.d_summary[level - 1], d_context = self.tick(own, tick, d_state, None)
        return d_context

    def task_gradient(self, hidden: Tensor, start: int, stop: int) -> Tensor:
        leaf = hidden.requires_grad_()
        with torch.enable_grad():
            loss = self.objective.task(leaf, self.chunk.y[start:stop], None)
        return self.objective.differentiate(loss, leaf)

    def decode(self, ended: Ended) -> None:
        self.d_local = self.objective.local_gradient(ended)

    @torch.enable_grad()
    def run(self, own: Remembering, tick: tuple) -> tuple[list[Tensor], tuple[Tensor, ...], Tensor]:
        state, inputs, starts, context = tick
        wanted = [part.detach().requires_grad_() for part in state]
        given = inputs.detach().requires_grad_(inputs.is_floating_point())
        sent = None if context is None else context.detach().requires_grad_()
        level = AutogradLevel(own.level, own.cell, self.window.state, None)
        level.state, level.history = tuple(wanted), None
        if starts is not None:
            level.start(starts, sent)
        output = level.run(given, Ticks())
        return [*wanted, given, *([] if sent is None else [sent])], level.state, output

    def tick(self, own: Remembering, tick: tuple, d_state: list[Tensor], d_output: Tensor | None):
        """Differentiate one tick, or a run of them: gradients of the state before, the inputs and the context."""
        wanted, after, output = self.run(own, tick)
        outputs, gradients = list(after), list(d_state)
        if d_output is not None:
            outputs, gradients = [output, *outputs], [d_output, *gradients]
        parameters = list(own.cell.parameters())
        found = torch.autograd.grad(outputs, [*wanted, *parameters], gradients, allow_unused=True)
        for parameter, gradient in zip(parameters, found[len(wanted) :], strict=True):
            self.objective.gathered.add(parameter, gradient)
        parts = len(after)
        d_before = [torch.zeros_like(part) if g is None else g for part, g in zip(after, found[:parts], strict=True)]
        d_inputs, *d_context = found[parts : len(wanted)]
        return d_before, None if d_inputs is None else d_inputs[0], d_context[0] if d_context else None


@pytest.mark.parametrize(("sizes", "periods", "steps"), [([3, 4], [3], 11), ([3, 4, 2], [2, 3], 17), ([3, 2], [4], 12)])
def test_segments_run_again_with_the_gradient_of_their_summary_give_true_gradients(sizes, periods, steps):
    torch.manual_seed(1)
    model = steady(hrnn.HRNN(2, sizes, periods, decoder_units=4, indices="all").double())
    x, y = torch.randn(steps, 2, 2).double(), torch.randn(steps, 2, 3).double()
    options = {"loss": squares, "betas": [0.5] * len(periods)}
    hrnn.Restricted().backward(model, x, y, **options)
    restricted = take_gradients(model)
    full = hrnn.Full().backward(model, x, y, **options)
    true = take_gradients(model)
    replayed = Replayed().backward(model, x, y, **options)
    again = take_gradients(model)
    assert_same_gradients(again, true)
    assert any((again[name] - restricted[name]).abs().max() > 1e-6 for name in again)  # it is not the cut one
    assert_close(replayed.loss, full.loss)
    assert_close(replayed.local_losses, full.local_losses)
    assert_same_state(replayed.state, full.state)


def test_boundaries_that_are_decided_step_by_step():
    torch.manual_seed(2)
    model = steady(hrnn.HRNN(2, [3, 4], [hrnn.Given(3)], decoder_units=4).double())
    x, state = torch.randn(12, 4, 2).double(), model.initial_state(4)
    levels, clock = [AutogradLevel(i, cell, state, None) for i, cell in enumerate(model.levels)], state.clock
    outputs, decisions = [], []
    for step in range(12):
        decisions.append(levels[0].hidden.detach().sum(1) > 0.05)  # what the hierarchy itself says
        plan = RowByRow(model.periods, clock, 1, boundaries=decisions[-1][None, :, None])
        for _ in walk(plan.moments(), levels, x[step : step + 1]):
            outputs.append(levels[0].hidden)
        clock = plan.clock
    boundaries = torch.stack(decisions)
    assert 0.1 < boundaries.float().mean() < 0.9
    expected, after = model(x, boundaries=boundaries)
    assert_close(torch.stack(outputs), expected)
    assert_close(clock.ordinal, after.clock.ordinal)
    own = torch.autograd.grad(torch.stack(outputs).square().sum(), list(model.cells.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(model.cells.parameters()))
    for a, b in zip(own, theirs, strict=True):
        assert_close(a, b)
