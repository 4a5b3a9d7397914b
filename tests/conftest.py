"""Tests run side by side, one thread each."""

import signal

import pytest
import torch

from hrnn import native
from hrnn.native import functions

torch.set_num_threads(1)

# A shell without job control lets what it starts in the background ignore Ctrl-C, and children would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["native", "torch"])
def engine(request, monkeypatch):
    """Both paths: what was compiled, and torch alone."""
    if request.param == "torch":
        monkeypatch.setattr(functions, "_of_level", lambda dtype: None)
    elif native.library() is None:
        pytest.skip(f"torch computes: {native.reason()}")
    return request.param
