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


def test_decoys_are_rare_and_do_not_matter_and_the_needle_may_look_like_the_rest():
    reading = Reading(0, 400, 100)
    plain, decoyed = (Needle(steps=60, symbols=4, decoys=n).batch(3, reading).windows[0] for n in (0, 5))
    assert torch.equal(plain.y, decoyed.y)
    rare = decoyed.x >= 8
    assert 4 <= float(rare.sum(0).double().mean()) <= 5  # some fall on each other, or on the needle
    assert torch.equal(plain.x[~rare], decoyed.x[~rare])
    assert set(decoyed.x[rare].tolist()) == {8, 9, 10, 11}
    flagged = (decoyed.x >= 4) & ~rare
    assert bool((flagged.sum(0) == 1).all())
    task = Needle(steps=60, symbols=4, flagged=False, decoys=2)
    window = task.batch(3, reading).windows[0]
    assert torch.equal(window.y[-1], window.x[0])
    assert not bool(((window.x >= 4) & (window.x < 8)).any())
    assert (Needle(symbols=4).inputs.count, task.inputs.count) == (8, 12)
