"""Tests run side by side, one thread each, from the same random numbers every time."""

import os
import random
import signal

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from hrnn import native
from hrnn.launching.warm import Warm
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


class Shared(Warm):
    """Whoever is done with it leaves it to the next."""

    def close(self):
        pass


@pytest.fixture(autouse=True, scope="session")
def workers_are_forked_from_one_process():
    """Before it forks it imports for seconds, which runs side by side in a process of the tests would pay for again and again.
    Those with other threads, variables or another folder have their own, as have commands in processes of their own."""

    def usual():
        others = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR")  # which pytest and torch set on the way
        return os.getcwd(), {name: value for name, value in os.environ.items() if name not in others}

    before, kept = usual(), []

    def warm(threads, log):
        if threads != 1 or usual() != before:
            return Warm(threads, log)
        if not kept or kept[-1]._process.poll() is not None:
            kept.append(Shared(threads, log))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hrnn.launching.processes.Warm", warm)
        yield
    for one in kept:
        Warm.close(one)


@pytest.fixture(params=["native", "torch"])
def engine(request, monkeypatch):
    """Both paths: what was compiled, and torch alone."""
    if request.param == "torch":
        monkeypatch.setattr(functions, "_of_level", lambda dtype: None)
    elif native.library() is None:
        pytest.skip(f"torch computes: {native.reason()}")
    return request.param
