"""Schedules of checkpointing against the dynamic programme that they solve."""

from __future__ import annotations

from functools import lru_cache

import pytest

from hrnn.recomputation import Costs, Schedule, every, root, within

COSTS = Costs(fixed=10_000_000, state=200_000, step=83_000)


@lru_cache(None)
def least(steps: int, states: int, length: int) -> float:
    """Gruslys' programme, step by step: pieces are of `length` steps at most."""
    if steps <= length:
        return 0
    if states == 0:
        return float("inf")
    return min(y + least(steps - y, states - 1, length) + least(y, states, length) for y in range(1, steps))


def gone_through(schedule):
    """Steps run forward, states kept at once, the longest piece."""
    ahead, forward, most, longest, total = [(schedule.steps, 0)], 0, 0, 0, 0
    while ahead:
        steps, kept = ahead.pop()
        while (first := schedule.split(steps, kept)) is not None:
            assert 0 < first < steps
            ahead.append((first, kept))
            forward, steps, kept = forward + first, steps - first, kept + 1
        most, longest, total = max(most, kept), max(longest, steps), total + steps
    assert total == schedule.steps
    return forward, most, longest


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("states", range(1, 7))
def test_no_schedule_runs_fewer_steps(length, states):
    for steps in range(1, 60):
        schedule = Schedule(steps, length, states)
        forward, most, longest = gone_through(schedule)
        assert forward == schedule.forward == least(steps, states, length)
        assert most <= states
        assert longest <= length


@pytest.mark.parametrize("size", [11e6, 13e6, 20e6, 40e6, 100e6, 400e6, 1e9])
def test_a_budget_is_kept_and_used(size):
    schedule = within(int(size), 10_000, COSTS)
    forward, most, longest = gone_through(schedule)
    assert forward == schedule.forward
    assert schedule.bytes(COSTS) >= COSTS.of(longest, most)
    assert schedule.bytes(COSTS) <= size
    if size < COSTS.of(10_000, 0):
        assert schedule.bytes(COSTS) > 0.95 * size
        others = [Schedule(10_000, (int(size) - COSTS.of(0, m)) // COSTS.step, m) for m in (1, 2, 3, 5, 8, 13, 21)
                  if int(size) - COSTS.of(0, m) >= COSTS.step]  # fmt: skip
        assert all(schedule.forward <= other.forward for other in others)


def test_every_keeps_a_state_before_each_piece():
    for steps, length in [(10, 3), (9, 3), (3, 5), (7, 1), (1, 1)]:
        schedule = every(length, steps)
        forward, most, longest = gone_through(schedule)
        assert forward == max(0, steps - length)
        assert most == -(-steps // length) - 1
        assert longest == min(steps, length)
    assert [root(n) for n in (1, 2, 4, 5, 100, 101, 10_000)] == [1, 2, 2, 3, 10, 11, 100]


def test_too_few_bytes():
    with pytest.raises(ValueError, match=r"bytes is 10000000, and two states .* take 10,483,000 \(10.5 MB\) .* at least that"):
        within(10_000_000, 10_000, COSTS)
    assert within(COSTS.least, 10_000, COSTS).bytes(COSTS) <= COSTS.least
