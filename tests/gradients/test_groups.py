"""Segments of the lowest level that are differentiated several at a time, and what a window leaves behind."""

from __future__ import annotations

import gc

import pytest
import torch

import hrnn
from hrnn import room
from tests.helpers import METHODS, squares

pytestmark = pytest.mark.usefixtures("engine")


def test_how_many_is_chosen_by_bytes():
    small = room.segments_at_once("lstm", 64, 10, 16, numbers=1)
    assert small > 1
    assert room.segments_at_once("lstm", 256, 10, 100, numbers=1) == 1
    assert room.segments_at_once("lstm", 64, 10, 16, numbers=1, width=8) < small
    assert small * room.segment_bytes("lstm", 64, 10, 16, numbers=1) <= 2_500_000


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", [False, True])
def test_a_window_leaves_no_circles_behind(method, given):
    """Buffers in a circle of references stay until Python looks for such circles, and several windows' pile up by then."""
    model = hrnn.HRNN(2, [3, 4], [hrnn.Given(3) if given else 3])
    x, y = torch.randn(12, 2, 2), torch.randn(12, 2, 3)
    boundaries = torch.rand(12, 2) < 0.4 if given else None
    for _ in range(2):  # what is made once, such as views that torch keeps, is made in the first
        gc.collect()
        gc.freeze()  # all that is there by now need not be looked at again
        gc.disable()
        try:
            METHODS[method]().backward(model, x, y, loss=squares, betas=[0.5], boundaries=boundaries)
            left = gc.collect()
        finally:
            gc.enable()
            gc.unfreeze()
    assert left == 0
