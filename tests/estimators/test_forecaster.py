"""What comes next, whatever form the series have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV

import hrnn
from hrnn.errors import UserError
from tests.data.made import write_table
from tests.estimators.made import QUICK, columns, waves

WAVE = 50 + 10 * np.sin(np.arange(240) / 4)


def test_it_learns():
    model = hrnn.Forecaster(4, hidden_sizes=(16, 16), learning_rate=1e-2, updates=60, random_state=0).fit(WAVE[:-4])
    assert np.abs(model.predict() - WAVE[-4:]).mean() < 0.5 * np.abs(WAVE[-5] - WAVE[-4:]).mean()
    errors = np.abs(model.predict(WAVE[:-4]) - WAVE[-4:])
    assert model.score(WAVE) == pytest.approx(1 - errors.sum() / np.abs(WAVE[-5] - WAVE[-4:]).sum())


def test_answers_have_the_form_of_the_series(tmp_path):
    two, model = np.stack([WAVE, 2 * WAVE]), hrnn.Forecaster(3, **QUICK)
    assert model.fit(WAVE).predict().shape == (3,)
    assert np.array_equal(model.predict(WAVE.tolist()), model.predict(WAVE))
    assert model.fit(two).predict(two).shape == (2, 3)
    assert np.array_equal(model.predict(two[..., None])[..., 0], model.predict(two))
    lists = [np.stack([WAVE, -WAVE], 1), np.stack([WAVE, -WAVE], 1)[:100]]
    assert model.fit(lists).predict().shape == (2, 3, 2)
    np.testing.assert_allclose(model.predict(lists[1:])[0], model.forecast_[1], rtol=1e-6)  # bits depend on the rows in a batch
    patched = hrnn.Forecaster(3, **QUICK, patch=2).fit(WAVE)
    assert patched.predict().shape == (3,)
    assert patched.trained_.config.task.forecast == 2


def test_tables(tmp_path):
    sequences, _ = waves(6, 30, 50)
    table = pa.table(columns(sequences))
    options = {"id": "walk"}
    model = hrnn.Forecaster(2, **QUICK, options=options).fit(table)
    assert model.forecast_.shape == (6, 2, 2)
    assert np.abs(model.predict(sequences) - model.forecast_).max() < 1e-6
    path = write_table(table, tmp_path / "t.parquet")
    assert np.array_equal(hrnn.Forecaster(2, **QUICK, options=options).fit(path).forecast_, model.forecast_)


def test_the_end_is_held_out_or_whole_series_where_they_are_short(tmp_path):
    hrnn.Forecaster(**QUICK, run=tmp_path / "long").fit(WAVE)
    task = hrnn.load(tmp_path / "long").config.task
    assert {name: int(spans.lengths.sum()) for name, spans in task.opened.parts.items()} == {"training": 216, "validation": 24}
    hrnn.Forecaster(**QUICK, run=tmp_path / "short").fit(np.random.default_rng(0).normal(size=(20, 15)))
    parts = hrnn.load(tmp_path / "short").config.task.opened.parts
    assert {name: spans.lengths.tolist() for name, spans in parts.items()} == {"training": 18 * [15], "validation": 2 * [15]}
    one = hrnn.Forecaster(**QUICK).fit(WAVE[:10])
    assert np.isfinite(one.result_["validation"]["mase"])


def test_the_horizon_can_be_searched():
    search = GridSearchCV(hrnn.Forecaster(**QUICK), {"horizon": [1, 2]}, cv=2).fit([WAVE[i : i + 60] for i in range(4)])
    assert search.best_estimator_.forecast_.shape == (4, search.best_params_["horizon"], 1)


@pytest.mark.parametrize(
    ("X", "options", "sentence"),
    [
        (WAVE, {"horizon": 0}, "horizon is 0; give a whole number of at least 1"),
        (WAVE, {"horizon": 1.5}, "horizon is 1.5; give a whole number"),
        (np.zeros((9, 1)), {}, r"every series of X has one step \(n_features=1\), and nothing follows it; give longer ones"),
    ],
)
def test_mistakes_are_a_sentence(X, options, sentence):
    with pytest.raises(UserError, match=sentence):
        hrnn.Forecaster(updates=1, **options).fit(X)


def test_what_cannot_be_scored():
    model = hrnn.Forecaster(3, **QUICK).fit(WAVE)
    with pytest.raises(UserError, match="a series of X has 3 steps, and horizon is 3; give longer ones"):
        model.score(WAVE[:3])
    with pytest.raises(UserError, match="score takes arrays"):
        model.score(pa.table({"y": WAVE}))
    assert hrnn.Forecaster(1, **QUICK).fit(WAVE).score(np.zeros(9)) in (1.0, float("-inf"))  # the last value is right
