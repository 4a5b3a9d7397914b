from dataclasses import replace

import pytest
import torch

from hrnn.errors import UserError
from hrnn.tasks import Copy, Reading
from hrnn.tasks.contract import BITS_PER_NAT
from hrnn.tasks.copy import Curriculum, losses_by_position

READING = Reading(seed=0, batch=6, window=8)


def whole(batch):
    return torch.cat([window.x for window in batch.windows]), torch.cat([window.y for window in batch.windows])


def test_bits_then_blanks_and_blanks_then_the_same_bits():
    x, y = whole(Copy(length=5).batch(0, READING))
    assert x.shape == y.shape == (10, 6)
    assert set(x[:5].unique().tolist()) == {0, 1}
    assert (x[5:] == 2).all()
    assert (y[:5] == 2).all()
    assert torch.equal(y[5:], x[:5])


def test_windows_count_from_step_0_and_states_start_from_zero():
    batch = Copy(length=10).batch(0, READING)
    assert [window.steps for window in batch.windows] == [8, 8, 4]
    assert batch.fresh
    assert batch.targets == 20 * 6


def test_every_batch_is_fresh_and_every_process_sees_its_rows():
    task = Copy(length=9)
    x, _ = whole(task.batch(3, READING))
    assert not torch.equal(x, whole(task.batch(4, READING))[0])
    part, _ = whole(task.batch(3, replace(READING, rows=range(2, 5))))
    assert torch.equal(part, x[:, 2:5])


def test_loss_over_recalled_characters_only_and_over_all():
    task = Copy()
    target = torch.tensor([[2, 2], [0, 1]])
    logits = torch.zeros(2, 2, 3)
    logits[0, :, 2] = 30.0  # blanks known, bits unknown: one third each
    values, sums = task.loss(logits, target)
    assert values.shape == (2, 2)
    report = task.report({"loss": float(values.sum()), **{name: float(v.sum()) for name, v in sums.items()}}, 4)
    assert report["recalled_bits_per_character"] == pytest.approx(1.58496, abs=1e-4)
    assert report["bits_per_character"] == pytest.approx(1.58496 / 2, abs=1e-4)


def recall_inside(window, length):
    """Nats of a model that recalls perfectly inside the first window and guesses beyond it, for one batch."""
    values = torch.zeros(2 * length, 10)
    values[window:] = 1 / BITS_PER_NAT
    return iter([values])


def test_perfect_recall_inside_a_window_of_200_solves_exactly_108():
    solved = [n for n in range(90, 130) if losses_by_position([recall_inside(200, n)])["recalled_bits_per_character"] < 0.15]
    assert max(solved) == 108
    over_all = [n for n in range(90, 130) if losses_by_position([recall_inside(200, n)])["bits_per_character"] < 0.15]
    assert max(over_all) == 117


class Learner:
    """Stands for a model whose loss over recalled characters is given; the curriculum only sees its losses."""

    def __init__(self, task, reading=READING):
        self.course = Curriculum(task, reading)
        self.bits, self.tested = 1.0, 0

    def score(self, batch):
        self.tested += batch.rows
        for window in batch.windows:
            yield torch.full(window.x.shape, self.bits / BITS_PER_NAT)

    def update(self, number, bits, tested=None):
        self.bits = bits if tested is None else tested
        return self.course.after_update(number, {"recalled_bits_per_character": bits}, self.score)


def test_a_length_is_solved_by_a_batch_and_then_by_a_test_on_fresh_sequences():
    learner = Learner(Copy(start=3, step=4, test_sequences=20))
    assert not learner.update(1, 0.5).keep
    assert learner.tested == 0
    assert not learner.update(2, 0.1, tested=0.2).keep
    assert learner.tested == 20
    decision = learner.update(3, 0.1)
    assert decision.keep
    (record,) = decision.records
    assert (record["length"], record["outcome"], record["updates"], record["sequences"]) == (3, "solved", 3, 18)
    assert record["recalled_bits_per_character"] == pytest.approx(0.1)
    assert len(record["bits_by_position"]) == 6
    assert learner.course.status == {"length": 7, "solved": 3}
    assert learner.course.kept == {3}


def test_each_test_draws_other_sequences():
    task = Copy(test_sequences=6)
    first, second = (next(task.tests("test", number, 30, READING)) for number in (1, 2))
    assert not torch.equal(whole(first)[0], whole(second)[0])
    assert not torch.equal(whole(first)[0], whole(task.sequences("training", 1, 30, READING))[0])


def test_expiry_returns_to_the_last_solved_checkpoint_and_grows_by_one():
    learner = Learner(Copy(start=3, step=4, patience=2))
    assert learner.update(7, 0.1).keep
    assert learner.update(8, 0.9).back_to is None
    decision = learner.update(9, 0.9)
    assert decision.back_to == 7
    assert decision.records[0]["outcome"] == "expired"
    assert learner.course.status == {"length": 4, "solved": 3}
    assert learner.update(10, 0.1).keep  # length 4 solved: the step stays 1
    assert learner.course.status == {"length": 5, "solved": 4}
    assert learner.course.outcome == {"longest_solved_length": 4, "at_least": True}
    learner.update(11, 0.9)
    assert learner.update(12, 0.9).back_to is None
    assert learner.course.finished == "patience"
    assert learner.course.outcome == {"longest_solved_length": 4, "at_least": False}


def test_nothing_solved_within_patience_ends_it():
    learner = Learner(Copy(start=3, step=4, patience=1))
    learner.update(1, 0.9)
    assert learner.course.finished == "patience"
    assert learner.course.outcome["longest_solved_length"] == 0


def test_one_length_ends_when_it_is_solved():
    learner = Learner(Copy(length=5))
    assert learner.course.batch(0).steps == 10
    learner.update(1, 0.1)
    assert learner.course.finished == "solved"


def test_a_curriculum_ends_with_the_length_it_is_to_reach():
    learner = Learner(Copy(start=3, step=4, until=8))
    learner.update(1, 0.1)
    learner.update(2, 0.1)
    assert learner.course.finished is None
    learner.update(3, 0.1)
    assert learner.course.finished == "solved"
    assert learner.course.outcome == {"longest_solved_length": 11, "at_least": True}


def test_a_resumed_curriculum_is_where_it_was():
    learner = Learner(Copy(start=3, step=4, patience=5))
    learner.update(1, 0.1)
    learner.update(2, 0.1, tested=0.9)
    again = Curriculum(Copy(start=3, step=4, patience=5), READING)
    again.load_state(learner.course.state())
    assert again.stage == learner.course.stage
    assert torch.equal(whole(again.batch(2))[0], whole(learner.course.batch(2))[0])


def test_length_and_start_contradict_each_other():
    with pytest.raises(UserError, match=r"--length 5 .* --start 3"):
        Copy(length=5, start=3).resolved()
    with pytest.raises(UserError, match="--step is 0"):
        Copy(step=0).resolved()
