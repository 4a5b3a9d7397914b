"""Every mistake in a call of `backward` gets an error that names it, and leaves every gradient as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hrnn
from tests.calls import BATCH, NUMBERS, STEPS, VECTORS, call, good, make, nan_at
from tests.helpers import METHODS, squares, untouched


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
    state = model(torch.randn(3, BATCH, 2))[1].detach()
    with untouched(model, state=state), pytest.raises(error) as caught:
        METHODS[way]().backward(model, iter(chunks), loss=squares, betas=[0.1, 0.1], state=state, **options)
    assert type(caught.value) is error
    assert all(word in str(caught.value) for word in words), str(caught.value)
