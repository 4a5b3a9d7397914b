"""What a run costs: the batch that is measured is the fullest of the run, and bytes follow the window of the model."""

from dataclasses import replace
from pathlib import Path

import torch

from hrnn.launching.measuring import end_of, fullest, one_update, seconds_of
from hrnn.tasks import Copy, Text
from hrnn.training.config import Budget, Config, Learning, Model, resolved, to_json
from hrnn.training.run import Run
from tests.counting import most_bytes
from tests.tiny import write_text


def copy(model="ours", window=400, **options):
    made = Model(model, hidden_sizes=(64, 64), periods=(10,), window=window)
    return resolved(Config(Copy(**options), made, Learning(batch=50), Budget(updates=1)))


def test_a_curriculum_is_measured_at_the_length_that_fills_the_window(tmp_path):
    config = copy(window=40)
    batch = fullest(Run(config, tmp_path))
    assert (len(batch.windows), batch.steps) == (1, 40)
    assert fullest(Run(copy(window=40, length=7), tmp_path)).steps == 14
    mr = fullest(Run(copy("mr-hrnn", window=40), tmp_path))
    assert [window.steps for window in mr.windows] == [18, 18, 4]


def test_the_end_of_a_batch_has_its_targets_and_boundaries(tmp_path):
    task = Text((write_text(tmp_path / "text.txt"),))
    config = resolved(Config(task, Model(hidden_sizes=(4, 4), window=12), Learning(batch=3), Budget(updates=1)))
    batch = fullest(Run(config, tmp_path))
    window, end = batch.windows[-1], end_of(batch).windows[0]
    assert torch.equal(end.x, window.x[-2:])
    assert torch.equal(end.boundaries, window.boundaries[-3:])


def test_bytes_follow_what_the_gradient_has_to_store():
    found = []
    for model in ("ours", "hrnn"):
        warm_up, update = one_update(to_json(copy(model)))
        warm_up()
        found.append(most_bytes(update))
    assert 2 * found[0] < found[1]


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = copy(window=20)
    seconds_of(replace(config, learning=replace(config.learning, batch=2)), updates=1)
    assert list(Path(tmp_path).iterdir()) == []
