"""Segments of the lowest level that are differentiated several at a time: the same numbers, in the memory that was said."""

from __future__ import annotations

import gc

import pytest
import torch

import hrnn
from hrnn import room
from tests.gradients.moving import make_loss, sgd
from tests.helpers import METHODS, assert_close, assert_same_state, seeded, squares, steady, take_gradients

pytestmark = pytest.mark.usefixtures("engine")
BATCH, STEPS, FIRST = 3, 61, 7
CASES = {
    "two levels": {"periods": [4], "hidden_sizes": [5, 6]},
    "three levels": {"periods": [4, 3], "hidden_sizes": [5, 6, 7]},
    "all indices": {"periods": [3, 4], "hidden_sizes": [5, 6, 7], "indices": "all"},
    "gru": {"periods": [4, 3], "hidden_sizes": [5, 6, 7], "cell": "gru"},
    "rnn": {"periods": [1, 5], "hidden_sizes": [3, 4, 5], "cell": "rnn"},
}


def two_windows(options, vectors, segments_at_once, chunk=None, every=None):
    """A short window and a long one, which begins in mid-segment: gradients or, where levels move, weights, and the rest."""
    torch.manual_seed(3)
    model = steady(hrnn.HRNN(2 if vectors else hrnn.Tokens(3), **options).double())
    head = torch.nn.Linear(model.hidden_sizes[0], 1).double()
    x = torch.randn(STEPS, BATCH, 2).double() if vectors else torch.randint(3, (STEPS, BATCH))
    y, mask = torch.randn(STEPS, BATCH).double(), torch.rand(STEPS, BATCH) < 0.7
    updates = None if every is None else hrnn.Updates(model, sgd, heads=head.parameters(), every=every)
    method, state, found = hrnn.Restricted(segments_at_once=segments_at_once), None, {}
    common = {"loss": make_loss(head), "betas": [0.5] * len(model.periods), "weight": 0.01, "local_weight": 0.01}
    for start, stop in ((0, FIRST), (FIRST, STEPS)):
        options = common | {"state": state, "updates": updates, "generator": seeded()}
        if chunk is None:
            part = x[start:stop].clone().requires_grad_(vectors and every is None)
            result = method.backward(model, part, y[start:stop], mask=mask[start:stop], **options)
            if part.grad is not None:
                found[f"x {start}"] = part.grad
        else:
            edges = range(start, stop, chunk)
            chunks = [(x[a : min(a + chunk, stop)], y[a : min(a + chunk, stop)], mask[a : min(a + chunk, stop)]) for a in edges]
            result = method.backward(model, chunks, **options)
        state = result.state
        found |= {f"loss {start}": result.loss, f"local losses {start}": result.local_losses}
    weights = {name: p.detach().clone() for m in (model, head) for name, p in m.named_parameters()}
    return found | (take_gradients(model, head) if every is None else weights), state


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("chunk", [None, 9])
def test_any_number_of_segments_at_once_gives_the_same(name, vectors, chunk):
    expected, state = two_windows(CASES[name], vectors, 1, chunk)
    for segments_at_once in (2, 100, None):
        found, after = two_windows(CASES[name], vectors, segments_at_once, chunk)
        assert set(found) == set(expected)
        for what, value in expected.items():
            assert_close(found[what], value, what, tolerance=1e-12)
        assert_same_state(after, state)


@pytest.mark.parametrize("every", [1, 2, 3, [4, 1, None], [None, 2, None]])
def test_levels_move_where_they_did(every):
    expected, _ = two_windows(CASES["three levels"], False, 1, every=every)
    for segments_at_once in (2, 100):
        found, _ = two_windows(CASES["three levels"], False, segments_at_once, every=every)
        for what, value in expected.items():
            assert_close(found[what], value, what, tolerance=1e-12)


def test_groups_end_with_the_segment_above_and_with_the_chunk():
    """What `on_segment` is told shows how segments were grouped: periods 2 and 3 in chunks of 11 and 9 steps."""
    model = steady(hrnn.HRNN(2, [3, 4, 2], [2, 3], decoder_units=3).double())
    x, y, told = torch.randn(20, 2, 2).double(), torch.randn(20, 2, 3).double(), []
    chunks = [hrnn.Chunk(x[:11], y[:11]), hrnn.Chunk(x[11:], y[11:])]
    options = {"loss": squares, "betas": [0.5, 0.2], "weight": 0.1, "local_weight": 0.1}
    hrnn.Restricted(segments_at_once=2).backward(model, chunks, on_segment=lambda e: told.append((e.level, e.step)), **options)
    lowest = [step for level, step in told if level == 0]
    # At most two at once; three to a segment above (6, 12, 18); the sixth crosses the chunks' edge at 11.
    assert lowest == [4, 6, 10, 12, 16, 18, 20]
    assert [step for level, step in told if level == 1] == [6, 12, 18, 20]


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
        gc.disable()
        try:
            METHODS[method]().backward(model, x, y, loss=squares, betas=[0.5], boundaries=boundaries)
            left = gc.collect()
        finally:
            gc.enable()
    assert left == 0
