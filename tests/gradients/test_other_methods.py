"""A method that is not in the package, and boundaries that the hierarchy itself decides: what they need is there."""

from __future__ import annotations

import pytest
import torch

import hrnn
from hrnn.executor import Run, learned_starts
from hrnn.gradients import Gradient
from hrnn.schedule import schedule
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
            reached = []

            def listen(ended, reached=reached):
                ended, summary = ended.__class__(**vars(ended) | {"summary": ended.summary.detach()}), ended.summary
                reached.append((summary, objective.local_gradient(ended)))

            plan = schedule(model.wiring(1), state.clock, len(x), learned=learned_starts(model.levels))
            run = Run(model.levels, state, model.wiring(1), listener=listen)
            run.run(plan, x)
            output = run.output(len(x))
            leaf = output.detach().requires_grad_()
            reached.append((output, objective.differentiate(objective.task(leaf, y, None), leaf)))
            parameters = list(model.cells.parameters())
            tensors, gradients = zip(*reached, strict=True)
            for parameter, gradient in zip(
                parameters, torch.autograd.grad(tensors, parameters, gradients, allow_unused=True), strict=True
            ):
                objective.gathered.add(parameter, gradient)
            state = run.after().detach()
        return state


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


def test_boundaries_that_are_decided_step_by_step():
    torch.manual_seed(2)
    model = steady(hrnn.HRNN(2, [3, 4], [hrnn.Given(3)], decoder_units=4).double())
    x, state = torch.randn(12, 4, 2).double(), model.initial_state(4)
    outputs, decisions = [], []
    for step in range(12):
        decisions.append(state.hidden[0].detach().sum(1) > 0.05)  # what the hierarchy itself says
        output, state = model.step(x[step], state, boundaries=decisions[-1])
        outputs.append(output)
    boundaries = torch.stack(decisions)
    assert 0.1 < boundaries.float().mean() < 0.9
    expected, after = model(x, boundaries=boundaries)
    assert_close(torch.stack(outputs), expected)
    assert_close(state.clock.ordinal, after.clock.ordinal)
    own = torch.autograd.grad(torch.stack(outputs).square().sum(), list(model.cells.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(model.cells.parameters()))
    for a, b in zip(own, theirs, strict=True):
        assert_close(a, b)
