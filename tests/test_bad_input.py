"""Every mistake gets a ValueError or TypeError that names the argument, the value and the remedy, and changes nothing."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import hrnn
from tests.helpers import METHODS, seeded, squares, untouched
from tests.user_cells import LearnedStart, MinimalGRU

STEPS, BATCH = 5, 3
WAYS = ("forward", *METHODS)
ONLY_BACKWARD = ("y", "mask", "betas", "weight", "local_weight", "loss")


def make(inputs=2, periods=(2, 2), cell="lstm", **options):
    torch.manual_seed(6)
    return hrnn.HRNN(inputs, [3, 4, 2], list(periods), cell=cell, decoder_units=3, **options)


def good(model):
    """Arguments that work."""
    x = torch.randint(model.input_size, (STEPS, BATCH)) if model.tokens else torch.randn(STEPS, BATCH, 2)
    given = sum(isinstance(p, hrnn.Given) for p in model.periods)
    flags = torch.zeros(STEPS, BATCH, given, dtype=torch.bool) if given else None
    with torch.no_grad():
        state = model(x, boundaries=flags)[1]
    return {"x": x, "boundaries": flags, "state": state, "y": torch.randn(STEPS, BATCH, 3), "betas": [0.1, 0.1]}


def call(way, model, options):
    if way == "forward":
        return model(**{name: value for name, value in options.items() if name not in ONLY_BACKWARD})
    return METHODS[way]().backward(model, **({"loss": squares} | options))


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


def nan_at(step, row):
    x = torch.randn(STEPS, BATCH, 2)
    x[step, row, 1] = float("nan")
    return x


def flag_at(step, row, level, steps=STEPS):
    flags = torch.zeros(steps, BATCH, 2, dtype=torch.bool)
    flags[step, row, level] = True
    return flags


VECTORS, TOKENS, GIVEN = {}, {"inputs": hrnn.Tokens(4)}, {"periods": (hrnn.Given(2), hrnn.Given(2))}
NUMBERS = torch.randint(4, (STEPS, BATCH), generator=seeded())
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


def scalar(output, target):
    return squares(output, target).mean()


BACKWARD = {
    "too few betas": (VECTORS, ValueError, ["betas has 1 entries", "3 levels", "below the top: 2"], {"betas": [0.1]}),
    "too many betas": (VECTORS, ValueError, ["betas has 3 entries", "below the top: 2"], {"betas": [0.1] * 3}),
    "betas is a number": (VECTORS, TypeError, ["betas is 0.1", "betas=[0.1, 0.1]"], {"betas": 0.1}),
    "negative beta": (VECTORS, ValueError, ["betas is [0.1, -1.0]", "not negative"], {"betas": [0.1, -1.0]}),
    "nan beta": (VECTORS, ValueError, ["betas is [0.1, nan]", "finite"], {"betas": [0.1, float("nan")]}),
    "a loss that is a scalar": (
        VECTORS,
        ValueError,
        ["loss returned shape ()", "one value per step and row", "reduction='none'"],
        {"loss": scalar},
    ),
    "a loss per feature": (
        VECTORS,
        ValueError,
        ["loss returned shape (", "one value per step and row"],
        {"loss": lambda o, t: o - t},
    ),
    "a loss that is a number": (
        VECTORS,
        ValueError,
        ["loss returned float", "one value per step and row"],
        {"loss": lambda o, t: 0.5},
    ),
    "a loss with no dict": (
        VECTORS,
        TypeError,
        ["loss returned a Tensor beside", "a dict of metrics"],
        {"loss": lambda o, t: (squares(o, t), o)},
    ),
    "no function": (VECTORS, TypeError, ["loss is a Tensor", "a function of (output, target)"], {"loss": torch.zeros(5, 3)}),
    "weight alone": (VECTORS, ValueError, ["weight was given without local_weight", "give both"], {"weight": 0.1}),
    "local_weight alone": (VECTORS, ValueError, ["local_weight was given without weight", "or neither"], {"local_weight": 0.1}),
    "no targets": (VECTORS, ValueError, ["y is None", "give targets (time, batch, ...)"], {"y": None}),
    "targets of another length": (VECTORS, ValueError, ["y is (4, 3, 3)", "those of x, (5, 3)"], {"y": torch.zeros(4, 3, 3)}),
    "targets in a list": (VECTORS, ValueError, ["y is list", "(5, 3)"], {"y": [1, 2]}),
    "mask of integers": (VECTORS, ValueError, ["mask is torch.int64", "expected bool of shape (5, 3)"], {"mask": NUMBERS}),
    "mask of another shape": (VECTORS, ValueError, ["mask is torch.bool of shape (4, 3)", "(5, 3)"], {"mask": NUMBERS[:4] > 1}),
    "mask is no tensor": (VECTORS, ValueError, ["mask is list", "expected bool"], {"mask": [True]}),
    "x is a list": (VECTORS, TypeError, ["x is a list", "give a tensor", "hrnn.Chunk"], {"x": [[1.0]]}),
    "x of a graph": (
        VECTORS,
        ValueError,
        ["x requires grad", "x.detach().requires_grad_()", "x.backward(leaf.grad)"],
        {"x": torch.randn(STEPS, BATCH, 2).requires_grad_() * 2},
    ),
    "no decoders": (
        {"decoders": False},
        ValueError,
        ["betas is [0.1, 0.2]", "no decoders", "decoders=True"],
        {"betas": [0.1, 0.2]},
    ),
}


@pytest.mark.parametrize("way", METHODS)
@pytest.mark.parametrize("name", BACKWARD)
def test_wrong_arguments_of_backward(name, way):
    options, error, words, changes = BACKWARD[name]
    model = make(**options)
    options = good(model) | ({"betas": None} if model.decoders is None else {})
    call(way, model, options)
    with untouched(model, state=options["state"]), pytest.raises(error) as caught:
        call(way, model, options | changes)
    assert type(caught.value) is error
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("way", METHODS)
def test_a_model_that_is_none(way):
    with pytest.raises(TypeError, match=r"model is a Linear; give an hrnn.HRNN"):
        METHODS[way]().backward(nn.Linear(2, 2), torch.zeros(5, 3, 2), loss=squares)


def windows():
    """Iterators that go wrong in their third chunk, or cannot be used at all."""
    x, y = torch.randn(2, BATCH, 2), torch.randn(2, BATCH, 3)
    fine = hrnn.Chunk(x, y)
    weights = {"weight": 0.1, "local_weight": 0.1}
    late = torch.tensor([[False] * BATCH, [False, True, False]])
    x_grad = torch.randn(2, BATCH, 2, requires_grad=True)
    return {
        "another batch": (
            [fine, fine, hrnn.Chunk(x[:, :2], y[:, :2])],
            ValueError,
            ["changed the batch from 3 to 2", "keep it the same"],
            weights,
        ),
        "something else": ([fine, fine, "chunk"], TypeError, ["gave a str", "expected hrnn.Chunk"], weights),
        "a tensor": ([fine, fine, x], TypeError, ["gave a Tensor", "expected hrnn.Chunk"], weights),
        "nothing": ([], ValueError, ["x is an iterator without chunks", "at least one hrnn.Chunk"], weights),
        "an empty chunk": ([fine, fine, (x[:0], y[:0])], ValueError, ["x has shape (0, 3, 2)", "empty sequence"], weights),
        "no targets": ([fine, fine, (x,)], ValueError, ["y is None", "give targets"], weights),
        "nan": ([fine, fine, (nan_at(4, 2)[3:], y)], ValueError, ["x is not finite at step 5, row 2"], weights),
        "a reset out of the blue": (
            [fine, fine, hrnn.Chunk(x, y, reset=late)],
            ValueError,
            ["later chunk", "reset", "first chunk"],
            weights,
        ),
        "lengths out of the blue": (
            [fine, hrnn.Chunk(x, y, lengths=[2, 1, 0])],
            ValueError,
            ["later chunk", "lengths"],
            weights,
        ),
        "x that wants a gradient": ([fine, (x_grad, y)], ValueError, ["x requires grad", "iterator", "one tensor"], weights),
        "no weights": ([fine], ValueError, ["weight and local_weight", "iterator", "weight=1/targets"], {}),
        "no local_weight": ([fine], ValueError, ["weight and local_weight", "local_weight=1/(steps * batch)"], {"weight": 0.1}),
        "y beside it": ([fine], ValueError, ["y was given beside an iterator", "hrnn.Chunk"], weights | {"y": y}),
        "lengths beside it": (
            [fine],
            ValueError,
            ["lengths was given beside an iterator", "hrnn.Chunk"],
            weights | {"lengths": [1, 2, 2]},
        ),
    }


@pytest.mark.parametrize("way", METHODS)
@pytest.mark.parametrize("name", windows())
def test_wrong_windows_in_chunks(name, way):
    chunks, error, words, options = windows()[name]
    model = make(check_finite=True)
    _, state = model(torch.randn(3, BATCH, 2))
    with untouched(model, state=state), pytest.raises(error) as caught:
        METHODS[way]().backward(model, iter(chunks), loss=squares, betas=[0.1, 0.1], state=state, **options)
    assert type(caught.value) is error
    assert all(word in str(caught.value) for word in words), str(caught.value)


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


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"periods": []}, ValueError, ["periods has 0 entries for 2 levels", "one fewer than hidden_sizes", "periods=[10]"]),
        ({"periods": [2, 2]}, ValueError, ["periods has 2 entries for 2 levels", "periods=[10]"]),
        ({"hidden_sizes": [4], "periods": [2]}, ValueError, ["periods has 1 entries for 1 levels", "periods=[]"]),
        ({"periods": [0]}, ValueError, ["periods[0] is 0", "at least 1"]),
        ({"periods": [-3]}, ValueError, ["periods[0] is -3", "at least 1"]),
        ({"periods": [2.0]}, ValueError, ["periods[0] is 2.0", "whole number"]),
        ({"periods": [True]}, ValueError, ["periods[0] is True", "whole number"]),
        ({"periods": [hrnn.Given(0)]}, ValueError, ["periods[0] is Given(reach=0)", "reach of at least 1"]),
        ({"periods": 2}, TypeError, ["periods is 2", "periods=[2]"]),
        ({"hidden_sizes": 4}, TypeError, ["hidden_sizes is 4", "hidden_sizes=[4]"]),
        ({"hidden_sizes": []}, ValueError, ["hidden_sizes is []", "at least one level"]),
        ({"hidden_sizes": [4, 0]}, ValueError, ["hidden_sizes is [4, 0]", "at least one unit"]),
        ({"inputs": 0}, ValueError, ["inputs is 0", "hrnn.Tokens(n)"]),
        ({"inputs": hrnn.Tokens(0)}, ValueError, ["inputs is Tokens(count=0)", "at least 1"]),
        ({"inputs": "x"}, ValueError, ["inputs is x", "hrnn.Tokens(n)"]),
        ({"cell": "transformer"}, ValueError, ["cell is 'transformer'", "'gru', 'lstm', 'rnn'"]),
        ({"cell": ["lstm"]}, ValueError, ["cell has 1 entries for 2 levels", "one for each level"]),
        ({"cell": [3, "lstm"]}, TypeError, ["cell is 3", "a name or a callable"]),
        ({"cell": lambda inputs, hidden: 3}, TypeError, ["cell returned a int", "nn.Module with step and initial_state"]),
        ({"cell": nn.Linear}, TypeError, ["cell Linear has no method step()", "step(inputs, state)"]),
        ({"decoder_units": [3, 3]}, ValueError, ["decoder_units has 2 entries for 1 levels below the top", "one for all"]),
        ({"decoder_units": 0}, ValueError, ["decoder_units of level 0 are 2 and 0", "at least 1"]),
        ({"decoder_layers": 0}, ValueError, ["decoder_layers", "0", "at least 1"]),
        ({"indices": "some"}, ValueError, ["indices is 'some'", "'sampled', 'all'"]),
    ],
)
def test_wrong_models(arguments, error, words):
    with pytest.raises(error) as caught:
        hrnn.HRNN(**({"inputs": 2, "hidden_sizes": [4, 4], "periods": [2]} | arguments))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_other_numbers_that_must_be_positive():
    with pytest.raises(ValueError, match="round_steps is 0; give at least 1, or None"):
        hrnn.Restricted(round_steps=0)
    with pytest.raises(ValueError, match="batch is 0; give at least one row"):
        make().initial_state(0)


@pytest.mark.parametrize("way", WAYS)
def test_a_state_in_a_longer_segment_than_the_period_is_refused(way):
    """Without decoders a state has no history that would tell."""
    model, other = make(periods=(2, 2), decoders=False), make(periods=(9, 2), decoders=False)
    _, state = other(torch.randn(7, BATCH, 2))
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
