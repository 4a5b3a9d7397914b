"""True gradients by running steps again: those of `Full`, whatever is kept."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from hrnn.gradients.graph_costs import costs_of
from hrnn.gradients.objective import Objective
from hrnn.gradients.pieces import Pieces
from hrnn.gradients.steps import Positions
from hrnn.gradients.window import Window
from hrnn.recomputation import within
from tests.conformance.cases import draw
from tests.conformance.suite import Method, check
from tests.helpers import assert_close, assert_same_gradients, seeded, squares, take_gradients


class Noisy(nn.Module):
    """Drops units at random, and adds noise of its own."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(input_size + hidden_size, hidden_size)

    def initial_state(self, batch: int):
        return (self.linear.weight.new_zeros(batch, self.linear.out_features),)

    def step(self, inputs, state):
        h = torch.tanh(self.linear(torch.cat([inputs, state[0]], 1)))
        return (F.dropout(h, 0.3) + 0.1 * torch.rand_like(h),)


def noisy():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [5, 4], [3], cell=Noisy, decoder_units=4).double()
    return model, torch.randn(20, 3, 2).double(), torch.randn(20, 3, 5).double()


@pytest.mark.parametrize(
    ("method", "reference"),
    [
        (hrnn.Checkpointed(), hrnn.Full()),
        (hrnn.Checkpointed(every=1), hrnn.Full()),
        (hrnn.Checkpointed(every=7), hrnn.Full()),
        (hrnn.Restricted(top="checkpointed"), hrnn.Restricted()),
    ],
    ids=["root", "every 1", "every 7", "top"],
)
def test_random_numbers_are_the_same_again(method, reference):
    model, x, y = noisy()
    results = []
    for one in (reference, method):
        torch.manual_seed(3)
        for buffer in model.buffers():
            buffer.zero_()
        result = one.backward(model, x, y, loss=squares, betas=[0.5], generator=seeded())
        results.append((result, take_gradients(model), torch.rand(3)))
    (first, expected, next_numbers), (again, got, numbers) = results
    assert_same_gradients(got, expected)
    assert_close(again.loss, first.loss)
    assert torch.equal(numbers, next_numbers)  # and go on where they would have gone on


def test_a_loss_draws_new_random_numbers_and_disturbs_nobody():
    model, x, y = noisy()
    drawn, seen = [], []

    def loss(output, target):
        drawn.append(torch.rand(4))
        seen.append(output.detach())
        return squares(F.dropout(output, 0.5), target)

    torch.manual_seed(3)
    hrnn.Checkpointed(every=4).backward(model, x, y, loss=loss, betas=[0.5], generator=seeded())
    assert len(drawn) == 5
    assert len({tuple(one.tolist()) for one in drawn}) == 5
    pieces, seen[:] = torch.cat(seen[::-1]), []
    hrnn.Full().backward(model, x, y, loss=loss, betas=[0.5], generator=seeded())
    assert_close(pieces, torch.cat(seen))  # the cells' own numbers are those of one pass


class Tight(hrnn.Checkpointed):
    """As many bytes as it must have, and some."""

    def __init__(self, some: float):
        super().__init__()
        self.some = some

    def _schedule(self, run, steps):
        costs = costs_of(run)
        return within(costs.least + int(self.some * costs.step), steps, costs)


@pytest.mark.parametrize("some", [0, 0.5, 1.5, 3, 7, 12])
def test_any_budget_gives_the_same(some):
    for seed in (10 * int(some), 10 * int(some) + 1):
        check(draw(seed), {f"{some} steps more": Method("full", lambda case, model: Tight(some))})


def test_the_loss_sees_every_step_once():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [4, 3], [3], decoder_units=5).double()
    x, y = torch.randn(50, 3, 2).double(), torch.randn(50, 3, 4).double()
    y[:, :, 0] = torch.arange(50)[:, None]
    seen = []

    def loss(output, target):
        seen.extend(target[:, 0, 0].tolist())
        return squares(output, target)

    window = Window(model, hrnn.Chunk(x, y), loss=loss, betas=[1.0], state=None, weight=1.0, local_weight=1.0, generator=None,
                    on_segment=None)  # fmt: skip
    costs = costs_of(Pieces(window, Objective(window, loss), Positions(window, "Test")))
    schedule = within(costs.least, 50, costs)
    assert schedule.forward > 100  # steps are run several times
    hrnn.Checkpointed(bytes=costs.least).backward(model, x, y, loss=loss, betas=[1.0])
    assert sorted(seen) == list(range(50))
    assert float(model.decoders[0].statistics.count) == 48 * 3


def test_bad_arguments():
    model = hrnn.HRNN(2, [3, 2], [2], decoder_units=3)
    x, y = torch.randn(5, 2, 2), torch.randn(5, 2, 3)
    with pytest.raises(ValueError, match="every is 3 and bytes is 1000; give one of them"):
        hrnn.Checkpointed(every=3, bytes=1000)
    with pytest.raises(ValueError, match="every is 0; give at least 1 step"):
        hrnn.Checkpointed(every=0)
    with pytest.raises(ValueError, match=r"bytes is 1\.5; give a number of bytes"):
        hrnn.Checkpointed(bytes=1.5)
    with pytest.raises(
        ValueError, match=r"bytes is 1000, and two states and the graph of one step take .*; give at least that"
    ):
        hrnn.Checkpointed(bytes=1000).backward(model, x, y, loss=squares)
    with pytest.raises(
        TypeError, match=r"x is a list_iterator, which can be read only once, and Checkpointed runs steps again"
    ):
        hrnn.Checkpointed().backward(model, iter([(x, y)]), loss=squares, weight=1.0, local_weight=1.0)
    with pytest.raises(
        ValueError, match="updates were given to Checkpointed: its gradient is complete only at the window's end"
    ):
        hrnn.Checkpointed().backward(
            model, x, y, loss=squares, updates=hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
        )


def test_levels_are_told_of_once_at_the_end():
    torch.manual_seed(0)
    model, told = hrnn.HRNN(2, [4, 3], [3], decoder_units=5), []
    x, y = torch.randn(7, 3, 2), torch.randn(7, 3, 4)
    for method in (hrnn.Checkpointed(every=3), hrnn.Restricted(top="checkpointed")):
        told.clear()
        method.backward(model, x, y, loss=squares, on_segment=lambda at: told.append((at.level, at.step)))
        assert told == [(0, 7), (1, 7)]
