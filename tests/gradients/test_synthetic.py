"""Predicted gradients of summaries: a loop by hand does the same, and what cannot be predicted is refused."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import hrnn
from tests.helpers import assert_close, assert_same_gradients, squares, steady, take_gradients, untouched

STEPS, PERIOD, BATCH = 14, 4, 3


def problem(betas=(0.5,)):
    torch.manual_seed(4)
    model = steady(hrnn.HRNN(2, [3, 5], [PERIOD], cell="rnn", decoder_units=4, indices="all").double())
    x, y = torch.randn(STEPS, BATCH, 2).double(), torch.randn(STEPS, BATCH, 3).double()
    return model, {"x": x, "y": y, "loss": squares, "betas": list(betas)}


def tick(cell, u, state, context=None):
    gates = u @ cell.weight_input.t() + cell.bias + state @ cell.weight_hidden.t()
    return torch.tanh(gates if context is None else gates + context @ cell.weight_context.t())


def by_hand(model, networks, x, y, beta):
    """One window of two levels: loss, local loss and the networks' loss, with the graph that the update is made from."""
    low, high = model.cells
    h, g = torch.zeros(BATCH, 3).double(), torch.zeros(BATCH, 5).double()
    total, read, inputs = torch.zeros(()).double(), [], []
    decoder, scale = model.decoders[0], model.decoders[0].statistics.scale()
    for t in range(STEPS):
        if t % PERIOD == 0:
            if t:
                predicted = networks[0][2](F.relu(networks[0][0](h))).detach() / (STEPS * BATCH)
                total = total + (predicted * h).sum()
                index = torch.arange(1, PERIOD + 1)[:, None].expand(-1, BATCH)
                targets = torch.stack(inputs[::-1])
                errors = decoder.loss(h, index, targets, PERIOD) * scale.factor
                total = total + beta * errors.sum() * PERIOD / (STEPS * BATCH)
            summary = h.detach().requires_grad_()
            read += [summary] if t else []
            g, inputs = tick(high, summary, g), []
            h = tick(low, x[t], torch.zeros_like(h), g)
        else:
            h = tick(low, x[t], h)
        inputs.append(x[t])
        total = total + squares(h, y[t]).sum() / (STEPS * BATCH)
    arrived = torch.autograd.grad(total, read, retain_graph=True)
    errors = 0.0
    for summary, gradient in zip(read, arrived, strict=True):
        said = networks[0][2](F.relu(networks[0][0](summary.detach())))
        errors = errors + PERIOD * (said - gradient * STEPS * BATCH).square().mean(-1).sum() / (STEPS * BATCH)
    return total, errors


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("lengths", [None, [STEPS] * BATCH])  # all rows together, or in rounds
def test_training_is_that_of_a_loop_by_hand(beta, lengths):
    runs = []
    for own in (True, False):
        model, given = problem([beta])
        method = hrnn.Synthetic(model, units=6)
        parameters = [*model.parameters(), *method.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.02)
        for _ in range(6):
            optimizer.zero_grad()
            if own:
                method.backward(model, **given, lengths=lengths)
            else:
                total, errors = by_hand(model, method.networks, given["x"], given["y"], beta)
                total.backward(retain_graph=True)
                errors.backward()
            optimizer.step()
        runs.append({**dict(model.named_parameters()), **dict(method.named_parameters())})
    start = dict(problem()[0].named_parameters())
    for name, value in runs[0].items():
        assert_close(value, runs[1][name], name)
        assert name not in start or beta == 0 or not torch.equal(value, start[name]), name


def test_networks_begin_with_predicting_zero():
    model, given = problem()
    hrnn.Restricted().backward(model, **given)
    expected = take_gradients(model)
    method = hrnn.Synthetic(model)
    method.backward(model, **given)
    assert_same_gradients(take_gradients(model), expected, tolerance=0)
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
