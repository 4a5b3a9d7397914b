"""Trackers are told what the journal records, and a run does not depend on them; wandb is played by a fake."""

import json
import sys
import types
from dataclasses import replace
from itertools import accumulate

import pytest

from hrnn.errors import DivergedError, UserError
from hrnn.tasks import Copy
from hrnn.trackers import numbers_of
from hrnn.training.config import Budget, Config, Learning, Model, Runtime
from hrnn.training.loop import start, train
from tests.commands.console import complaint, hrnn
from tests.tiny import TINY, write_text

QUIET = Runtime(tensorboard=False, journal_every=1)
CONFIG = Config(Copy(until=2), Model(hidden_sizes=(6, 6), periods=(3,), window=9), Learning(batch=5), Budget(updates=4), QUIET)


class Noted:
    """A tracker that remembers what it was told."""

    def __init__(self):
        self.inits, self.logs, self.finished = [], [], 0

    def init(self, **facts):
        self.inits.append(facts)

    def log(self, data, step):
        self.logs.append((step, data))

    def finish(self):
        self.finished += 1


def journal(folder):
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def without_times(records):
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def test_an_object_is_told_what_the_journal_records_and_the_run_is_the_same(tmp_path):
    noted = Noted()
    start(CONFIG, tmp_path / "tracked", tracker=noted)
    start(CONFIG, tmp_path / "plain")
    (facts,) = noted.inits
    stored = json.loads((tmp_path / "tracked" / "config.json").read_text())
    assert (facts["project"], facts["name"], facts["id"], facts["resume"]) == ("hrnn", "tracked", stored["id"], "allow")
    assert facts["config"]["learning"] == stored["learning"]
    told = [(record["update"], numbers_of(record)) for record in journal(tmp_path / "tracked") if numbers_of(record)]
    assert [numbers for _, numbers in noted.logs] == [numbers for _, numbers in told]
    steps = [step for step, _ in noted.logs]
    assert steps == list(accumulate((update for update, _ in told), max))  # wandb drops what goes back
    assert "update/loss" in noted.logs[1][1] or "update/loss" in noted.logs[0][1]
    assert noted.finished == 1
    assert without_times(journal(tmp_path / "tracked")) == without_times(journal(tmp_path / "plain"))


def test_the_numbers_of_a_record():
    record = {"kind": "update", "update": 7, "loss": 0.5, "local_losses": [0.1, None], "best": True, "name": "x", "moves": [1]}
    assert numbers_of(record) == {"update/loss": 0.5, "update/local_losses/0": 0.1}


def test_a_resumed_run_goes_on_under_the_same_id_and_is_told_only_what_is_new(tmp_path):
    noted = Noted()
    start(CONFIG, tmp_path / "run", tracker=noted)
    before = len(noted.logs)
    train(tmp_path / "run", budget=Budget(updates=6), tracker=noted)
    first, second = noted.inits
    assert (first["id"], first["name"]) == (second["id"], second["name"])
    assert {step for step, _ in noted.logs[before:] if step > 4} == {5, 6}
    assert noted.finished == 2


class Failing(Noted):
    def __init__(self, verb):
        super().__init__()
        self.verb = verb

    def _fail(self, verb):
        if verb == self.verb:
            raise ConnectionError("no network")

    def init(self, **facts):
        self._fail("init")

    def log(self, data, step):
        super().log(data, step)
        self._fail("log")

    def finish(self):
        self._fail("finish")


@pytest.mark.parametrize("verb", ["init", "log", "finish"])
def test_a_tracker_that_fails_stops_nothing(verb, tmp_path, capsys):
    tracker = Failing(verb)
    assert start(CONFIG, tmp_path / "run", tracker=tracker).result["updates"] == 4
    assert len(tracker.logs) == {"init": 0, "log": 1}.get(verb, len(tracker.logs))
    if verb != "init":  # that one is among the run's warnings, which a display shows
        assert "the tracker failed, and the run goes on without it (ConnectionError: no network)" in capsys.readouterr().err


def test_a_run_that_ends_by_an_error_is_finished_too(tmp_path):
    noted = Noted()
    with pytest.raises(DivergedError):
        start(replace(CONFIG, learning=Learning(batch=5, learning_rate=1e38, clip=None)), tmp_path / "run", tracker=noted)
    assert noted.finished == 1


@pytest.fixture
def told(monkeypatch):
    """What wandb was told: calls with their arguments and options."""
    said, module = [], types.ModuleType("wandb")
    for verb in ("init", "log", "finish"):
        setattr(module, verb, lambda *arguments, verb=verb, **options: said.append((verb, arguments, options)))
    module.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return said


def test_wandb_by_name(told, tmp_path):
    start(replace(CONFIG, upkeep=replace(QUIET, tracker="wandb")), tmp_path / "run")
    (first, _, facts), *logged, (last, _, _) = told
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (first, facts["id"], facts["resume"], facts["name"]) == ("init", stored["id"], "allow", "run")
    assert logged[-1][2]["step"] == 4
    assert any("update/loss" in arguments[0] for _, arguments, _ in logged)
    assert ({verb for verb, _, _ in logged}, last) == ({"log"}, "finish")


def test_the_option_and_a_tracker_that_is_not_there(told, tmp_path, capsys, monkeypatch):
    options = ("--data", write_text(tmp_path / "text.txt"), "--window", 10, "--updates", 2, "--tracker", "wandb")
    assert hrnn(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "run")[0] == 0
    assert [verb for verb, _, _ in told][-1] == "finish"
    monkeypatch.setitem(sys.modules, "wandb", None)
    said = complaint(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "other")
    assert said == "hrnn: --tracker wandb needs wandb, which is not installed; pip install wandb"
    assert not (tmp_path / "other").exists()
    code, _, err = hrnn(capsys, "resume", tmp_path / "run", "--updates", 3)  # what is tracked elsewhere goes on here
    assert code == 0
    assert "the tracker cannot begin, and the run goes on without it" in err
    assert "--tracker" in complaint(capsys, "train", "text", *TINY, "--data", "x", "--tracker", "mlflow")


def test_a_configuration_from_python_is_checked(tmp_path):
    with pytest.raises(UserError, match=r"--tracker is .*paper"):
        start(replace(CONFIG, upkeep=replace(QUIET, tracker="paper")), tmp_path / "run")
    assert not (tmp_path / "run").exists()
