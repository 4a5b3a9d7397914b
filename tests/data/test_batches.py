"""Batches: every row once in an epoch, by number, of about the same length; pieces that hold exactly the rows' steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hrnn
from hrnn.data import Buckets, Part, Streams, arrays, cache, chunks, crops, in_order, learn, whole
from hrnn.errors import UserError

RANDOM = np.random.default_rng(0)


def part(lengths, y=None, tokens=False, channels=2):
    x = [np.arange(n) % 5 if tokens else RANDOM.normal(size=(n, channels)) for n in lengths]
    made = cache(arrays(x, y, tokens=tokens))
    return Part(made, learn(made, {"training": whole(made)}))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=300), st.integers(1, 20), st.integers(0, 3))
def test_every_row_once_in_every_epoch(lengths, batch, seed):
    plan = Buckets(lengths, batch, seed)
    for epoch in (0, 3):
        rows = [plan.rows(epoch * plan.per_epoch + i) for i in range(plan.per_epoch)]
        assert sorted(np.concatenate(rows)) == list(range(len(lengths)))
        assert all(len(some) <= batch for some in rows)


def test_a_batch_depends_on_its_number_and_seed_only():
    lengths = RANDOM.integers(1, 1000, 500)
    one, two = Buckets(lengths, 8, 1), Buckets(lengths, 8, 1)
    for index in (150, 3, 70):
        assert np.array_equal(one.rows(index), two.rows(index))
    assert not np.array_equal(one.rows(0), one.rows(one.per_epoch))
    assert not np.array_equal(one.rows(0), Buckets(lengths, 8, 2).rows(0))


def test_batches_are_of_about_the_same_length():
    lengths = RANDOM.integers(10, 1000, 2000)
    plan = Buckets(lengths, 10)
    steps = sum(len(rows) * lengths[rows].max() for rows in map(plan.rows, range(plan.per_epoch)))
    assert steps < 1.05 * lengths.sum()
    first = [int(lengths[plan.rows(i)].max()) for i in range(20)]
    assert first != sorted(first)
    assert first != sorted(first, reverse=True)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 12), st.booleans())
def test_chunks_hold_every_step_of_every_row_once(lengths, steps, tokens):
    made = part(lengths, tokens=tokens)
    pieces = list(chunks(made, range(len(lengths)), steps))
    assert sum(len(piece.x) for piece in pieces) == max(lengths)
    for row, length in enumerate(lengths):
        found = np.concatenate([piece.x[: piece.lengths[row], row] for piece in pieces])
        np.testing.assert_array_equal(found, made.inputs(row))
        assert sum(int(piece.last[:, row].sum()) for piece in pieces) == 1
        assert np.concatenate([piece.last[:, row] for piece in pieces])[length - 1]
        assert not any(piece.x[piece.lengths[row] :, row].any() for piece in pieces)


def test_targets_of_every_kind():
    sequence = part([3, 5], y=["b", "a"])
    pieces = list(chunks(sequence, [0, 1], 4, target="sequence"))
    assert pieces[0].y.tolist() == [[1, 0]] * 3 + [[0, 0]]
    assert pieces[0].known.tolist() == [[True, True]] * 3 + [[False, True]]
    steps = part([3], y=[np.array([0, 1, np.nan])])
    (piece,) = chunks(steps, [0], 10, target="step")
    assert (piece.y[:, 0].tolist(), piece.known[:, 0].tolist()) == ([0, 1, 0], [True, True, False])
    tokens = part([6], tokens=True)
    (piece,) = chunks(tokens, [0], 10, target="next", horizon=2)
    assert piece.y[:, 0].tolist() == [[1, 2], [2, 3], [3, 4], [4, 0], [0, 0], [0, 0]]
    assert piece.known[:, 0].sum() == 9
    numbers = part([6])
    (piece,) = chunks(numbers, [0], 10, target="next")
    np.testing.assert_array_equal(piece.y[:5, 0, 0], numbers.inputs(0)[1:])
    assert piece.known[:, 0, 0, 0].tolist() == [True] * 5 + [False]


def test_pieces_go_to_the_engine_and_padding_changes_nothing():
    made = part([7, 12, 4])
    torch.manual_seed(0)
    model = hrnn.HRNN(2, hidden_sizes=[6, 6], periods=[3]).double()
    state, outputs = None, []
    for piece in chunks(made, [1, 0, 2], 5):
        x = torch.from_numpy(piece.x).double()
        output, state = model(x, state, lengths=torch.from_numpy(piece.lengths))
        outputs.append(output)
    together = torch.cat(outputs)
    for column, row in enumerate([1, 0, 2]):
        alone, _ = model(torch.from_numpy(made.inputs(row)).double()[:, None])
        torch.testing.assert_close(together[: len(alone), column], alone[:, 0], rtol=0, atol=1e-12)


def test_crops_are_somewhere_else_each_time_and_the_same_again():
    lengths = np.array([100, 5, 50])
    starts, stops = crops(lengths, 20, seed=1, index=7)
    assert (stops - starts).tolist() == [20, 5, 20]
    assert (stops <= lengths).all()
    assert np.array_equal(starts, crops(lengths, 20, 1, 7)[0])
    drawn = np.array([crops(lengths, 20, 1, index)[0] for index in range(300)])
    assert (drawn[:, 0].min(), drawn[:, 0].max(), drawn[:, 1].max()) == (0, 80, 0)
    made = part(lengths.tolist())
    (piece,) = chunks(made, [0, 2], 20, starts=starts[[0, 2]], stops=stops[[0, 2]])
    np.testing.assert_array_equal(piece.x[:, 1], made.inputs(2)[starts[2] : stops[2]])


def test_rows_in_order():
    assert [some.tolist() for some in in_order(5, 2)] == [[0, 1], [2, 3], [4]]


@settings(max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 15), st.booleans())
def test_streams_read_every_place_once(lengths, rows, window, tokens):
    if sum(lengths) < rows:
        return
    made = part(lengths, tokens=tokens)
    streams = Streams(made, rows, every=True)
    line = np.concatenate([made.inputs(row) for row in range(len(made))])
    begins = np.cumsum(lengths) - lengths
    pieces = [streams.window(first, first + window, "next") for first in range(0, streams.steps, window)]
    assert len(pieces) == streams.windows(window)
    for row in range(rows):
        found = np.concatenate([piece.x[: piece.lengths[row], row] for piece in pieces])
        np.testing.assert_array_equal(found, line[row * streams.steps : (row + 1) * streams.steps])
        reset = np.concatenate([piece.reset[:, row] for piece in pieces])
        places = np.flatnonzero(reset) + row * streams.steps
        inside = [b for b in begins if row * streams.steps < b < min((row + 1) * streams.steps, len(line))]
        assert places.tolist() == inside
        y = np.concatenate([piece.y[: piece.lengths[row], row, 0] for piece in pieces])
        known = np.concatenate([piece.known[: piece.lengths[row], row, 0] for piece in pieces])
        known = known if tokens else known.all(1)
        place = np.arange(row * streams.steps, row * streams.steps + len(found))
        assert known.tolist() == [p + 1 not in begins and p + 1 < len(line) for p in place]
        np.testing.assert_array_equal(y[known], line[np.minimum(place + 1, len(line) - 1)][known])


def test_streams_in_another_order():
    made = part([5, 9, 2])
    streams = Streams(made, 1, order=np.array([2, 0, 1]))
    window = streams.window(0, 16)
    np.testing.assert_array_equal(window.x[:, 0], np.concatenate([made.inputs(row) for row in (2, 0, 1)]))
    assert np.flatnonzero(window.reset).tolist() == [2, 7]


def test_streams_of_training_leave_out_what_fills_no_step():
    made = part([103])
    streams = Streams(made, 4)
    assert streams.steps == 25
    assert streams.window(20, 30).lengths.tolist() == [5] * 4
    np.testing.assert_array_equal(streams.window(0, 5, rows=range(2, 3)).x[:, 0], made.inputs(0)[50:55])
    with pytest.raises(UserError, match="3 steps for 4 rows"):
        Streams(part([3]), 4)
