"""What is expected of an experiment, and the rules that decide it. They were written down before the runs that count.

Every rule gives one of three verdicts, and says in words what it does; undecided: too few runs, or runs that overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

Verdict = Literal["confirmed", "not confirmed", "undecided"]
Values = Callable[[str, str], Sequence[float]]
"""Values of the finished runs by (row, quantity)."""

RUNS = 3  # of each row, or nothing is decided


@dataclass(frozen=True)
class Expectation:
    """sentence: what is expected; rule: how that is decided; judge: the rule itself, given enough runs of `rows`."""

    sentence: str
    rule: str
    rows: tuple[str, ...]
    quantity: str
    judge: Callable[[Sequence[Sequence[float]]], Verdict]

    def verdict(self, values: Values) -> Verdict:
        runs = [values(row, self.quantity) for row in self.rows]
        if any(len(one) < RUNS for one in runs):
            return "undecided"
        return self.judge(runs)


def overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    """Is some run of one among those of the other?"""
    return min(a) <= max(b) and min(b) <= max(a)


def on_par(sentence: str, a: str, b: str, quantity: str, *, share: float = 0.0, within: float = 0.0) -> Expectation:
    """The means differ by no more than `within`, or than `share` of the second."""
    limit = f"{within:g}" if within else f"{share * 100:g} % of that of {b}"

    def judge(runs: Sequence[Sequence[float]]) -> Verdict:
        first, second = runs
        if abs(fmean(first) - fmean(second)) <= max(within, share * abs(fmean(second))):
            return "confirmed"
        return "undecided" if overlap(first, second) else "not confirmed"

    rule = (
        f"confirmed if the means of {a} and {b} differ by at most {limit}; not confirmed if they differ by more and no run of "
        "one lies among those of the other; else undecided"
    )
    return Expectation(sentence, rule, (a, b), quantity, judge)


def ahead(
    sentence: str, a: str, b: str, quantity: str, *, by: float = 0.0, times: float = 1.0, higher_is_better: bool = True
) -> Expectation:
    """The mean of the first is better by `by`, or `times` as large, and every run of it better than every one of the second."""
    much = f"at least {times:g} times that of {b}" if times != 1 else f"better than that of {b} by at least {by:g}"

    def judge(runs: Sequence[Sequence[float]]) -> Verdict:
        first, second = ([value if higher_is_better else -value for value in values] for values in runs)
        if fmean(first) < times * fmean(second) + by:
            return "not confirmed"
        return "confirmed" if min(first) > max(second) else "undecided"

    rule = (
        f"confirmed if the mean of {a} is {much} and every run of it is better than every one of {b}; not confirmed if the "
        "mean is not; else undecided"
    )
    return Expectation(sentence, rule, (a, b), quantity, judge)


def close(sentence: str, rows: tuple[str, ...], quantity: str, within: float) -> Expectation:
    """The means of all rows lie within a range."""
    rule = f"confirmed if the means of {', '.join(rows)} lie within {within:g} of each other; else not confirmed"
    return Expectation(sentence, rule, rows, quantity, lambda runs: _confirmed(_range(runs) <= within))


def near_best(
    sentence: str, row: str, rows: tuple[str, ...], quantity: str, *, within: float, higher_is_better: bool = True
) -> Expectation:
    """The mean of one row is not far behind the best of all."""
    others = tuple(one for one in rows if one != row)

    def judge(runs: Sequence[Sequence[float]]) -> Verdict:
        mean, *means = (fmean(values) if higher_is_better else -fmean(values) for values in runs)
        return _confirmed(mean >= max([mean, *means]) - within)

    rule = f"confirmed if the mean of {row} is at most {within:g} behind the best mean of {', '.join(rows)}; else not confirmed"
    return Expectation(sentence, rule, (row, *others), quantity, judge)


def spread_over(sentence: str, rows: tuple[str, ...], quantity: str, at_least: float) -> Expectation:
    """The means of the rows differ."""
    rule = f"confirmed if the best and the worst mean of {', '.join(rows)} differ by at least {at_least:g}; else not confirmed"
    return Expectation(sentence, rule, rows, quantity, lambda runs: _confirmed(_range(runs) >= at_least))


def _range(runs: Sequence[Sequence[float]]) -> float:
    means = [fmean(values) for values in runs]
    return max(means) - min(means)


def _confirmed(kept: bool) -> Verdict:
    return "confirmed" if kept else "not confirmed"


def every_run(
    sentence: str, row: str, quantity: str, *, at_most: float | None = None, at_least: float | None = None
) -> Expectation:
    """Every run of a row lies on one side of a limit."""
    words = f"at most {at_most:g}" if at_most is not None else f"at least {at_least:g}"

    def judge(runs: Sequence[Sequence[float]]) -> Verdict:
        (values,) = runs
        kept = all(value <= at_most for value in values) if at_most is not None else min(values) >= (at_least or 0.0)
        return _confirmed(kept)

    return Expectation(sentence, f"confirmed if every run of {row} is {words}; else not confirmed", (row,), quantity, judge)


def best_behind_best(sentence: str, rows: tuple[str, ...], others: tuple[str, ...], quantity: str, by: float) -> Expectation:
    """The best of some rows stays behind the best of others."""

    def judge(runs: Sequence[Sequence[float]]) -> Verdict:
        means = [fmean(one) for one in runs]
        return _confirmed(max(means[len(rows) :]) - max(means[: len(rows)]) >= by)

    rule = (
        f"confirmed if the best mean of {', '.join(rows)} is behind the best of {', '.join(others)} by at least {by:g}; else "
        "not confirmed"
    )
    return Expectation(sentence, rule, rows + others, quantity, judge)
