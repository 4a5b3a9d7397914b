"""How a run's numbers read: what tasks say, what config.json keeps of it, what is made of anything else."""

import json

import pytest

from hrnn.errors import UserError
from hrnn.metrics import LOSS, Metric, Metrics
from hrnn.tasks import TASKS, Copy, Needle, Task
from hrnn.training.config import Budget, Config, Learning, Model, Runtime
from hrnn.training.entries import METRICS, metrics_of, read_whole
from hrnn.training.loop import start


def test_a_metric_reads_well_by_its_name_alone():
    metric = Metric("squared_error")
    assert (metric.label, metric.short, metric.axis, metric.in_result) == (*["squared error"] * 3, "squared_error")
    assert (metric.text(0.5), metric.text(3), metric.text([0.25, None])) == ("0.5000", "3", "0.2500 -")
    assert metric.better(1.0, 2.0)
    assert Metric("accuracy", higher_is_better=True).better(2.0, 1.0)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "series"])  # whose data say what it measures: tests/series
def test_what_a_task_says_of_its_metrics_survives_json(name):
    measured = TASKS[name]().measured
    assert Metrics.from_json(json.loads(json.dumps(measured.to_json()))) == measured
    assert measured.named(measured.score.name) is measured.score


@pytest.mark.parametrize("entries", [None, [], {}, {"task": 3}, {"task": [{"name": 3}]}, {"task": [], "judged_by_progress": 2}])
def test_anything_else_is_no_description(entries):
    with pytest.raises(UserError):
        Metrics.from_json(entries)
    assert metrics_of({METRICS: entries, "task": {"name": "copy"}}) == Metrics()


def test_a_task_that_says_nothing_of_metrics_is_judged_by_its_loss():
    class Plain(Needle):
        metrics = Task.metrics

    assert Plain().score == Plain().measured.judged_by == LOSS
    assert [metric.name for metric in Plain().measured.all] == ["loss", "local_losses"]
    assert Plain().standing({"kind": "validation", "loss": 0.5}) == 0.5


def test_a_curriculum_is_judged_by_what_it_solved_and_a_single_length_by_its_loss():
    record = {"kind": "update", "solved": 4, "recalled_bits_per_character": 0.75}
    assert Copy().standing(record) == 4.25
    assert Copy().measured.judged_by.higher_is_better
    assert Copy(length=5).standing(record) == 0.75
    assert not Copy(length=5).measured.judged_by.higher_is_better
    assert Copy().standing({"kind": "update"}) is None


def test_a_run_keeps_how_its_numbers_read(tmp_path):
    sizes = Model(hidden_sizes=(4, 4), periods=(2,), window=4)
    config = Config(Copy(solved=0.4), sizes, Learning(batch=2), Budget(updates=1), Runtime(tensorboard=False))
    start(config, tmp_path / "run")
    entries = read_whole(tmp_path / "run")
    assert metrics_of(entries).score.levels[0] == (0.4, "solved")
    del entries[METRICS]
    assert metrics_of(entries) == Metrics()
