"""Predicted gradients of summaries: their networks, and what cannot be predicted is refused."""

from __future__ import annotations

import pytest
import torch

import hrnn
from tests.helpers import assert_same_gradients, squares, steady, take_gradients, untouched

STEPS, PERIOD, BATCH = 14, 4, 3


def problem(betas=(0.5,)):
    torch.manual_seed(4)
    model = steady(hrnn.HRNN(2, [3, 5], [PERIOD], cell="rnn", decoder_units=4, indices="all").double())
    x, y = torch.randn(STEPS, BATCH, 2).double(), torch.randn(STEPS, BATCH, 3).double()
    return model, {"x": x, "y": y, "loss": squares, "betas": list(betas)}


def test_networks_begin_with_predicting_zero():
    model, given = problem()
    hrnn.Restricted().backward(model, **given)
    expected = take_gradients(model)
    method = hrnn.Synthetic(model)
    method.backward(model, **given)
    assert_same_gradients(take_gradients(model), expected, tolerance=1e-14)
    assert any(p.grad is not None and bool(p.grad.any()) for p in method.parameters())


def test_networks_learn_what_the_gradient_is():
    """A model that stands still, and a window with one summary that is read: its gradient is learned, and all become true."""
    model, given = problem([0.0])
    given = {**given, "x": given["x"][: 2 * PERIOD - 1], "y": given["y"][: 2 * PERIOD - 1]}
    method = hrnn.Synthetic(model, units=32)
    optimizer = torch.optim.Adam(method.parameters(), lr=0.01)
    found = []
    for _ in range(300):
        optimizer.zero_grad()
        method.backward(model, **given)
        found.append(take_gradients(model)["0.cells.0.weight_input"])
        optimizer.step()
    hrnn.Full().backward(model, **given)
    true = take_gradients(model)["0.cells.0.weight_input"]
    assert (found[0] - true).norm() > 1e-3  # which is Restricted
    assert (found[-1] - true).norm() < 0.02 * (found[0] - true).norm()


def test_networks_are_saved_and_loaded():
    model, given = problem()
    method = hrnn.Synthetic(model, units=7, layers=3)
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter)
    other = hrnn.Synthetic(model, units=7, layers=3)
    other.load_state_dict(method.state_dict())
    method.backward(model, **given)
    expected = take_gradients(model, method)
    other.backward(model, **given)
    assert_same_gradients(take_gradients(model, other), expected, tolerance=0)
    assert not any(name.startswith("model") for name in method.state_dict())


def test_without_decoders_and_in_chunks():
    torch.manual_seed(4)
    model = hrnn.HRNN(2, [3, 4, 5], [PERIOD, 2], decoders=False).double()
    method = hrnn.Synthetic(model, units=6)
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter)
    x, y = torch.randn(23, BATCH, 2).double(), torch.randn(23, BATCH, 3).double()
    method.backward(model, x, y, loss=squares)
    expected = take_gradients(model, method)
    chunks = (hrnn.Chunk(a, b) for a, b in zip(x.split(5), y.split(5), strict=True))
    weights = {"weight": 1 / (23 * BATCH), "local_weight": 1 / (23 * BATCH)}
    method.backward(model, chunks, loss=squares, **weights)
    assert_same_gradients(take_gradients(model, method), expected)


def test_bad_arguments():
    model, given = problem()
    with pytest.raises(ValueError, match=r"hidden_sizes=\[4\], one level.*use hrnn.Full or hrnn.Restricted"):
        hrnn.Synthetic(hrnn.HRNN(2, [4]))
    with pytest.raises(TypeError, match=r"model is a Linear; give the hrnn.HRNN"):
        hrnn.Synthetic(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"units is 0"):
        hrnn.Synthetic(model, units=0)
    method = hrnn.Synthetic(model)
    other = hrnn.HRNN(2, [4, 5], [PERIOD]).double()
    y = torch.randn(STEPS, BATCH, 4).double()
    with untouched(other), pytest.raises(ValueError, match=r"summaries of \[4\] numbers and Synthetic was made for \[3\]"):
        method.backward(other, given["x"], y, loss=squares)
    with (
        untouched(model),
        pytest.raises(ValueError, match=r"model is torch.float64 .*Synthetic torch.float32.*move both alike"),
    ):
        hrnn.Synthetic(model).float().backward(model, **given)
    with untouched(model), pytest.raises(ValueError, match=r"local_weight is needed for Synthetic"):
        method.backward(model, iter([hrnn.Chunk(given["x"], given["y"])]), loss=squares, betas=[0.0], weight=0.1)
    updates = hrnn.Updates(model, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    with untouched(model), pytest.raises(ValueError, match=r"updates were given to Synthetic"):
        method.backward(model, **given, updates=updates)
