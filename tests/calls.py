"""A call that works, by forward and by both gradient methods, for tests that change one argument of it."""

from __future__ import annotations

import torch

import hrnn
from tests.helpers import METHODS, seeded, squares

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


def nan_at(step, row):
    x = torch.randn(STEPS, BATCH, 2)
    x[step, row, 1] = float("nan")
    return x


VECTORS, TOKENS, GIVEN = {}, {"inputs": hrnn.Tokens(4)}, {"periods": (hrnn.Given(2), hrnn.Given(2))}


NUMBERS = torch.randint(4, (STEPS, BATCH), generator=seeded())


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def small(**options):
    torch.manual_seed(0)
    return hrnn.HRNN(2, [3, 2], [2], decoder_units=3, **options)


def window(**changes):
    torch.manual_seed(1)
    return {"x": torch.randn(5, 3, 2), "y": torch.randn(5, 3, 3), "loss": squares, "betas": [0.1]} | changes
