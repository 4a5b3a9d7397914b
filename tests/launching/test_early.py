"""Early stopping: who is losing, and what becomes of a run that is."""

import json

from hrnn.errors import INTERRUPTED
from hrnn.formats import numbered
from hrnn.launching import early
from hrnn.launching.cluster import train_unit
from hrnn.launching.early import Early, losing, score_of
from hrnn.launching.measuring import batches
from hrnn.launching.processes import processes
from hrnn.launching.run import run
from hrnn.launching.units import EARLY, Ending, prepare, stop_early, stopped_early
from hrnn.tasks import Copy
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config
from hrnn.training.identity import Trust
from hrnn.training.journal import JOURNAL
from tests.launching.test_run import Notes, unit


def test_worse_than_the_median_of_at_least_four_others():
    others = [0.9, 0.8, 0.7, 0.1]  # the median is 0.75
    assert losing([0.74], others, higher_is_better=True)
    assert not losing([0.76], others, higher_is_better=True)
    assert not losing([0.74], others, higher_is_better=False)
    assert losing([0.76], others, higher_is_better=False)
    assert not losing([0.0], others[:3], higher_is_better=True)
    assert not losing([0.8, 0.74], others, higher_is_better=True)  # it has been better


def test_what_counts_is_the_metric_and_in_a_curriculum_the_length():
    needle = unit().config
    assert score_of(needle, {"kind": "update", "update": 5, "accuracy": 0.5}).value == 0.5
    assert score_of(needle, {"kind": "validation", "update": 5, "accuracy": 0.5}).kind == "validation"
    assert score_of(needle, {"kind": "test", "update": 5, "accuracy": 0.5}) is None
    record = {"kind": "update", "update": 5, "length": 8, "solved": 6, "recalled_bits_per_character": 0.25}
    assert score_of(Config(Copy(), budget=Budget(updates=1)), record).value == 6.75
    assert score_of(Config(Copy(length=8), budget=Budget(updates=1)), record).value == 0.25


def finished(folder, one, accuracy):
    """A run that somebody else has trained."""
    updates = one.config.budget.updates
    kinds = [("validation" if n % 50 == 0 else "update", n) for n in range(1, updates + 1)]
    records = [{"kind": kind, "update": n, "sequences": 4 * n, "accuracy": accuracy} for kind, n in kinds]
    (folder / one.name / JOURNAL).write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / one.name / folders.RESULT).write_text(json.dumps(numbered("run", {})))


def test_a_losing_run_is_stopped_and_stays_so_until_it_is_asked_for(tmp_path, monkeypatch):
    """It would take 1,000 updates and is stopped soon after the first point, 125; the last validation before was at 100."""
    monkeypatch.setattr(early, "LOOK_SECONDS", 0.1)
    wanted = [unit(seed, updates=1000) for seed in range(5)]
    prepare(tmp_path, wanted)
    for one in wanted[:4]:
        finished(tmp_path, one, accuracy=1.0)
    notes = Notes()
    assert run(tmp_path, wanted, processes(1), Early(tmp_path, wanted, notes), leave_stopped=True) == Ending()
    loser, place = wanted[4], tmp_path / wanted[4].name
    assert notes.told == [(loser.name, "running"), (loser.name, "stopped early")]
    why = stopped_early(place)
    assert (why["kind"], why["share"], why["others"]) == ("validation", 0.125, [1.0] * 4)
    assert why["update"] == 100
    assert why["value"] < 1
    assert folders.read_result(place) is None
    assert list((place / folders.CHECKPOINTS).iterdir())  # nothing is lost
    reached = (place / JOURNAL).read_bytes()

    def engine(folder, units, watcher):
        asked.extend(units)
        return Ending()

    asked = []
    assert run(tmp_path, wanted, engine, notes, leave_stopped=True) == Ending()
    assert asked == []
    assert (place / EARLY).exists()
    assert train_unit(str(place), 1, "nowhere", Trust()) == (
        INTERRUPTED,
        "",
    )  # a task that Ray tries again does not, either
    assert (place / JOURNAL).read_bytes() == reached
    assert run(tmp_path, wanted, engine, notes) == Ending()
    assert asked == [loser]
    assert stopped_early(place) is None


def test_points_are_shares_of_whatever_the_budget_counts(tmp_path):
    one = unit(updates=100)
    early_stopping = Early(tmp_path, [one], Notes())
    assert early_stopping._share(one, {"update": 25, "sequences": 100}) == 0.25
    by_sequences = Config(one.config.task, one.config.model, one.config.learning, Budget(sequences=400), one.config.upkeep)
    assert batches(by_sequences) == 100


def test_a_run_that_came_to_its_end_all_the_same(tmp_path):
    prepare(tmp_path, [unit()])
    stop_early(tmp_path / unit().name, {"update": 1})
    assert stopped_early(tmp_path / unit().name) == {"update": 1}
    finished(tmp_path, unit(), 1.0)
    assert stopped_early(tmp_path / unit().name) is None
