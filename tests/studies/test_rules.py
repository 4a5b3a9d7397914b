"""Verdicts: what each rule says of runs that are clear, that overlap, and that are too few."""

import pytest

from hrnn.studies.rules import ahead, best_behind_best, close, every_run, on_par, spread_over


def verdict(expectation, **runs):
    return expectation.verdict(lambda row, quantity: runs[row])


PAR = on_par("", "a", "b", "q", share=0.1)
AHEAD = ahead("", "a", "b", "q", times=1.5)
LESS = ahead("", "a", "b", "q", by=0.1, higher_is_better=False)


@pytest.mark.parametrize(
    ("rule", "a", "b", "expected"),
    [
        (PAR, [30, 30, 30], [32, 33, 33], "confirmed"),
        (PAR, [20, 20, 25], [32, 33, 33], "not confirmed"),
        (PAR, [20, 20, 35], [32, 33, 33], "undecided"),
        (PAR, [30, 30], [30, 30, 30], "undecided"),
        (AHEAD, [30, 30, 30], [15, 15, 20], "confirmed"),
        (AHEAD, [30, 30, 30], [25, 25, 20], "not confirmed"),
        (AHEAD, [60, 60, 10], [15, 15, 20], "undecided"),
        (AHEAD, [30, 30, 30], [], "undecided"),
        (LESS, [0.1, 0.1, 0.2], [0.5, 0.4, 0.5], "confirmed"),
        (LESS, [0.5, 0.4, 0.5], [0.1, 0.1, 0.2], "not confirmed"),
        (LESS, [0.4, 0.41, 0.4], [0.45, 0.45, 0.45], "not confirmed"),
        (LESS, [0.1, 0.1, 0.5], [0.45, 0.45, 0.45], "undecided"),
    ],
)
def test_two_rows(rule, a, b, expected):
    assert verdict(rule, a=a, b=b) == expected


def test_several_rows():
    within = close("", ("a", "b", "c"), "q", 0.03)
    assert verdict(within, a=[1.40] * 3, b=[1.41] * 3, c=[1.429] * 3) == "confirmed"
    assert verdict(within, a=[1.40] * 3, b=[1.41] * 3, c=[1.44] * 3) == "not confirmed"
    assert verdict(within, a=[1.40] * 3, b=[1.41] * 3, c=[1.44] * 2) == "undecided"
    sensitive = spread_over("", ("a", "b"), "q", 0.2)
    assert verdict(sensitive, a=[0.2] * 3, b=[0.9] * 3) == "confirmed"
    assert verdict(sensitive, a=[0.8] * 3, b=[0.9] * 3) == "not confirmed"
    behind = best_behind_best("", ("a", "b"), ("c",), "q", 0.02)
    assert verdict(behind, a=[0.2] * 3, b=[0.9] * 3, c=[0.95] * 3) == "confirmed"
    assert verdict(behind, a=[0.2] * 3, b=[0.95] * 3, c=[0.95] * 3) == "not confirmed"


def test_one_row():
    below = every_run("", "a", "q", at_most=0.15)
    assert verdict(below, a=[0.1, 0.15, 0.0]) == "confirmed"
    assert verdict(below, a=[0.1, 0.16, 0.0]) == "not confirmed"
    above = every_run("", "a", "q", at_least=0.9)
    assert verdict(above, a=[0.9, 1.0, 1.1]) == "confirmed"
    assert verdict(above, a=[0.8, 1.0, 1.1]) == "not confirmed"


def test_a_rule_says_what_it_does():
    assert "differ by at most 10 % of that of b" in PAR.rule
    assert "at least 1.5 times that of b" in AHEAD.rule
    assert "better than that of b by at least 0.1" in LESS.rule
