"""Counts by hand, predictions against the tensors of real windows, and plans that fit. Of processes: benchmarks/planner.py."""

import math
import random

import pytest

from hrnn import memory, room
from hrnn.cells import BUILTIN
from tests.counting import counted


@pytest.mark.parametrize(
    ("periods", "window", "count"), [([10], 200, 50), ([10], 784, 166), ([5, 5], 1000, 90), ([], 200, 200)]
)
def test_the_papers_count(periods, window, count):
    assert memory.paper_count(periods, window) == count


def test_the_exact_count_adds_middle_levels_and_weighs_sizes():
    assert memory.exact_count([8, 8], [10], 200) == 50
    # 5 of 64, 2 x 5 of 256 (states and context gradients), 2 x 40 of 1024
    assert memory.exact_count([64, 256, 1024], [5, 5], 1000) == 5 + 10 * 4 + 80 * 16
    assert memory.exact_count([8, 8], [10], 784) == 10 + 2 * 79  # the 79th tick of the top has only four steps below it


def test_numbers_of_cells_are_those_of_the_code():
    for name, cell in BUILTIN.items():
        made = cell(3, 5, 7, False)
        entering, recurrent = made.weight_input.shape[0] // 7, made.weight_hidden.shape[0] // 7
        gates, parts, _, *rest = room.CELLS[name]
        assert (gates, parts, *rest) == (cell.gate_blocks, cell.state_parts, entering, recurrent)


WIDE = {"hidden_sizes": [128, 128], "periods": [8], "window": 800, "batch": 64}
HOLES = 1.42  # what the small blocks of graphs take in a process, of what they should
FEW = {"hidden_sizes": [64, 64], "periods": [20], "window": 90, "batch": 16}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("restricted", {"output": "all"}),
        ("restricted", {"cell": "gru"}),
        ("restricted", {"top": "checkpointed", "window": 1600}),
        ("restricted", FEW),
        ("restricted", {"hidden_sizes": [8, 8], "periods": [2], "batch": 1}),  # many ticks with hardly a number in them
        ("checkpointed", {}),
        ("checkpointed", {"every": 200}),
        ("checkpointed", {"bytes": 30_000_000}),
        ("truncated", {"steps": 200}),
    ],
)
def test_predicted_bytes_are_those_of_tensors_and_a_few_megabytes_of_a_process(method, options):
    predict = memory.predict if method == "restricted" else getattr(memory, f"predict_{method}")
    shape = WIDE | options
    found, predicted = counted(method=method, **shape), predict(**shape)
    compiled = method == "restricted" and "top" not in options
    assert 0.95 * found < predicted < (1.1 if compiled else HOLES) * found + 3e6
    assert predicted <= shape.get("bytes", predicted)


def test_bytes_without_compiled_code(monkeypatch):
    monkeypatch.setattr("hrnn.gradients.restricted.serves", lambda cell: False)
    found, predicted = counted(**WIDE), memory.predict(native=False, **WIDE)
    assert 0.95 * found < predicted < HOLES * found + 3e6


def test_replay_takes_what_checkpointed_does():
    found, predicted = counted(replay=0.5, **WIDE), memory.predict_checkpointed(**WIDE)
    assert 0.95 * found < predicted < HOLES * found + 3e6


def test_a_checkpointed_top_grows_with_the_root_of_the_window():
    short, long = (memory.predict([64, 64], [10], window, 8, top="checkpointed") for window in (10_000, 1_000_000))
    stored = [memory.predict([64, 64], [10], window, 8) for window in (10_000, 1_000_000)]
    assert long - short < 0.12 * (stored[1] - stored[0])
    few, many = (memory.predict_checkpointed([64, 64], [10], window, 8) for window in (10_000, 1_000_000))
    assert many - few < 10 * few


def test_restricted_takes_a_fraction_of_full():
    shape = {"hidden_sizes": [64, 64, 64], "periods": [8, 8], "window": 1024, "batch": 32}
    assert counted(**shape) < 0.1 * counted(method="full", **shape)


def test_a_small_network_with_long_segments_does_not_keep_all_their_views():
    assert room.segments_at_once("lstm", 1, 200, 1, 1) == 1


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_compiled_code_takes_less_room_for_differentiation(cell):
    compiled, torch = (memory.predict([256, 256], [10], 784, 100, cell=cell, native=native) for native in (True, False))
    assert compiled < torch


def test_a_plan_fits_its_budget_and_a_smaller_period_would_not():
    plans = memory.plan(50_000_000, window=100_000, batch=16, hidden=128)
    assert [len(p.periods) for p in plans] == [2, 3, 4]  # two levels would need more
    for found in plans:
        assert found.bytes <= 50_000_000
        assert found.bytes == memory.predict(found.hidden_sizes, found.periods, 100_000, 16)
        assert found.paper_count == memory.paper_count(found.periods, 100_000)
        smaller = [found.periods[0] - 1] * len(found.periods)
        assert smaller[0] < 2 or memory.predict(found.hidden_sizes, smaller, 100_000, 16) > 50_000_000
    assert memory.plan(1000, window=1000, batch=16) == []
    assert memory.plan(10**9, window=1000, batch=4, hidden=[32, 64], depths=[3])[0].hidden_sizes == [32, 64, 64]


@pytest.mark.parametrize("native", [True, False])
def test_a_plan_is_that_of_trying_every_period(native):
    chance = random.Random(0)
    for _ in range(30):
        window, batch, depth, hidden = (chance.randrange(*limits) for limits in ((4, 3000), (1, 20), (2, 5), (1, 200)))
        budget = int(2e6 + 10 ** chance.uniform(4, 8))
        below, longest = depth - 1, max(2, math.isqrt(window))
        periods = [[period] * below for period in range(2, longest + 1) if period**below <= window]
        fitting = [p for p in periods if memory.predict([hidden] * depth, p, window, batch, native=native) <= budget]
        assert [plan.periods for plan in memory.plan(budget, window, batch, hidden, [depth], native=native)] == fitting[:1]
    assert bool(memory.plan(10**10, 2**62, 4, native=native)) is native  # the schedule of so many batches does not fit


def test_plans_follow_the_growth_of_the_window():
    short, long = (memory.predict([64] * 3, [10, 10], window, 8) for window in (10_000, 1_000_000))
    vectors = 2 * (10_000 - 100) * 64 * 4 * 8
    assert long - short > vectors  # at least the two vectors per tick of the top that the formula has
    assert math.isfinite(long)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: memory.paper_count([0], 10), "periods"),
        (lambda: memory.paper_count([10], 0), "window is 0"),
        (lambda: memory.exact_count([8], [10], 20), "one fewer than hidden_sizes"),
        (lambda: memory.plan(0, 10, 1), "budget"),
        (lambda: memory.predict([8, 8], [10], 20, 4, top="kept"), "top is 'kept'"),
        (lambda: memory.predict_checkpointed([8, 8], [10], 20, 4, bytes=1000), "give at least that"),
        (lambda: memory.predict_truncated([8, 8], [10], 20, 4, 0), "steps is 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_window_is_measured_in_a_child_process():
    assert isinstance(memory.measure(children=1, hidden_sizes=[4, 4], periods=[2], window=4, batch=1), int)
    with pytest.raises(ValueError, match="method is 'other'"):
        memory.measure(children=1, method="other")
