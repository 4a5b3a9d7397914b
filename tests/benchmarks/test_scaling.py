"""The cost model of docs/scaling.md: its arithmetic, and that the page shows what was measured."""

import json
from pathlib import Path

import pytest

from benchmarks.scaling import line
from benchmarks.scaling_model import Costs, Level, Network, filled, tables, two_processes

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "benchmarks" / "results" / "scaling.json"


def test_the_models_arithmetic():
    costs = Costs([Level(1.0, 0.5), Level(2.0, 1.0)], [10], 100, 8, 1000, optimizer=3.0, crowding=1.5)
    assert costs.compute(8) == 100 * (1 + 4) + 10 * (2 + 8)
    assert costs.compute(8, 10) == 10 * 5 + 1 * 10
    network = Network(hop=0.25, per_byte=0.001)
    assert network.reduce(1000, 1) == 0
    assert network.reduce(1000, 2) == pytest.approx(2 * 0.25 + 1000 * 0.001)
    assert network.reduce(1000, 5) == pytest.approx(8 * 0.25 + 8 / 5 * 1000 * 0.001)
    assert costs.update(network, 1, 8) == {"seconds": 603.0, "adding": 0.0, "share": 0.0}
    two = costs.update(network, 2, 8)
    assert two["adding"] == pytest.approx(1.5 + 3 * (0.5 + 0.064))
    assert two["seconds"] == pytest.approx(1.5 * (100 * 3 + 10 * 6 + 3) + two["adding"])
    assert 0 < costs.every_segment(network, 2, 8) < costs.every_segment(network, 64, 8) < 1


def test_a_line_through_measurements():
    assert line([(1, 3.0), (2, 5.0), (10, 21.0)]) == pytest.approx((1.0, 2.0))
    start, slope = line([(1, 0.5), (2, 2.0), (4, 5.0)])  # would cross zero: nothing takes less than no time
    assert start == 0
    assert slope > 0


def test_a_page_is_filled_in_between_its_marks():
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n"
    assert filled(page, {"x": "| new |"}) == "a\n<!-- x -->\n| new |\n<!-- end -->\nb\n"
    with pytest.raises(SystemExit, match="0 places for 'y'"):
        filled(page, {"y": ""})


def test_the_page_shows_what_was_measured_and_two_processes_are_predicted():
    measured = json.loads(MEASURED.read_text())
    assert not measured["tiny"]
    page = (ROOT / "docs" / "scaling.md").read_text()
    assert page == filled(page, tables(measured))
    for name in measured["configurations"]:
        assert abs(two_processes(measured, name)["error"]) < 0.2
