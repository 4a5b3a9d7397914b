"""Restricted gradients with a checkpointed top level: those of `Restricted`, block by block."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import hrnn
from hrnn.gradients.restricted import to_next_tick
from hrnn.schedules import InPhase
from hrnn.segments import Clock
from tests.helpers import squares


@given(st.lists(st.integers(1, 4), max_size=3), st.integers(0, 100))
def test_the_next_tick_of_the_top(periods, steps):
    schedule = InPhase(periods, Clock.start(1, len(periods)))
    for _ in schedule.moments(steps):
        pass
    for clock in (schedule.clock, schedule.closed()):
        found = to_next_tick(periods, clock.position[0].tolist())
        size = int(torch.tensor(periods).prod()) if periods else 1
        assert found == -steps % size


def test_bad_arguments():
    with pytest.raises(ValueError, match="top is 'kept'; expected one of 'stored', 'checkpointed'"):
        hrnn.Restricted(top="kept")
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    x, y = torch.randn(5, 2, 2), torch.randn(5, 2, 3)
    updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
    with pytest.raises(
        ValueError, match=r"updates were given to Restricted\(top='checkpointed'\): .*; use hrnn.Restricted\(\)"
    ):
        hrnn.Restricted(top="checkpointed").backward(model, x, y, loss=squares, updates=updates)
    with pytest.raises(TypeError, match=r"read only once, and Restricted\(top='checkpointed'\) runs steps again"):
        hrnn.Restricted(top="checkpointed").backward(model, iter([(x, y)]), loss=squares, weight=1.0, local_weight=1.0)
