"""Rows of different lengths share batches without changing results, and padding is not computed on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hrnn.gradients import Full
from hrnn.tasks import Batch, Reading, Series
from hrnn.tasks.series.batches import Asked, Windows, edges
from hrnn.training import learning
from hrnn.training.config import Budget, Config, Learning, Model, resolved
from hrnn.training.run import Run
from tests.data.made import write_table
from tests.series.made import panel


def run_on(tmp_path, kind="class", update="batch", **options):
    path = write_table(panel(kind), tmp_path / "t.parquet")
    task = Series(data=(path,), cache=tmp_path / "cache", **options)
    model = Model(hidden_sizes=(6, 7), periods=(3,), window=8, normalized=False)
    learning = Learning(batch=5, update=update, clip=None, average=None)
    return Run(resolved(Config(task, model, learning, Budget(updates=1))), tmp_path / "run")


def gradients(run, batch, monkeypatch):
    """What `learn` gathers for a batch, before it moves; in float64."""
    found = {}

    def move(run, sums):
        found.update({name: one.grad.clone() for name, one in run.network.named_parameters() if one.grad is not None})
        run.network.zero_grad()
        return sums

    monkeypatch.setattr(learning, "move", move)
    windows = [replace(window, x=window.x.double()) for window in batch.windows]
    list(learning.learn(run, Batch(windows, whole=True)))
    return found, sum(window.targets for window in windows), sum(window.places for window in windows)


@pytest.mark.parametrize("kind", ["class", "number"])
def test_rows_of_different_lengths_equal_each_alone(tmp_path, monkeypatch, kind):
    run = run_on(tmp_path, kind)
    run.network.double()
    part, asked, reading = run.task.part("training")[0], run.task.asked, run.reading
    rows = run.task.plan(reading).plan.rows(0)
    lengths = part.lengths[rows]
    assert len(set(lengths.tolist())) > 2
    together, targets, places = gradients(run, Batch(Windows(part, rows, lengths, reading, asked)), monkeypatch)
    assert targets == places == lengths.sum()
    total = {name: torch.zeros_like(one) for name, one in together.items()}
    for row in rows:
        alone, _, steps = gradients(run, Batch(Windows(part, np.array([row]), lengths, reading, asked)), monkeypatch)
        for name, one in alone.items():
            total[name] += one * steps / places
    for name, one in together.items():
        assert one.abs().max() > 0
        assert (one - total[name]).abs().max() <= 1e-9, name


def test_rows_that_have_ended_are_left_out_and_all_are_in_phase_up_to_there(tmp_path):
    run = run_on(tmp_path)
    part, reading = run.task.part("training")[0], run.reading
    order = np.argsort(-part.lengths)[[0, 1, 5, 9, -1]]
    windows = Windows(part, order, part.lengths[order], reading, run.task.asked)
    lengths, seen = part.lengths[order], np.zeros(5, int)
    for place, (start, window) in enumerate(zip(windows.edges, windows, strict=False)):
        left = window.x.shape[1]
        assert left == (lengths > start).sum()
        counts = np.full(left, window.steps) if window.lengths is None else window.lengths.numpy()
        seen[:left] += counts
        if windows.edges[place + 1] <= lengths.min():
            assert window.lengths is None
        assert (window.ends.any(0).numpy() == (seen[:left] == lengths[:left])).all()
    assert (seen == lengths).all()
    assert sum(window.x.shape[0] * window.x.shape[1] for window in windows) < lengths.max() * 5


def test_edges():
    assert edges(10, 10, 4, 3) == [0, 4, 8, 10]
    assert edges(10, 25, 100, 4) == [0, 8, 25]
    assert edges(3, 25, 10, 4) == [0, 10, 20, 25]
    assert edges(20, 25, 10, 4) == [0, 10, 20, 25]


def test_every_sequence_is_read_in_an_epoch_and_the_last_batch_is_full(tmp_path):
    run = run_on(tmp_path)
    plan = run.task.plan(run.reading)
    assert plan.per_epoch == -(-len(plan.part) // 5)
    batches = [plan.batch(index) for index in range(plan.per_epoch)]
    assert all(batch.rows == 5 for batch in batches)
    assert set(np.concatenate([batch.windows.rows for batch in batches])) == set(range(len(plan.part)))
    again = run.task.plan(Reading(**vars(run.reading))).batch(2)
    assert torch.equal(again.windows[0].x, batches[2].windows[0].x)


def test_levels_move_within_a_window_of_unequal_lengths_after_all_but_small_batches(tmp_path):
    run = run_on(tmp_path, update="segment")
    part, asked = run.task.part("training")[0], run.task.asked
    longest = np.argsort(-part.lengths)[[0, 0, 0, 0, 0]]
    mixed = np.argsort(-part.lengths)[[0, 3, 6, 9, 12]]
    moves = []
    for rows in (longest, mixed):
        before = list(run.updates.moves)
        reading = Reading(0, 5, 100, segment=100)  # one window
        list(learning.learn(run, Batch(Windows(part, rows, part.lengths[rows], reading, asked), whole=True)))
        moves.append([now - then for now, then in zip(run.updates.moves, before, strict=True)])
    assert moves[0] == [-(-part.lengths.max() // 3), 1]
    counts = [(part.lengths[mixed] - 3 * batch).clip(0, 3).sum() for batch in range(moves[0][0])]  # steps of each batch
    assert moves[1] == [sum(count >= sum(counts) / len(counts) / 2 for count in counts), 1]


def test_a_target_at_the_last_step_only(tmp_path):
    run = run_on(tmp_path, readout="last")
    batch = run.course.batch(0)
    assert sum(window.targets for window in batch.windows) == 5
    assert run.task.asked == Asked("sequence", last=True)


def test_random_stretches_of_sequences(tmp_path):
    run = run_on(tmp_path, crop=6)
    plan = run.task.plan(run.reading)
    first, again = plan.batch(0), plan.batch(plan.per_epoch)
    assert [(window.steps, window.lengths) for window in first.windows] == [(6, None)]  # every row is longer
    for place, row in enumerate(first.windows.rows):
        inputs, start = plan.part.inputs(int(row)), int(first.windows.starts[place])
        assert (first.windows[0].x[:, place].numpy() == inputs[start : start + 6]).all()
    starts = {int(start) for batch in (first, again) for start in batch.windows.starts}
    assert len(starts) > 2


@pytest.mark.parametrize("kind", ["class", "step", "series"])
def test_long_windows_are_scored_in_pieces(tmp_path, monkeypatch, kind):
    """Rows that end on the way, single targets, sequences that begin within a row."""
    from hrnn.training import evaluation

    run = run_on(tmp_path, "none" if kind == "series" else kind, **({"forecast": 2} if kind == "series" else {}))
    run.network.double()
    batches = list(run.task.evaluation("training", replace(run.reading, window=40)))
    batches = [Batch([replace(w, x=w.x.double()) for w in batch.windows], batch.fresh, batch.whole) for batch in batches]
    found = []
    for numbers in (1 << 30, 5 * 6 * 4):
        monkeypatch.setattr(evaluation, "NUMBERS", numbers)
        values = [values for batch in batches for values in evaluation.values_of(run.network, run.task, batch)]
        found.append((values, evaluation.evaluate(run.network, run.task, batches)))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert torch.allclose(one, other, rtol=1e-10)
    assert found[0][1].keys() == found[1][1].keys()
    for name, value in found[0][1].items():
        assert value == pytest.approx(found[1][1][name], rel=1e-9), name


@pytest.mark.parametrize("kind", ["class", "number"])
def test_the_mean_of_the_logits_is_what_learns(tmp_path, monkeypatch, kind):
    """Beside autograd through all steps of all rows; sequences count for their steps."""
    run = run_on(tmp_path, kind, readout="mean", class_weights="balanced" if kind == "class" else "equal")
    run.network.double()
    run.gradient = Full()
    part, rows = run.task.part("training")[0], run.task.plan(run.reading).plan.rows(0)
    lengths = part.lengths[rows]
    run.config = replace(run.config, model=replace(run.config.model, betas=(0.0,)))
    longest = replace(run.reading, window=int(lengths.max()), segment=100)  # gradients do not cross windows: one window
    batch = Batch(Windows(part, rows, lengths, longest, run.task.asked), whole=True)
    found, _, _ = gradients(run, batch, monkeypatch)
    run.network.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        x = torch.from_numpy(part.inputs(int(row))).double()[:, None]
        mean = run.network(run.network.levels(x)[0]).mean(0, keepdim=True)
        total = total + len(x) * run.task.loss(mean, torch.from_numpy(np.array([[part.target(int(row))]])))[0].sum()
    (total / int(lengths.sum())).backward()
    expected = {name: one.grad for name, one in run.network.named_parameters() if one.grad is not None}
    assert expected["head.weight"].abs().max() > 0
    for name, one in expected.items():
        assert (one - found[name]).abs().max() <= 1e-9, name
