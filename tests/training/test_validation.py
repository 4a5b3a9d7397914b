"""Validations: when they come, what they stop, and which weights they keep."""

from dataclasses import replace

import pytest

from hrnn.tasks import Needle, Reading, Text
from hrnn.training import folder as folders
from hrnn.training import loop
from hrnn.training.config import Budget, Config, Learning, Model
from hrnn.training.evaluation import evaluate
from hrnn.training.loop import start, train
from hrnn.training.trained import load
from tests.tiny import write_text
from tests.training.test_loop import QUIET, SMALL, of_kind


def test_a_run_validates_keeps_the_best_and_tests_it_once(tmp_path):
    task = Text(data=(write_text(tmp_path / "text.txt"),))
    config = Config(
        task,
        Model(hidden_sizes=(16, 16), window=20),
        Learning(batch=5, learning_rate=0.02),
        Budget(updates=30, validate_every=10),
    )
    result = start(replace(config, upkeep=QUIET), tmp_path / "run").result
    validations = of_kind(tmp_path / "run", "validation")
    assert [record["update"] for record in validations] == [10, 20, 30]
    best = min(validations, key=lambda record: record["bits_per_character"])
    assert result["validation"] == {"bits_per_character": best["bits_per_character"], "update": best["update"]}
    assert len(of_kind(tmp_path / "run", "test")) == 1
    trained = load(tmp_path / "run", "best")
    assert trained.update == best["update"]
    reading = Reading(0, 5, 20)
    assert evaluate(trained.network, trained.config.task, trained.config.task.evaluation("test", reading)) == result["test"]
    assert folders.read_result(tmp_path / "run") == result
    updates = of_kind(tmp_path / "run", "update")
    assert [record["update"] for record in updates] == list(range(2, 31, 2))
    assert updates[-1]["bits_per_character"] < updates[0]["bits_per_character"] - 0.5


def test_no_gain_stops_a_run(tmp_path):
    config = Config(
        Needle(steps=6, test_sequences=20),
        SMALL,
        Learning(batch=5, learning_rate=1e-12),
        Budget(updates=50, validate_every=2, stop_after=3),
    )
    result = start(replace(config, upkeep=QUIET), tmp_path / "run").result
    assert (result["reason"], result["updates"]) == ("no gain", 8)


@pytest.mark.parametrize("every", [None, 4, 5])
def test_the_last_update_is_validated(tmp_path, every):
    config = Config(
        Needle(steps=6, test_sequences=20),
        SMALL,
        Learning(batch=5, learning_rate=0.02, update="batch"),
        Budget(updates=10, validate_every=every),
        QUIET,
    )
    result = start(config, tmp_path / "run").result
    validations = of_kind(tmp_path / "run", "validation")
    assert [record["update"] for record in validations] == {None: [10], 4: [4, 8, 10], 5: [5, 10]}[every]
    best = [record for record in validations if record["best"]][-1]
    assert result["validation"]["update"] == best["update"] == load(tmp_path / "run").update
    if every is None:
        assert result["validation"]["update"] == 10
    (tmp_path / "run" / "result.json").unlink()  # killed just before it was written: what is validated is not validated again
    assert train(tmp_path / "run").result["test"] == result["test"]
    assert of_kind(tmp_path / "run", "validation") == validations


def test_of_equal_validations_the_later_counts(tmp_path, monkeypatch):
    scores = iter([0.5, 0.75, 0.75, 0.25, 0.5])  # and one for the test
    monkeypatch.setattr(loop, "evaluated", lambda run, part, *rest: {run.task.score.name: next(scores)})
    budget = Budget(updates=8, validate_every=2)
    config = Config(Needle(steps=6, test_sequences=5), SMALL, Learning(batch=5, update="batch"), budget, QUIET)
    result = start(config, tmp_path / "run").result
    assert result["validation"]["update"] == load(tmp_path / "run").update == 6
    assert [record["best"] for record in of_kind(tmp_path / "run", "validation")] == [True, True, True, False]


def test_equal_validations_are_no_gain(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "evaluated", lambda run, part, *rest: {run.task.score.name: 0.5})
    budget = Budget(updates=20, validate_every=2, stop_after=2)
    config = Config(Needle(steps=6, test_sequences=5), SMALL, Learning(batch=5, update="batch"), budget, QUIET)
    assert start(config, tmp_path / "run").result["updates"] == 6


def test_a_run_that_is_stopped_is_not_validated_for_that(tmp_path):
    config = Config(Needle(steps=6, test_sequences=5), SMALL, Learning(batch=5), Budget(updates=6), QUIET)
    start(config, tmp_path / "run", minutes=0.0)
    assert not of_kind(tmp_path / "run", "validation")
