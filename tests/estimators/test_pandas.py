"""Tables and series of pandas."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hrnn
from hrnn.errors import UserError
from tests.estimators.made import QUICK, columns, repeated, waves

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")

X, Y = waves()
LONG = pd.DataFrame(columns(X) | {"gait": repeated(X, Y), "surface": repeated(X, ["sand", "wood", "sand"] * 8)})


def test_a_long_table_has_a_row_for_each_step():
    options = {"id": "walk", "values": ["a", "b", "surface"]}
    model = hrnn.SequenceClassifier(**QUICK, options=options).fit(LONG, "gait")
    assert model.classes_.tolist() == ["fast", "slow"]
    assert model.trained_.config.task.learned.kinds == ("number", "number", "category")
    predicted = model.predict(LONG.drop(columns="gait"))
    assert predicted.shape == (LONG["walk"].nunique(),)
    some = LONG[LONG["walk"].isin(["w5", "w2"])]
    assert predicted[[2, 5]].tolist() == model.predict(some).tolist()  # in the order in which they first appear
    assert model.score(LONG, "gait") == np.mean(predicted == Y)
    beside = LONG.assign(when=HOURS[0], notes=[[number] for number in range(len(LONG))])  # columns that nobody asked for
    assert model.score(beside, "gait") == np.mean(predicted == Y)


def test_with_targets_beside_it_a_row_is_a_sequence():
    wide = pd.DataFrame(np.stack([one[:9, 0] for one in X]), columns=[f"t{step}" for step in range(9)], index=range(100, 124))
    labels = pd.Series(Y, index=wide.index)
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), hrnn.SequenceClassifier(**QUICK)).fit(wide, labels)
    assert model.predict(wide).shape == (24,)
    alone = hrnn.SequenceClassifier(**QUICK).fit(wide, labels)
    assert alone.feature_names_in_.tolist() == wide.columns.tolist()
    assert np.array_equal(
        alone.predict_proba(wide), hrnn.SequenceClassifier(**QUICK).fit(wide.to_numpy(), Y).predict_proba(wide.to_numpy())
    )
    with pytest.raises(ValueError, match="feature names should match"):
        alone.predict(wide.rename(columns={"t0": "other"}))


def test_a_list_of_tables_is_read_by_the_names_of_columns():
    tables = [pd.DataFrame(one, columns=["a", "b"]) for one in X]
    turned = [one[["b", "a"]] for one in tables]
    model = hrnn.SequenceClassifier(**QUICK).fit(tables, Y)
    expected = model.predict_proba(X)
    assert np.ptp(expected[:, 0]) > 1e-3
    for same in (tables, turned):
        assert np.array_equal(model.predict_proba(same), expected)
        assert np.array_equal(hrnn.SequenceClassifier(**QUICK).fit(tables, Y).predict_proba(same), expected)
    with pytest.raises(
        UserError, match="sequences of X have the columns a, c, and those of fit had a, b; give each by its name"
    ):
        model.predict([one.rename(columns={"b": "c"}) for one in tables])
    with pytest.raises(UserError, match="sequence 1 of X has the columns b, a, and the first a, b; give all the same"):
        model.fit([tables[0], *turned[1:]], Y)
    by_column = hrnn.SequenceClassifier(**QUICK, options={"id": "walk", "values": ["a", "b"]}).fit(LONG, "gait").trained_
    assert np.array_equal(by_column.predict_proba(turned), by_column.predict_proba(X))
    with pytest.raises(UserError, match="the data have the columns a, c, and training had a, b; give each by its name"):
        by_column.predict([one.rename(columns={"b": "c"}) for one in tables])


def test_columns_may_be_called_by_numbers_and_tables_be_of_pyarrow():
    tables = [pd.DataFrame(one) for one in X]  # columns 0 and 1
    model = hrnn.SequenceClassifier(**QUICK).fit(tables, Y)
    expected = model.predict_proba(X)
    assert np.array_equal(model.predict_proba([one[[1, 0]] for one in tables]), expected)
    arrow = [pa.table({"1": one[:, 1], "0": one[:, 0]}) for one in X]
    assert np.array_equal(model.predict_proba(arrow), expected)


def test_masked_values_are_missing():
    holes = [np.where(np.arange(len(one))[:, None] % 5 == 2, np.nan, one) for one in X]
    masked = [np.ma.masked_invalid(one) for one in holes]
    for one in masked:
        one.data[one.mask] = 1e20  # as files of measurements have it
    model = hrnn.SequenceClassifier(**QUICK).fit(masked, Y)
    assert np.array_equal(model.predict_proba(masked), hrnn.SequenceClassifier(**QUICK).fit(holes, Y).predict_proba(holes))
    assert np.array_equal(model.trained_.predict_proba(masked), model.predict_proba(holes))
    whole = np.ma.stack([one[:9] for one in masked])
    assert np.array_equal(model.predict_proba(whole), model.predict_proba([one[:9] for one in holes]))
    assert np.array_equal(model.trained_.predict_proba(whole), model.predict_proba([one[:9] for one in holes]))


HOURS = pd.date_range("2026-01-01", periods=240, freq="h")
LOAD = pd.DataFrame({"ds": HOURS, "y": 50 + 10 * np.sin(np.arange(240) / 4)})


def test_a_series_with_times_however_they_stand():
    model = hrnn.Forecaster(3, **QUICK)
    found = model.fit(LOAD).predict()
    assert found.columns.tolist() == ["step", "y"]
    assert found["step"].tolist() == [240, 241, 242]
    for same in (
        LOAD.set_index("ds"),
        LOAD.set_index(HOURS.rename(None))[["y"]],
        LOAD[["y"]],
        LOAD[["y"]].set_index(HOURS.to_period("h")),
    ):
        assert np.allclose(model.fit(same).predict()["y"], found["y"], atol=1e-5)
    alone = model.fit(LOAD.set_index("ds")["y"]).predict()
    assert np.allclose(alone, found["y"], atol=1e-5)


def test_several_series_with_their_names():
    panel = pd.concat([LOAD.assign(unique_id=name, y=LOAD["y"] * scale) for name, scale in (("b", 1), ("a", 2))])
    model = hrnn.Forecaster(2, **QUICK).fit(panel)
    found = model.predict(panel)
    assert found["unique_id"].tolist() == ["b", "b", "a", "a"]
    assert found["y"].equals(model.forecast_["y"])
    assert np.allclose(model.fit(panel.set_index(["unique_id", "ds"])).predict()["y"], found["y"])


@pytest.mark.parametrize("columns", [("time", "y"), ("y", "y")])
def test_columns_of_several_types_and_two_of_one_name_are_a_sentence(columns):
    frame = pd.DataFrame(zip(range(50), [1, "a"] * 25, strict=True), columns=columns)
    with pytest.raises(UserError, match=r"X cannot be read as a table .*; give each column one type and one name"):
        hrnn.Forecaster(**QUICK).fit(frame)


def test_forecasts_of_a_column_called_step():
    frame = pd.DataFrame({"step": np.arange(60.0), "v": np.arange(60.0) ** 0.5})
    assert list(hrnn.Forecaster(2, **QUICK).fit(frame).forecast_.columns) == ["step", "step_", "v"]


def test_times_of_any_unit_are_the_same():
    seconds = np.random.default_rng(0).integers(5, 15, len(LONG)).cumsum()
    stamped = LONG.assign(time=(pd.Timestamp("2026-01-01") + pd.to_timedelta(seconds, "s")).astype("datetime64[s]"))
    model = hrnn.SequenceClassifier(**QUICK, options={"id": "walk", "values": ["a", "b"]}).fit(stamped, "gait")
    learned = model.trained_.config.task.learned
    assert (learned.interval > 0, learned.times) == (True, "timestamps")
    expected = model.predict_proba(stamped)
    for unit in ("ms", "us", "ns"):
        assert np.array_equal(model.predict_proba(stamped.assign(time=stamped["time"].astype(f"datetime64[{unit}]"))), expected)
    stream, walk = model.trained_.stream(), stamped[stamped["walk"] == "w0"]
    for row in walk.assign(time=walk["time"].astype("datetime64[ns]") + pd.Timedelta(1, "ns")).itertuples():
        answer = stream.step([row.a, row.b], row.time)
    assert np.allclose([answer["p_fast"], answer["p_slow"]], expected[0], atol=1e-6)
