"""Every mistake in an input gets an error that names the argument, the value and the remedy, and changes nothing."""

from __future__ import annotations

import re

import pytest
import torch

import hrnn
from tests.calls import BATCH, GIVEN, NUMBERS, STEPS, TOKENS, VECTORS, WAYS, call, good, make, nan_at
from tests.helpers import untouched
from tests.user_cells import LearnedStart


def check(way, model, error, words, **changes):
    """The good call works; the changed one fails with all the words in its message and leaves everything as it was."""
    options = good(model)
    call(way, model, options)
    wrong = options | changes
    state = wrong["state"] if isinstance(wrong["state"], hrnn.State) and wrong["state"].hidden[0].device.type == "cpu" else None
    with untouched(model, state=state), pytest.raises(error) as caught:
        call(way, model, wrong)
    assert type(caught.value) is error
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def flag_at(step, row, level, steps=STEPS):
    flags = torch.zeros(steps, BATCH, 2, dtype=torch.bool)
    flags[step, row, level] = True
    return flags


TOO_HIGH = NUMBERS.clone()
TOO_HIGH[3, 1] = 4


BELOW = NUMBERS.clone()
BELOW[2, 2] = -1


ON_META = torch.empty(STEPS, BATCH, 2, device="meta")


# name: (model, error, words of the message, what is wrong)
ANYWHERE = {
    "no tensor": (VECTORS, TypeError, ["x is a int", "give a tensor"], {"x": 5}),
    "empty sequence": (
        VECTORS,
        ValueError,
        ["x has shape (0, 3, 2)", "empty sequence", "at least one step"],
        {"x": torch.zeros(0, 3, 2)},
    ),
    "batch 0": (VECTORS, ValueError, ["x has shape (5, 0, 2)", "empty batch", "one row"], {"x": torch.zeros(5, 0, 2)}),
    "empty tokens": (TOKENS, ValueError, ["x has shape (0, 3)", "empty sequence"], {"x": NUMBERS[:0]}),
    "two dimensions": (VECTORS, ValueError, ["x has shape (5, 3)", "expected (time, batch, 2)"], {"x": torch.zeros(5, 3)}),
    "another size": (VECTORS, ValueError, ["x has shape (5, 3, 7)", "expected (time, batch, 2)"], {"x": torch.zeros(5, 3, 7)}),
    "another dtype": (
        VECTORS,
        TypeError,
        ["x is torch.float64", "torch.float32", "x.to("],
        {"x": torch.zeros(5, 3, 2).double()},
    ),
    "integers for vectors": (VECTORS, TypeError, ["x is torch.int64", "x.to("], {"x": torch.zeros(5, 3, 2).long()}),
    "another device": (VECTORS, ValueError, ["x is on meta", "cpu", ".to()"], {"x": ON_META}),
    "token too high": (TOKENS, ValueError, ["x has token 4 at step 3, row 1", "Tokens(4) allows 0 to 3"], {"x": TOO_HIGH}),
    "token below 0": (TOKENS, ValueError, ["x has token -1 at step 2, row 2", "0 to 3"], {"x": BELOW}),
    "float tokens": (TOKENS, TypeError, ["x is torch.float32", "Tokens(4)", "x.long()"], {"x": NUMBERS.float()}),
    "bool tokens": (TOKENS, TypeError, ["x is torch.bool", "x.long()"], {"x": NUMBERS > 1}),
    "one-hot tokens": (
        TOKENS,
        ValueError,
        ["x has shape (5, 3, 4)", "(time, batch) token numbers"],
        {"x": torch.zeros(5, 3, 4).long()},
    ),
    "nan": (
        {"check_finite": True},
        ValueError,
        ["x is not finite at step 4, row 2", "inputs cannot be masked", "torch.nan_to_num(x)", "lengths or reset"],
        {"x": nan_at(4, 2)},
    ),
    "state is a tensor": (VECTORS, TypeError, ["state is a Tensor", "None to start afresh"], {"state": torch.zeros(3, 3)}),
    "state of another device": (
        VECTORS,
        ValueError,
        ["state is torch.float32 on meta", "cpu", "state.to("],
        {"state": make().initial_state(BATCH).to("meta")},
    ),
    "state of another dtype": (
        VECTORS,
        ValueError,
        ["state is torch.float64", "torch.float32", "state.to("],
        {"state": make().double().initial_state(BATCH)},
    ),
    "state of another batch": (
        VECTORS,
        ValueError,
        ["state has 2 rows", "a batch of 3", "state.select()"],
        {"state": make().initial_state(2)},
    ),
    "state of other sizes": (
        VECTORS,
        ValueError,
        ["state has hidden sizes [3, 3]", "[3, 4, 2]", "another model"],
        {"state": hrnn.HRNN(2, [3, 3], [2]).initial_state(BATCH)},
    ),
    "state of other cells": (
        VECTORS,
        ValueError,
        ["state", "other cells", "state=None"],
        {"state": make(cell="gru").initial_state(BATCH)},
    ),
    "state of other periods": (
        VECTORS,
        ValueError,
        ["state", "periods", "state=None"],
        {"state": make(periods=(2, 3)).initial_state(BATCH)},
    ),
    "state of no decoders": (
        VECTORS,
        ValueError,
        ["state", "decoders", "state=None"],
        {"state": make(decoders=False).initial_state(BATCH)},
    ),
    "boundaries of fixed periods": (
        VECTORS,
        ValueError,
        ["boundaries was given", "periods=[2, 2]", "hrnn.Given(reach)"],
        {"boundaries": NUMBERS > 1},
    ),
    "no boundaries": (GIVEN, ValueError, ["boundaries is None", "Given(reach=2)", "give a bool tensor"], {"boundaries": None}),
    "boundaries of integers": (
        GIVEN,
        TypeError,
        ["boundaries is torch.int64", "give a bool tensor"],
        {"boundaries": torch.zeros(5, 3, 2).long()},
    ),
    "boundaries in a list": (GIVEN, TypeError, ["boundaries is list", "give a bool tensor"], {"boundaries": [[True]]}),
    "boundaries too short": (
        GIVEN,
        ValueError,
        ["boundaries has shape (4, 3, 2)", "expected (5, 3, 2)", "one step more"],
        {"boundaries": flag_at(0, 0, 0, 4)},
    ),
    "boundaries too long": (
        GIVEN,
        ValueError,
        ["boundaries has shape (7, 3, 2)", "(5, 3, 2)"],
        {"boundaries": flag_at(0, 0, 0, 7)},
    ),
    "boundaries of one level": (GIVEN, ValueError, ["boundaries has shape (5, 3)", "(5, 3, 2)"], {"boundaries": NUMBERS > 1}),
    "boundaries not nested": (
        GIVEN,
        ValueError,
        ["boundaries of level 1 at step 3, row 1", "every level below"],
        {"boundaries": flag_at(3, 1, 1)},
    ),
    "lengths beyond the window": (
        VECTORS,
        ValueError,
        ["lengths[1] is 6", "expected 0 to 5"],
        {"lengths": torch.tensor([5, 6, 1])},
    ),
    "lengths below 0": (VECTORS, ValueError, ["lengths[2] is -1", "expected 0 to 5"], {"lengths": [5, 5, -1]}),
    "lengths of another batch": (VECTORS, ValueError, ["lengths is torch.int64 of shape (2,)", "(3,)"], {"lengths": [5, 5]}),
    "lengths of floats": (VECTORS, ValueError, ["lengths is torch.float32", "whole numbers"], {"lengths": torch.ones(3)}),
    "reset of integers": (
        VECTORS,
        ValueError,
        ["reset is torch.int64 of shape (3,)", "bool of shape (3,)"],
        {"reset": torch.ones(3).long()},
    ),
    "reset of another shape": (
        VECTORS,
        ValueError,
        ["reset is torch.bool of shape (4, 3)", "(5, 3)"],
        {"reset": torch.zeros(4, 3, dtype=torch.bool)},
    ),
    "reset is no tensor": (VECTORS, ValueError, ["reset is bool", "bool of shape (3,)"], {"reset": True}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_wrong_input(name, way):
    options, error, words, changes = ANYWHERE[name]
    check(way, make(**options), error, words, **changes)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name", ["no tensor", "token too high", "boundaries in a list", "reset is no tensor", "reset of another shape"]
)
def test_wrong_input_with_batch_first(name, way):
    """The step and the row are those of the sequence, whatever the order of the dimensions."""
    options, error, words, changes = ANYWHERE[name]
    model = make(**options, batch_first=True)
    arguments = {key: v.transpose(0, 1) if isinstance(v, torch.Tensor) and v.dim() > 1 else v for key, v in changes.items()}
    turned = make(**options)
    fine = {k: v.transpose(0, 1) if isinstance(v, torch.Tensor) and v.dim() > 1 else v for k, v in good(turned).items()}
    call(way, model, fine)
    with untouched(model, state=fine["state"]), pytest.raises(error) as caught:
        call(way, model, fine | arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_nan_goes_through_where_it_is_not_checked():
    assert bool(make()(nan_at(4, 2))[0][4, 2].isnan().all())


@pytest.mark.parametrize("way", WAYS)
def test_a_state_in_a_longer_segment_than_the_period_is_refused(way):
    """Without decoders a state has no history that would tell."""
    model, other = make(periods=(2, 2), decoders=False), make(periods=(9, 2), decoders=False)
    state = other(torch.randn(7, BATCH, 2))[1].detach()
    options = {"x": torch.randn(STEPS, BATCH, 2), "y": torch.randn(STEPS, BATCH, 3), "state": state}
    with untouched(model, state=state), pytest.raises(ValueError, match=r"state was made by a model with other .* periods"):
        call(way, model, options)


@pytest.mark.parametrize("way", WAYS)
def test_a_state_whose_further_parts_have_other_shapes_is_refused(way):
    class Other(LearnedStart):
        def initial_state(self, batch):
            return self.start.expand(batch, -1), self.start.new_zeros(batch, 7)

    model, state = make(cell=LearnedStart), make(cell=Other).initial_state(BATCH)
    options = {"x": torch.randn(STEPS, BATCH, 2), "y": torch.randn(STEPS, BATCH, 3), "state": state}
    with untouched(model, state=state), pytest.raises(ValueError, match="state was made by a model with other cells"):
        call(way, model, options)


def test_wrong_input_of_step():
    model = make()
    for x, error, words in (
        ([1.0], TypeError, "x is a list; give a tensor"),
        (torch.zeros(2), ValueError, r"x has shape \(1, 2\); expected \(time, batch, 2\)"),
        (torch.zeros(0, 2), ValueError, "an empty batch"),
    ):
        with pytest.raises(error, match=words):
            model.step(x)
    with pytest.raises(ValueError, match=re.escape("state has 3 rows for a batch of 2")):
        model.step(torch.zeros(2, 2), model.initial_state(3))
