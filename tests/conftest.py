"""Tests run side by side, one thread each, from the same random numbers every time."""

import random
import signal

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from hrnn import native
from hrnn.native import functions

torch.set_num_threads(1)

# What hypothesis draws is the same every time; make test-long asks for other examples by --hypothesis-profile.
settings.register_profile("random", deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
settings.register_profile("fixed", settings.get_profile("random"), derandomize=True)
settings.load_profile("fixed")

# A shell without job control lets what it starts in the background ignore Ctrl-C, and children would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)


@pytest.fixture(autouse=True, scope="session")
def nothing_is_measured():
    """What studies measure in child processes, which import torch: benchmarks do."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hrnn.launching.measuring.measure", lambda *_, **__: 5_000_000)
        yield


@pytest.fixture(params=["native", "torch"])
def engine(request, monkeypatch):
    """Both paths: what was compiled, and torch alone."""
    if request.param == "torch":
        monkeypatch.setattr(functions, "_of_level", lambda dtype: None)
    elif native.library() is None:
        pytest.skip(f"torch computes: {native.reason()}")
    return request.param
