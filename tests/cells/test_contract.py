"""Cells of a user's that return something else than the contract says."""

from __future__ import annotations

import pytest
import torch

from tests.calls import BATCH, STEPS, WAYS, call, make
from tests.helpers import untouched
from tests.user_cells import MinimalGRU


def wrong_cell(method, result, after=0):
    """A minimal GRU whose `step` or `initial_state` returns `result` of what is right, from its `after`-th call on."""

    class Wrong(MinimalGRU):
        calls = 0

        def answer(self, name, value):
            if name != method:
                return value
            type(self).calls += 1
            return result(value) if type(self).calls > after else value

        def step(self, inputs, state):
            return self.answer("step", super().step(inputs, state))

        def initial_state(self, batch):
            return self.answer("initial_state", super().initial_state(batch))

    return Wrong


WRONG_STATES = {
    "too wide": (
        lambda state: (torch.cat([*state, *state], 1),),
        ValueError,
        ["hidden state of shape (", "(batch, hidden_size)"],
    ),
    "one row": (lambda state: (state[0][:1],), ValueError, ["hidden state of shape (1,", "(batch, hidden_size)"]),
    "a tensor": (lambda state: state[0], TypeError, ["returned Tensor", "return a tuple of tensors"]),
    "nothing": (lambda state: (), TypeError, ["returned tuple", "return a tuple of tensors"]),
    "no batch in a part": (lambda state: (*state, state[0][0, 0]), ValueError, ["returned shapes", "must be the batch, 3"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("after", [0, 6])
@pytest.mark.parametrize("method", ["step", "initial_state"])
@pytest.mark.parametrize("kind", WRONG_STATES)
def test_a_cell_that_returns_the_wrong_shape(kind, method, after, way):
    result, error, words = WRONG_STATES[kind]
    cell = wrong_cell(method, result, after)
    model = make(cell=cell)
    options = {"x": torch.randn(STEPS, BATCH, 2), "y": torch.randn(STEPS, BATCH, 3), "betas": [0.1, 0.1]}
    with untouched(model), pytest.raises(error) as caught:
        call(way, model, options)
    assert cell.calls == after + 1
    assert all(word in str(caught.value) for word in [*words, f"cell Wrong.{method} returned"]), str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_cell_whose_state_changes_shape(way):
    model = make(cell=wrong_cell("step", lambda state: (*state, state[0])))
    options = {"x": torch.randn(STEPS, BATCH, 2), "y": torch.randn(STEPS, BATCH, 3)}
    with untouched(model), pytest.raises(ValueError, match=r"returned shapes \[.*expected those of the state it was given"):
        call(way, model, options)
