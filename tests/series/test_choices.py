"""What is chosen where nobody says: stretches where lengths are very unequal, epochs by the steps that there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hrnn.errors import UserError
from hrnn.tasks import Series
from hrnn.tasks.series.choices import MOST_EPOCHS, PLACES, crop_for, epochs_for
from hrnn.training.config import Config, Model, resolved


@pytest.mark.parametrize(
    ("lengths", "crop"),
    [([100, 100, 100], None), ([50, 100, 400], None), ([50, 100, 401], 100), ([10, 2000, 2000], None)],
)
def test_stretches_where_a_few_are_far_longer(lengths, crop):
    assert crop_for(np.array(lengths)) == crop


def test_epochs():
    assert epochs_for(1000) == MOST_EPOCHS
    assert epochs_for(1000, longer=2.5) == round(2.5 * MOST_EPOCHS)  # as many steps as whole sequences would be
    assert epochs_for(PLACES // 4) == epochs_for(PLACES // 4, longer=3) == 4
    assert epochs_for(10 * PLACES) == 1


def unequal(folder: Path, **options) -> Series:
    random = np.random.default_rng(0)
    lengths = [20] * 28 + [200, 300]
    with open(folder / "unequal.csv", "w") as file:
        print("id,x,label", file=file)
        for number, length in enumerate(lengths):
            for value in random.normal(number % 2, 1, length):
                print(f"s{number},{value:.4f},{'ab'[number % 2]}", file=file)
    return Series(data=(folder / "unequal.csv",), cache=folder / "cache", held_out=0.2, **options)


def test_a_run_keeps_the_stretch_that_was_chosen(tmp_path):
    task = unequal(tmp_path)
    config = resolved(Config(task))
    assert config.task.crop == 20
    assert config.window <= 24
    lasting = resolved(Config(replace(task, readout="last")))
    assert lasting.task.crop is None  # one target at the end needs the end
    whole = resolved(Config(replace(task, crop=1000)))
    assert whole.task.crop == 1000
    stored = replace(config.task, crop=None)  # a run from before there was a choice stays what it was
    assert stored.cropped is None


def test_forecasts_read_changes(tmp_path):
    np.save(tmp_path / "walk.npy", np.random.default_rng(0).normal(size=3000).cumsum())
    task = resolved(Config(Series(data=(tmp_path / "walk.npy",), cache=tmp_path / "cache"))).task
    part, _ = task.part("training")
    x = part.inputs(0)
    assert x.shape[1] == task.inputs == 2
    assert x[:, 1].std() == pytest.approx(1, rel=0.01)  # at the scale of what is predicted


def test_given_periods_say_how_many_levels_there_are(tmp_path):
    np.savez(tmp_path / "long.npz", x=np.zeros((30, 2400)) + np.arange(2400), y=np.arange(30) % 2)
    task = Series(data=(tmp_path / "long.npz",), cache=tmp_path / "cache")
    assert resolved(Config(task)).hidden_sizes == (64, 64, 96)
    assert resolved(Config(task, Model(periods=(24,)))).hidden_sizes == (64, 64)
    assert resolved(Config(task, Model(periods=(5, 5, 5)))).hidden_sizes == (64, 64, 96, 96)
    with pytest.raises(UserError, match="--hidden-sizes has 2 entries for 2 of --periods"):
        resolved(Config(task, Model(hidden_sizes=(64, 64))))
