"""Both methods, and a model with a window for it."""

from __future__ import annotations

import pytest
import torch

import hrnn
from tests.gradients.problems import BATCH, PERIODS, STEPS
from tests.helpers import (
    METHODS,
    seeded,
    squares,
    steady,
)
from tests.user_cells import MinimalGRU


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]()


@pytest.fixture(params=[*PERIODS, "user"])
def problem(request):
    """A model of three levels, a window that starts in mid-segment, and the arguments for it."""
    torch.manual_seed(5)
    periods = PERIODS.get(request.param, [2, 2])
    cell = MinimalGRU if request.param == "user" else "lstm"
    model = steady(hrnn.HRNN(2, [3, 4, 2], periods, cell=cell, decoder_units=3, indices="sampled").double())
    x, y = torch.randn(STEPS + 3, BATCH, 2).double(), torch.randn(STEPS, BATCH, 3).double()
    flags = None if periods == [2, 2] else (torch.rand(STEPS + 4, BATCH) < 0.4)
    _, state = model(x[:3], boundaries=None if flags is None else flags[:3])
    options = {"x": x[3:], "y": y, "state": state.detach(), "boundaries": None if flags is None else flags[3:]}
    return model, options | {"loss": squares, "betas": [0.5, 0.2], "generator": seeded()}
