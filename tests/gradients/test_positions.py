"""Windows that are read by position: tensors and sequences of chunks, cut anywhere, give the same steps."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import hrnn
from hrnn.gradients.objective import Objective
from hrnn.gradients.positions import Positions
from hrnn.gradients.window import Window
from tests.gradients.cases import cases, chunked, cuts
from tests.helpers import PROPERTY, assert_same_gradients, assert_same_state, seeded, squares, take_gradients

NOTHING = {"state": None, "betas": None, "weight": 1.0, "local_weight": 1.0, "generator": None, "on_segment": None}


class Read:
    """A sequence without an iterator of its own, that counts what is read."""

    def __init__(self, chunks):
        self.given, self.read = chunks, []

    def __len__(self):
        return len(self.given)

    def __getitem__(self, number):
        self.read.append(number)
        return self.given[number]


def window_of(model, chunk):
    return Window(model, chunk, loss=squares, **NOTHING)


@given(st.data(), cases(resets=True))
@PROPERTY
def test_any_cut_of_tensors_and_of_chunks_is_the_window(data, pair):
    case, reset = pair
    lengths = torch.randint(case.steps + 1, (case.batch,), generator=case.generator)
    lengths = lengths if data.draw(st.booleans()) else None
    whole = window_of(case.model, hrnn.Chunk(case.x, case.y, None, case.flags, lengths, reset))
    (expected,) = whole
    parts = [hrnn.Chunk(c.x, c.y, None, c.boundaries, c.lengths, c.reset) for c in
             chunked(case, case.flags, reset, lengths, cuts(case, data))]  # fmt: skip
    own = Positions(window_of(case.model, hrnn.Chunk(case.x, case.y, None, case.flags, lengths, reset)), "Test")
    window = window_of(case.model, hrnn.Chunk(Read(parts)))
    other = Positions(window, "Test")
    assert own.steps == other.steps == case.steps
    assert window.row_steps == whole.row_steps
    for start, stop in cuts(case, data):
        for positions in (own, other):
            found = list(positions.chunks(start, stop))
            assert torch.equal(torch.cat([c.x for c in found]), case.x[start:stop])
            assert torch.equal(torch.cat([c.y for c in found]), case.y[start:stop])
            steps = [len(c.x) for c in found]
            valid = torch.cat([
                torch.arange(n)[:, None].expand(-1, case.batch) < (n if c.lengths is None else c.lengths)
                for n, c in zip(steps, found, strict=True)
            ])  # fmt: skip
            counts = valid.sum(0)
            left = stop - start if lengths is None else (lengths - start).clamp(0, stop - start)
            assert torch.equal(counts, torch.as_tensor(left).expand(case.batch))
            if case.flags is not None:
                flags = torch.cat([c.boundaries[:n] for n, c in zip(steps, found, strict=True)])
                assert torch.equal(flags, case.flags[start:stop])
                assert torch.equal(found[-1].boundaries[-1], case.flags[stop])  # what comes behind is known
                assert all(len(c.boundaries) == n for n, c in zip(steps[:-1], found[:-1], strict=True))
            marks = [
                torch.zeros(n, case.batch).bool() if c.reset is None else c.reset for n, c in zip(steps, found, strict=True)
            ]
            given_marks = torch.zeros(stop - start, case.batch).bool() if expected.reset is None else expected.reset[start:stop]
            assert torch.equal(torch.cat(marks), given_marks)


@pytest.mark.parametrize("method", [hrnn.Full, hrnn.Restricted])
def test_every_method_reads_a_sequence_that_is_no_iterable(method):
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3).double().eval()
    x, y = torch.randn(7, 2, 2).double(), torch.randn(7, 2, 3).double()
    options = {"loss": squares, "betas": [0.5], "weight": 0.1, "local_weight": 0.1, "generator": seeded()}
    whole = method().backward(model, x, y, **options)
    expected = take_gradients(model)
    source = Read([hrnn.Chunk(a, b) for a, b in zip(x.split(3), y.split(3), strict=True)])
    result = method().backward(model, source, **options)
    assert source.read == [0, 1, 2]
    assert_same_gradients(take_gradients(model), expected)
    assert_same_state(result.state, whole.state)


def test_what_cannot_be_read_again_is_refused():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    chunks = [hrnn.Chunk(torch.randn(n, 2, 2), torch.randn(n, 2, 3)) for n in (3, 2, 4)]
    with pytest.raises(
        TypeError, match=r"x is a generator, which can be read only once, and Test runs steps again; .* list\(x\)"
    ):
        Positions(window_of(model, hrnn.Chunk(chunk for chunk in chunks)), "Test")
    source = Read(list(chunks))
    positions = Positions(window_of(model, hrnn.Chunk(source)), "Test")
    source.given[1] = chunks[0]
    with pytest.raises(ValueError, match=r"x\[1\] had 2 steps when it was first read and has 3 now"):
        list(positions.chunks(2, 5))


def test_a_chunk_is_read_only_where_it_is_needed():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    source = Read([hrnn.Chunk(torch.randn(4, 2, 2), torch.randn(4, 2, 3)) for _ in range(3)])
    positions = Positions(window_of(model, hrnn.Chunk(source)), "Test")
    assert source.read == [0, 1, 2]
    for start, stop in ((start, start + 2) for start in range(10, -1, -2)):
        assert len(list(positions.chunks(start, stop))) == 1
    assert source.read == [0, 1, 2, 1, 0]


def test_the_objective_counts_the_steps_once():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    window = window_of(model, hrnn.Chunk(torch.randn(5, 2, 2), torch.randn(5, 2, 3)))
    positions = Positions(window, "Test")
    for _ in range(3):
        list(positions.chunks(0, 5))
    assert Objective(window, squares).result(window.state).steps == 10
