"""Gradients truncated within the window: consecutive windows of `Full`, with the whole window's weights and seed."""

from __future__ import annotations

import pytest
import torch

import hrnn
from tests.helpers import squares


def test_each_shorter_window_is_told_of():
    torch.manual_seed(0)
    model, told = hrnn.HRNN(2, [4, 3], [3], decoder_units=5), []
    x, y = torch.randn(7, 3, 2), torch.randn(7, 3, 4)
    hrnn.Truncated(3).backward(model, x, y, loss=squares, on_segment=lambda at: told.append((at.level, at.step)))
    assert told == [(0, 3), (1, 3), (0, 6), (1, 6), (0, 7), (1, 7)]


def test_bad_arguments():
    with pytest.raises(ValueError, match="steps is 0; give at least 1 step"):
        hrnn.Truncated(0)
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    x, y = torch.randn(5, 2, 2), torch.randn(5, 2, 3)
    with pytest.raises(ValueError, match="updates were given to Truncated"):
        hrnn.Truncated(2).backward(model, x, y, loss=squares, updates=hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1)))
