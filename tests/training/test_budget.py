"""A run stops where its budget says, in the user's unit, also in the middle of a batch of several windows."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import replace
from functools import partial

import pytest

from campaigns.small import End, journal
from hrnn.tasks import Copy, Needle, Series
from hrnn.training import loop
from hrnn.training.checkpoint import CheckpointFolder
from hrnn.training.config import Budget, Config, Learning, Model, Runtime
from hrnn.training.loop import start, train
from hrnn.training.network import learning_rate
from tests.data.made import write_table
from tests.series.made import panel

MODEL = Model(hidden_sizes=(4, 5), periods=(3,), window=5)  # four windows to a batch of sequences of 17 steps
LEARNING = Learning(batch=4, learning_rate=0.01, schedule="cosine")
QUIET = Runtime(tensorboard=False, journal_every=1, checkpoint_seconds=0, frozen_every=3)
NEEDLE = Config(Needle(steps=17, test_sequences=8), MODEL, LEARNING, upkeep=QUIET)


def series(folder) -> Config:
    """Sequences of 9 to 16 steps with one loss for each, of its mean logits: windows have fewer and fewer rows."""
    task = Series(data=(write_table(panel(), folder / "data.parquet"),), readout="mean")
    return replace(NEEDLE, task=task, model=replace(MODEL, window=6))


def records(run, kind="update"):
    return [record for record in journal(run) if record["kind"] == kind]


@pytest.mark.parametrize("update", ["segment", "window", "batch"])
@pytest.mark.parametrize("updates", [1, 3, 4, 6])
def test_it_stops_at_the_update_and_the_learning_rate_falls_until_there(tmp_path, update, updates):
    config = replace(NEEDLE, learning=replace(LEARNING, update=update), budget=Budget(updates=updates))
    result = start(config, tmp_path / "run").result
    assert result["updates"] == updates
    found = records(tmp_path / "run")
    assert [one["update"] for one in found] == [*range(1, updates + 1)]
    assert [one["learning_rate"] for one in found] == [learning_rate(LEARNING, n, n / updates) for n in range(updates)]
    windows = 1 if update == "batch" else 4
    assert [one["sequences"] for one in found] == [4 * (n + 1) // windows for n in range(updates)]


@pytest.mark.parametrize("budget", [Budget(sequences=8), Budget(sequences=5), Budget(updates=30, sequences=7)])
def test_sequences_are_those_of_whole_batches_and_the_learning_rate_falls_within_a_batch(tmp_path, budget):
    result = start(replace(NEEDLE, budget=budget), tmp_path / "run").result
    assert (result["updates"], result["sequences"]) == (8, 8)
    rates = [one["learning_rate"] for one in records(tmp_path / "run")]
    assert rates == pytest.approx([learning_rate(LEARNING, n, n / 8) for n in range(8)])


def test_epochs_of_one_batch(tmp_path):
    """The learning rate was the same in all of its windows."""
    config = series(tmp_path)
    config = replace(config, learning=replace(LEARNING, batch=16), budget=Budget(epochs=1))
    assert start(config, tmp_path / "run").result["sequences"] == 16
    rates = [one["learning_rate"] for one in records(tmp_path / "run")]
    assert rates == pytest.approx([learning_rate(LEARNING, n, n / len(rates)) for n in range(len(rates))])
    assert len(rates) > 2


def test_validations_come_after_as_many_updates_as_asked_for_and_stop_the_run_there(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "evaluated", lambda *_: {"accuracy": 0.5})  # the first is the best
    config = replace(NEEDLE, budget=Budget(updates=30, validate_every=3, stop_after=2))
    result = start(config, tmp_path / "run").result
    assert [one["update"] for one in records(tmp_path / "run", "validation")] == [3, 6, 9]
    assert (result["reason"], result["updates"]) == ("no gain", 9)


def test_patience_counts_updates(tmp_path):
    """A length ends with a batch; here of two windows."""
    task = Copy(start=4, step=2, patience=3, solved=1e-9, test_sequences=4)
    start(replace(NEEDLE, task=task, budget=Budget(updates=20)), tmp_path / "run")
    (ended,) = records(tmp_path / "run", "length")
    assert (ended["update"], ended["updates"], ended["sequences"]) == (4, 4, 8)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("kind", ["needle", "series"])
def test_a_run_that_is_killed_and_stopped_at_every_update_ends_as_if_it_had_not_been(tmp_path, monkeypatch, kind):
    config = series(tmp_path) if kind == "series" else NEEDLE
    config = replace(config, budget=Budget(updates=7, validate_every=3))
    straight, run = tmp_path / "straight", tmp_path / "run"
    start(config, straight)
    original = loop.after_update

    def dies(run, sums):
        raise KilledError

    def stops(run, sums):
        original(run, sums)
        os.kill(os.getpid(), signal.SIGINT)

    middles, stopped, go_on = [], "interrupted", partial(start, config)
    while stopped is not None:
        monkeypatch.setattr(loop, "after_update", dies)
        with contextlib.suppress(KilledError):  # there may be nothing left but the test
            go_on(run)
        go_on = train
        monkeypatch.setattr(loop, "after_update", stops)
        stopped = train(run).stopped
        middles.append(CheckpointFolder(run / "checkpoints", 3).newest()[0].facts["position"]["windows"])
    assert len(middles) >= 7
    assert len(set(middles)) > 2
    assert End.of(run, without=("events",)).differences(End.of(straight, without=("events",))) == []
