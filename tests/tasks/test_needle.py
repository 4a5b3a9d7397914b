import pytest
import torch

from hrnn.errors import UserError
from hrnn.tasks import Needle, Reading


def test_one_symbol_is_flagged_early_and_named_at_the_end():
    task = Needle(steps=100, symbols=5, within=0.2)
    (window,) = task.batch(0, Reading(0, 50, 1000)).windows
    flagged = window.x >= 5
    assert (flagged.sum(0) == 1).all()
    assert flagged[:20].any(0).all()
    assert len(flagged.nonzero()[:, 0].unique()) > 10
    assert torch.equal(window.x[flagged.nonzero(as_tuple=True)].sort().values, (window.y[-1] + 5).sort().values)
    assert torch.equal((window.x * flagged).sum(0) - 5, window.y[-1])
    assert window.mask[-1].all()
    assert not window.mask[:-1].any()


def test_windows_are_aligned_to_the_end():
    batch = Needle(steps=25).batch(0, Reading(0, 4, 10))
    assert [window.steps for window in batch.windows] == [5, 10, 10]
    assert [window.targets for window in batch.windows] == [0, 0, 4]


def test_validation_and_test_are_fixed_and_different():
    task, reading = Needle(steps=30, test_sequences=25), Reading(0, 10, 100)
    batches = {part: [batch.windows[0].x for batch in task.evaluation(part, reading)] for part in task.parts()}
    assert [x.shape[1] for x in batches["test"]] == [10, 10, 5]
    assert not torch.equal(batches["test"][0], batches["validation"][0])
    again = [batch.windows[0].x for batch in task.evaluation("test", reading)]
    assert all(torch.equal(a, b) for a, b in zip(again, batches["test"], strict=True))


def test_accuracy_is_counted():
    task = Needle(symbols=3)
    values, sums = task.loss(torch.eye(3)[None], torch.tensor([[0, 1, 1]]))
    assert values.shape == (1, 3)
    assert task.report({"loss": 1.0, "accuracy": float(sums["accuracy"].sum())}, 3) == {"accuracy": pytest.approx(2 / 3)}


def test_bad_options_are_refused():
    with pytest.raises(UserError, match="--within is 0"):
        Needle(within=0).resolved()
    with pytest.raises(UserError, match="--symbols is 1; give at least 2"):
        Needle(symbols=1).resolved()
