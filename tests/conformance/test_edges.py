"""What levels read, how contexts come down and burn-in, with every gradient method on every executor, against the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from hrnn import Given
from tests.conformance.cases import Case, Window, case, draw
from tests.conformance.suite import EXECUTORS, METHODS, check, check_in_time, check_into_state

EVERYWHERE = tuple(range(1, 12))
EDGES: dict[str, dict[str, Any]] = {  # of four levels
    "inputs": {"reads": ("inputs",) * 3, "context": ("state",) * 3, "output": "all", "burn_in": 5, "segments": (2, 3, 1)},
    "inputs, tokens": {
        "reads": ("inputs",) * 3, "reader": ("maximum",) * 3, "context": ("input", "state", "input"), "cells": "gru",
        "burn_in": 2, "tokens": True,
    },
    "both": {"reads": ("both",) * 3, "reader": ("linear", "maximum", "tanh"), "context": ("state", "input", "state")},
    "inputs, and a summary above": {
        "reads": ("inputs", "both", "inputs"), "reader": ("tanh", "linear", "maximum"), "context": ("state", "input", "state"),
        "cells": ("opened", "minimal", "rnn", "learned"), "burn_in": 3, "segments": (2, 1, 1), "output": "all",
    },
    "a summary, and inputs above": {
        "reads": ("summary", "inputs", "both"), "reader": ("linear", "linear", "maximum"), "tokens": True, "indices": "sampled",
        "cells": ("rnn", "opened", "gru", "lstm"), "context": ("input", "state", "state"), "symbol_weights": "inverse",
    },
}  # fmt: skip
WINDOWS: dict[str, tuple[Window | int, ...]] = {  # of periods 3, 2, 2
    "every level is resumed in mid-segment": (14, 3, 9),
    "resets at every level": (
        Window(17, resets=((1, 0), (3, 1), (6, 0), (10, 1), (11, 0), (16, 0))), Window(5, resets=((0, 0), (0, 1), (4, 1))), 8,
    ),
    "pieces cut everywhere": (Window(12, cuts=EVERYWHERE), Window(7, cuts=EVERYWHERE, once=True)),
    "unequal lengths": (Window(2, lengths=(0, 2)), Window(14, lengths=(13, 2), cuts=(5,)), Window(9, lengths=(3, 9))),
}  # fmt: skip
# Row 0 has segments that are longer than the reach, row 1 shorter ones; a row that starts over has nothing to read.
GIVEN = (
    Window(11, boundaries=((1, 1, 0), (2, 1, 0), (2, 1, 1), (4, 1, 0), (5, 0, 0), (5, 1, 0), (7, 0, 0), (7, 1, 0), (7, 1, 1),
                           (8, 0, 0), (10, 0, 0), (10, 0, 1)), cuts=(6,)),
    Window(4, boundaries=((1, 0, 0), (2, 0, 0), (3, 0, 0), (3, 1, 0), (4, 0, 0), (4, 0, 1)), behind=True),
    Window(8, lengths=(8, 5), resets=((3, 0),), boundaries=((1, 0, 0), (2, 1, 0), (4, 0, 0), (5, 0, 0), (5, 0, 1), (7, 0, 0))),
)  # fmt: skip


def four_levels(edges: str, windows: str) -> Case:
    options = EDGES[edges] | {"piece": 2, "round_steps": 4}
    if windows == "given boundaries":
        return case(*GIVEN, periods=(Given(3), 2, Given(2)), **options)
    return case(*WINDOWS[windows], periods=(3, 2, 2), **options)


ALL = [
    pytest.param(edges, windows, marks=() if edges == "inputs" or windows == "given boundaries" else pytest.mark.long)
    for edges in EDGES
    for windows in (*WINDOWS, "given boundaries")
]
ONE = {"literal": EXECUTORS["literal"]}  # compiled code does not serve these edges


@pytest.mark.parametrize(("edges", "windows"), ALL)
def test_four_levels(edges, windows):
    check(four_levels(edges, windows), executors=ONE)


@pytest.mark.parametrize(("edges", "windows"), ALL)
def test_four_levels_in_time(edges, windows):
    check_in_time(four_levels(edges, windows))


@pytest.mark.parametrize("seed", range(600, 616))
def test_random_cases(seed):
    check(draw(seed, edges=True))


@pytest.mark.parametrize("seed", range(700, 720))
def test_random_cases_in_time(seed):
    check_in_time(draw(seed))


@pytest.mark.parametrize("method", METHODS)
def test_a_state_that_wants_a_gradient_gets_it_or_is_refused(method):
    check_into_state(four_levels("inputs, and a summary above", "every level is resumed in mid-segment"), method)
