"""Windows that are read by position: tensors, and sequences of chunks."""

from __future__ import annotations

import pytest
import torch

import hrnn
from hrnn.gradients.objective import Objective
from hrnn.gradients.steps import Positions
from hrnn.gradients.window import Window
from tests.helpers import assert_same_gradients, assert_same_state, seeded, squares, take_gradients

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
