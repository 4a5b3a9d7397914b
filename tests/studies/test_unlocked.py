"""The study of unlocked updates: rates are chosen on a seed that is not reported, and only what is missing is run."""

import json

import pytest

from hrnn.errors import UserError
from hrnn.formats import numbered
from hrnn.launching.units import Ending
from hrnn.report.unlocked import write
from hrnn.studies.plan import Request
from hrnn.studies.unlocked import LENGTH, UNLOCKED, best_rate, reproduce
from hrnn.training import folder as folders
from hrnn.training.journal import JOURNAL


class Pretended:
    """An engine in which a run solves the target the sooner the higher its rate; the highest of all diverges."""

    def __init__(self):
        self.asked = []

    def __call__(self, folder, units, watcher):
        ending = Ending()
        for unit in units:
            self.asked.append(unit.name)
            rate = unit.config.learning.learning_rate
            if rate == 8e-3:
                ending.failures[unit.name] = "the loss is nan"
                continue
            updates = [{"kind": "update", "update": n, "sequences": 50 * n, "solved": min(LENGTH, n)} for n in (10, 30, 100)]
            records = [{**record, "cpu_seconds": record["update"] / rate} for record in updates]
            (folder / unit.name / JOURNAL).write_text("".join(json.dumps(record) + "\n" for record in records))
            (folder / unit.name / folders.RESULT).write_text(json.dumps(numbered("run", {"longest_solved_length": LENGTH})))
        return ending


def test_rates_are_tuned_first_and_the_best_is_reported(tmp_path):
    engine = Pretended()
    request = Request(UNLOCKED, tmp_path, seeds=(0, 1), models=("copy/unlocked",))
    _, ending = reproduce(request, engine)
    assert list(ending.failures) == ["copy/locked/rate-0.008-seed-100"]
    assert engine.asked[:7] == [
        *(f"copy/locked/rate-{rate}-seed-100" for rate in (0.001, 0.002, 0.004, 0.008)),
        *(f"copy/unlocked/rate-{rate}-seed-100" for rate in (0.0003, 0.001, 0.003)),
    ]
    assert engine.asked[7:] == [
        f"copy/{row}-seed-{seed}" for row in ("locked/rate-0.004", "unlocked/rate-0.003") for seed in (0, 1)
    ]
    assert best_rate(tmp_path, UNLOCKED.row("copy/locked")) == 0.004
    (table,) = write(request)
    assert [row[:3] for row in table.rows] == [
        ["locked", "0.004", "125.00 (125.00, 125.00)"],
        ["unlocked", "0.003", "166.67 (166.67, 166.67)"],
    ]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    engine.asked.clear()
    reproduce(request, engine)
    assert engine.asked == ["copy/locked/rate-0.008-seed-100"]  # what failed is tried again
    with pytest.raises(UserError, match="learning rates are chosen on seed 100"):
        reproduce(Request(UNLOCKED, tmp_path, seeds=(100,)), engine)
