"""Levels that move within a window, on every executor, against the loop by hand."""

from __future__ import annotations

import secrets

import pytest
import torch

import hrnn
from hrnn import Given
from tests.conformance.cases import Window, case, draw
from tests.conformance.fuzz import fuzz
from tests.conformance.moving import check_moves, check_standing
from tests.conformance.sharing import check_shared
from tests.conformance.suite import EXECUTORS
from tests.helpers import squares

TOGETHER = {
    "two levels": case(12, 7, periods=(3,)),
    "three levels, from mid-segment on": case(17, 8, periods=(2, 3), every=(2, 1, None), optimizer="adam"),
    "four levels, chunks": case(Window(14, cuts=(1, 5)), 13, periods=(1, 2, 3), every=(3, 2, 1, 1), clip=0.05, output="all"),
    "few targets": case(Window(12, untargeted=tuple((t, b) for t in range(12) for b in range(2) if (t, b) != (4, 1))), 5,
                        periods=(2, 2), betas=(0.0, 0.0), optimizer="momentum"),
    "several segments in a batch": case(22, 7, periods=(3,), reads=("inputs",), context=("state",), burn_in=2, segments=(2,)),
    "a rest that joins the batch before, one that does not": case(
        28, 22, 31, periods=(3,), reads=("inputs",), segments=(4,), output="all", cells="gru", optimizer="momentum"
    ),
    "batches of batches, chunks": case(
        Window(27, cuts=(1, 5, 17)), 14, periods=(2, 1, 3), reads=("inputs",) * 3, context=("state",) * 3, segments=(3, 2, 2),
        every=(2, 1, 1, 1), optimizer="adam", output="all",
    ),
    "several segments below one whose summary is read": case(
        25, 9, periods=(2, 4), reads=("inputs", "both"), reader=("maximum", "linear"), segments=(3, 1), every=(1, 2, 1),
    ),
    "several segments above one whose summary is read": case(
        25, 9, periods=(2, 2, 2), reads=("summary", "inputs", "inputs"), segments=(1, 1, 2), every=(2, 1, 1, 1),
    ),
}  # fmt: skip
APART = {
    "two levels": case(Window(12, boundaries=((2, 0, 0), (4, 0, 0), (5, 1, 0), (9, 0, 0), (11, 1, 0))), periods=(Given(3),)),
    "three levels": case(
        Window(14, lengths=(14, 11), resets=((6, 1),), boundaries=((2, 0, 0), (4, 0, 0), (5, 1, 0), (8, 0, 0), (9, 1, 0))),
        Window(5, boundaries=((1, 0, 0), (3, 1, 0))), periods=(Given(3), 2), every=(2, 1, 1), optimizer="adam",
    ),
    "several segments in a batch": case(
        Window(24, lengths=(24, 11), resets=((6, 1),)), Window(13, lengths=(5, 13)), periods=(2, 2), reads=("inputs",) * 2,
        context=("state", "input"), segments=(3, 2), burn_in=3, output="all", optimizer="momentum",
    ),
    "several segments in a batch, given boundaries": case(
        Window(16, boundaries=((2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 1, 0), (9, 0, 0), (10, 1, 0), (11, 0, 0), (12, 0, 0),
                               (13, 0, 0), (14, 1, 0), (15, 0, 0))), 7,
        periods=(Given(3), 2), reads=("inputs", "inputs"), segments=(2, 2), optimizer="adam",
    ),
    "several segments in a batch, rounds": case(
        Window(24, lengths=(24, 17), cuts=(4, 9)), 7, periods=(2,), reads=("inputs",), segments=(3,), round_steps=10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_together(name):
    check_moves(TOGETHER[name])


@pytest.mark.parametrize("name", APART)
def test_rows_apart(name):
    check_moves(APART[name])


@pytest.mark.parametrize("seed", range(12))
def test_random_cases_of_rows_together(seed):
    check_moves(draw(seed, apart=False))


@pytest.mark.parametrize("seed", range(12))
def test_random_cases_of_rows_apart(seed):
    check_moves(draw(seed, apart=True))


@pytest.mark.parametrize("seed", range(400, 408))
def test_levels_that_may_move_and_stand_still_get_the_gradient_of_the_window(seed):
    check_standing(draw(seed))


@pytest.mark.parametrize("seed", range(500, 504))
def test_rows_shared_out_over_processes(seed):
    check_shared(draw(seed, apart=False, least=3), moves=True)


@pytest.mark.parametrize("seed", range(500, 504))
def test_rows_that_part_shared_out_over_processes(seed):
    check_shared(draw(seed, apart=True, least=3), moves=True)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("step", [1, 7, 11])
@pytest.mark.parametrize("lengths", [None, [12, 12, 7]])
def test_a_window_fails_before_the_move_that_would_use_a_number_that_is_not_finite(step, lengths, executor):
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 4], [3], decoder_units=3).double()
    x, y = torch.randn(12, 3, 2).double(), torch.randn(12, 3, 3).double()
    x[step, 0, 0] = float("nan")
    weights = []

    def keep(*_):
        weights.append([p.detach().clone() for p in model.parameters()])

    keep()
    updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=0.1), after=keep)
    with EXECUTORS[executor](), pytest.raises((ValueError, ArithmeticError), match="finite"):
        hrnn.Restricted().backward(model, x, y, loss=squares, betas=[0.5], lengths=lengths, updates=updates)
    assert updates.moves == [step // 3, 0]
    assert all(torch.equal(now, before) for now, before in zip(model.parameters(), weights[-1], strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.long
@pytest.mark.parametrize("rows", ["together", "apart"])
def test_many_random_cases(rows):
    assert fuzz(500, secrets.randbelow(2**31), ["standing", rows, f"shared-{rows}"]) == []
