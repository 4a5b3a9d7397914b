"""Gradients truncated within the window: consecutive windows of `Full`, with the whole window's weights and seed."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import hrnn
from tests.gradients.comparing import assert_same, run, settings_of, weights
from tests.helpers import (
    PROPERTY,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    seeded,
    squares,
    steady,
    take_gradients,
)

pytestmark = pytest.mark.usefixtures("engine")


def consecutive(setting, steps, state, number):
    """`Full`, window by window, each told what comes behind it."""
    window = setting.windows[number]
    total, flags, sums = len(window["x"]), window["boundaries"], []
    x = window["x"].clone()
    x.requires_grad_(x.is_floating_point())
    grads = []
    for a in range(0, total, steps):
        b = min(total, a + steps)
        if flags is not None and window["lengths"] is not None:  # a row that was over before: what follows is padding
            over = (window["lengths"] < a).view(1, -1, *[1] * (flags.dim() - 2))
            flags = flags.masked_fill(over, False)
        part = x[a:b].detach().requires_grad_(x.requires_grad)
        result = hrnn.Full().backward(
            setting.model, part, window["y"][a:b], loss=setting.loss, betas=setting.betas, state=state,
            generator=seeded(number), **weights(window),
            mask=None if window["mask"] is None else window["mask"][a:b],
            reset=None if window["reset"] is None else window["reset"][a:b],
            boundaries=None if flags is None else flags[a : b + 1],
            lengths=None if window["lengths"] is None else (window["lengths"] - a).clamp(0, b - a),
        )  # fmt: skip
        state = result.state
        sums.append(result)
        grads.append(torch.zeros_like(part) if part.grad is None else part.grad)
    return state, sums, take_gradients(setting.model, setting.head), torch.cat(grads) if x.requires_grad else None


@given(settings_of(), st.integers(1, 9))
@PROPERTY
def test_it_is_consecutive_windows(setting, steps):
    steady(setting.model)  # statistics do not change from one window to the next
    state = None
    for number in range(len(setting.windows)):
        mine, got, d_x = run(setting, hrnn.Truncated(steps), state, number)
        after, parts, expected, d_expected = consecutive(setting, steps, state, number)
        assert_same_gradients(got, expected)
        assert_same_state(mine.state, after)
        if d_expected is not None:
            assert_close(torch.zeros_like(d_expected) if d_x is None else d_x, d_expected)
        assert_close(mine.loss_sum, sum(part.loss_sum for part in parts))
        assert_close(mine.local_sums.nan_to_num(), sum(part.local_sums.nan_to_num() for part in parts))
        assert mine.targets == sum(part.targets for part in parts)
        assert mine.steps == sum(part.steps for part in parts)
        for name, value in mine.metrics.items():
            assert float(value) == sum(float(part.metrics.get(name, 0)) for part in parts)
        state = mine.state


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("behind", [False, True])
def test_boundaries_in_padding_do_not_end_a_segment(behind, chunks):
    """Row 0 is over in the first shorter window; a boundary in the second one says nothing of it, only one right behind."""
    model = hrnn.HRNN(2, [3, 3], [hrnn.Given(4)], decoder_units=5).double()
    x, y = torch.randn(8, 2, 2).double(), torch.randn(8, 2, 3).double()
    boundaries = torch.zeros(9, 2, dtype=torch.bool)
    boundaries[[3, 4, 8], [0, 0, 1]] = torch.tensor([behind, True, True])
    parts = [
        hrnn.Chunk(x[a:b], y[a:b], boundaries=boundaries[a:b], lengths=[max(0, min(3, b) - a), min(8, b) - a])
        for a, b in ([(0, 9)] if chunks == 1 else [(0, 4), (4, 9)])
    ]
    after = {}
    for name, method in (("full", hrnn.Full()), ("truncated", hrnn.Truncated(4))):
        after[name] = method.backward(model, parts, loss=squares, betas=[1.0], weight=0.1, local_weight=0.1).state
    assert after["truncated"].clock.position.tolist() == [[0 if behind else 3], [0]]
    assert after["truncated"].skipped.tolist() == [[0], [0]]
    assert_same_state(after["truncated"], after["full"])


@given(settings_of(most=10))
@PROPERTY
def test_as_long_as_the_window_it_is_full(setting):
    assert_same(setting, hrnn.Truncated(10), hrnn.Full())


@given(settings_of(), st.integers(1, 9), st.sets(st.integers(1, 13), max_size=4), st.booleans())
@PROPERTY
def test_chunks_change_nothing_even_from_an_iterator(setting, steps, edges, iterator):
    class Method(hrnn.Gradient):
        def backward(self, model, x, *rest, **options):
            return hrnn.Truncated(steps).backward(model, iter(x) if iterator else x, *rest, **options)

        def differentiate(self, window, objective, updates):
            raise NotImplementedError

    assert_same(setting, Method(), hrnn.Truncated(steps), chunks=edges)


def test_statistics_are_those_of_one_window():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [4, 3], [3], decoder_units=5).double()
    x, y = torch.randn(12, 3, 2).double() * 3 + 7, torch.randn(12, 3, 4).double()
    hrnn.Truncated(3).backward(model, x, y, loss=squares, betas=[1.0])
    known = model.decoders[0].statistics
    assert_close(known.variance, x.flatten(0, 1).var(0, correction=0).mean())
    assert float(known.count) == 36


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
