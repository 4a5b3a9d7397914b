"""Every gradient method and the forward pass on every executor, against the literal oracle."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from hrnn import Given
from tests.conformance.cases import Case, Window, case, draw
from tests.conformance.fuzz import fuzz
from tests.conformance.sharing import check_shared
from tests.conformance.suite import METHODS, check, check_into_state, check_single, compare, expected
from tests.helpers import CELLS

EVERYWHERE, NOWHERE = tuple(range(1, 12)), tuple((t, b) for t in range(7) for b in range(2))
NAMED: dict[str, Case] = {
    "one step": case(1, 1, 1, batch=1),
    "one row": case(7, 2, periods=(2,), batch=1, output="all"),
    "one level, longer than blocks of buffers": case(3, 38, cells="gru"),
    "a segment longer than blocks of buffers": case(41, periods=(40,), batch=1),
    "more segments than indices are drawn at once": case(67, periods=(1,), indices="sampled", batch=1, cells="rnn"),
    "windows that resume every level in mid-segment": case(14, 3, 9, periods=(3, 2, 2), output="all"),
    "the same where rows part": case(
        Window(14, lengths=(14, 13)), Window(3, cuts=(1,)), Window(9, lengths=(9, 2)), periods=(3, 2, 2), cells="gru"
    ),
    "the same where boundaries are given": case(
        Window(9, boundaries=((2, 0, 0), (4, 0, 0), (5, 1, 0), (4, 0, 1))), Window(3, boundaries=((1, 0, 0),)),
        Window(4, boundaries=((0, 1, 0), (0, 1, 1), (2, 0, 0), (4, 0, 0), (4, 0, 1)), behind=True),
        periods=(Given(3), 2, Given(2)), indices="sampled",
    ),
    "resets at every level": case(
        Window(17, resets=((1, 0), (3, 1), (6, 0), (10, 1), (11, 0), (16, 0))), Window(5, resets=((0, 0), (0, 1), (4, 1))),
        periods=(3, 2, 2), output="all",
    ),
    "resets with and without a boundary, learned initial states": case(
        Window(12, resets=((3, 0), (7, 0), (4, 1)), boundaries=((3, 0, 0), (5, 0, 0), (5, 1, 0), (6, 1, 0), (6, 1, 1))),
        Window(6, resets=((0, 0), (5, 1)), boundaries=((2, 0, 0), (4, 1, 0), (6, 0, 0)), behind=True),
        periods=(Given(2), 2, Given(2)), cells="learned",
    ),
    "learned initial states": case(5, Window(7, resets=((4, 1),)), periods=(2, 2), cells="learned"),
    "pieces cut everywhere": case(
        Window(12, cuts=EVERYWHERE), Window(7, cuts=EVERYWHERE, once=True), periods=(3, 2), piece=1, round_steps=1, output="all"
    ),
    "pieces cut everywhere where rows part": case(
        Window(12, lengths=(7, 12), resets=((5, 1),), boundaries=((2, 0, 0), (3, 1, 0), (7, 0, 0), (9, 1, 0)), cuts=EVERYWHERE),
        Window(4, lengths=(4, 1), boundaries=((1, 0, 0), (1, 1, 0), (2, 0, 0), (4, 0, 0)), behind=True, cuts=EVERYWHERE),
        periods=(Given(4), 2), piece=1, round_steps=1, output="all", cells=("lstm", "minimal", "rnn"),
    ),
    "a row that ended in an earlier chunk has its boundary from there": case(
        Window(4, lengths=(1, 4), boundaries=((1, 0, 0),), cuts=(2,)), Window(3, cuts=(1,)), periods=(Given(4),), piece=1
    ),
    "a boundary in a row's padding says nothing": case(
        Window(8, lengths=(3, 8), boundaries=((4, 0, 0), (8, 1, 0)), behind=True, cuts=(4,)), 4, periods=(Given(4),), piece=4
    ),
    "a boundary that is told before a reset": case(
        Window(4, boundaries=((4, 0, 0),), behind=True), Window(4, resets=((0, 0),), boundaries=((0, 0, 0),)),
        periods=(6, Given(4)), batch=1,
    ),
    "empty rows": case(Window(3, lengths=(0, 0)), Window(4, lengths=(4, 0)), 3, periods=(2,), cells="minimal"),
    "no targets": case(Window(6, untargeted=NOWHERE), 3, periods=(2, 2)),
    "a loss of the middle level alone": case(
        Window(7, untargeted=NOWHERE), periods=(2, 2), betas=(0.0, 0.3), replay=1.0, cells=("lstm", "minimal", "lstm")
    ),
    "the same with given boundaries": case(
        Window(7, boundaries=((2, 0, 0), (3, 1, 0), (4, 0, 0), (5, 1, 0)), untargeted=NOWHERE),
        periods=(Given(3), 2), betas=(0.0, 0.3), replay=1.0,
    ),
    "no losses": case(Window(6, untargeted=NOWHERE), 3, periods=(2, 2), betas=(0.0, 0.0)),
    "symbols that are weighted": case(9, 7, 8, periods=(3,), tokens=True, symbol_weights="inverse", betas=(2.0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name):
    check(NAMED[name])


@pytest.mark.parametrize("seed", range(16))
def test_random_cases(seed):
    check(draw(seed))


@pytest.mark.parametrize("truth", ["full", "restricted"])
def test_periodic_given_boundaries_are_fixed_periods(truth):
    """Two windows, which end where both can know the same of their segments."""
    fixed, windows, start = case(14, 13, periods=(3, 2, 2), indices="sampled", output="all"), [], 0
    for steps in (14, 13):
        flags = [(t, b, j) for t in range(steps + 1) for b in (0, 1) for j, n in enumerate((3, 6, 12)) if (start + t) % n == 0]
        windows, start = [*windows, Window(steps, boundaries=tuple(flags), behind=True)], start + steps
    given = replace(fixed, windows=tuple(windows), periods=(Given(3), Given(2), Given(2)))
    compare(given, "given boundaries", expected(given, truth), expected(fixed, truth))
    check(given, {truth: METHODS[truth]})


@pytest.mark.parametrize("name", CELLS)
def test_every_cell(name):
    for seed, apart, edges in ((100, False, False), (101, True, False), (141, None, True)):
        check(draw(seed, apart, levels=3, names=[name], edges=edges))


@pytest.mark.parametrize("seed", range(200, 206))
def test_rows_in_another_order_shared_out_over_processes(seed):
    one = draw(seed, levels=seed % 3 + 1, least=3)
    for method in ("full", "restricted", *(["synthetic"] if any(one.sends) else [])):
        check_shared(one, method)


@pytest.mark.parametrize("method", METHODS)
def test_float32_is_close_to_float64(method):
    for seed, edges in ((300, False), (304, True)):
        check_single(draw(seed, levels=3, edges=edges), method)


@pytest.mark.parametrize("method", METHODS)
def test_a_state_that_wants_a_gradient_gets_it_or_is_refused(method):
    check_into_state(NAMED["windows that resume every level in mid-segment"], method)


@pytest.mark.long
def test_many_random_cases():
    assert fuzz(300, secrets.randbelow(2**31), ["methods", "in-time", "shared"]) == []
