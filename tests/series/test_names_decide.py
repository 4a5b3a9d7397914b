"""Whatever has names is read by them, and only what has none by its position."""

import csv
import io
from collections import namedtuple

import numpy as np
import pyarrow as pa
import pytest

import hrnn as library
from hrnn.data import Part, arrays, cache, learn, split
from hrnn.errors import UserError
from hrnn.estimators import Forecaster, SequenceClassifier
from hrnn.export.series import columns_of
from hrnn.tasks import Series
from tests.commands.console import hrnn
from tests.data.made import write_table
from tests.estimators.made import QUICK
from tests.series.made import untrained

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")

RANDOM = np.random.default_rng(0)
WALKS = [RANDOM.normal([0, 3], [1, 2], (8 + number % 3, 2)) for number in range(16)]
FRAMES = [pd.DataFrame(walk, columns=["y", "a"]) for walk in WALKS]
TURNED = [frame[["a", "y"]] for frame in FRAMES]
GAITS = ["slow", "fast"] * 8


def table(names=("id", "time", "y", "a", "label"), irregular=False):
    steps = np.concatenate([np.arange(len(walk)) for walk in WALKS])
    numbers = np.repeat(np.arange(16), [len(walk) for walk in WALKS])
    times = steps**2 if irregular else steps
    y, a = np.concatenate(WALKS).T
    return pa.table(dict(zip(names, [numbers, times, y, a, np.array(GAITS)[numbers]], strict=True)))


def run_on(folder, made, **options):
    return untrained(
        folder / "runs" / "r", Series(data=(write_table(made, folder / "t.csv"),), cache=folder / "cache", **options)
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_on(tmp_path_factory.mktemp("run"), table())


def last(stream, steps):
    for step in steps:
        answer = stream.step(step)
    return [answer["p_fast"], answer["p_slow"]]


def test_a_stream_takes_rows_of_tables_by_their_names(run):
    trained = library.load(run)
    expected = last(trained.stream(), WALKS[0])
    assert not np.allclose(last(trained.stream(), WALKS[0][:, ::-1]), expected)
    frame = TURNED[0].assign(note="")[["note", "a", "y"]]
    rows = {
        "Series": [frame.loc[step] for step in range(len(frame))],
        "namedtuple": list(frame.itertuples(index=False)),
        "dict": frame.to_dict("records"),
        "no names": [pd.Series(row) for row in WALKS[0]],
    }
    for kind, steps in rows.items():
        assert np.array_equal(last(trained.stream(), steps), expected), kind
    for strange in (pd.Series([1.0, 2.0], index=["b", "a"]), namedtuple("Point", "b a")(1.0, 2.0)):
        with pytest.raises(UserError, match="values has no 'y'; give one for each of y, a"):
            trained.stream().step(strange)


def test_a_stream_takes_means_and_scales_by_their_names(tmp_path):
    trained = library.load(run_on(tmp_path, table(), normalise="sequence"))
    mean, scale = FRAMES[0].mean(), FRAMES[0].std()
    expected = last(trained.stream(mean.to_numpy(), scale.to_numpy()), WALKS[0])
    for form in (lambda one: one[["a", "y"]], dict, lambda one: dict(reversed(list(one.items()))), list):
        assert np.array_equal(last(trained.stream(form(mean), form(scale)), WALKS[0]), expected)
    with pytest.raises(UserError, match="mean has no 'y'; give one for each of y, a"):
        trained.stream({"a": 0.0}, scale)
    with pytest.raises(UserError, match="scale has 3 entries; give one for each of y, a"):
        trained.stream(mean, [1.0, 2.0, 3.0])


def test_tables_of_a_list_are_read_by_their_names(run):
    trained = library.load(run)
    expected = trained.predict_proba(WALKS)
    for same in (FRAMES, TURNED, [pa.table(one) for one in TURNED], arrays(TURNED)):
        assert np.array_equal(trained.predict_proba(same), expected)
    with pytest.raises(UserError, match="the data have the columns b, y, and training had y, a; give each by its name"):
        trained.predict([one.rename(columns={"a": "b"})[["b", "y"]] for one in FRAMES])


def test_arrays_made_of_tables_keep_their_names():
    sequences, later = cache(arrays(FRAMES)), cache(arrays(TURNED))
    assert (sequences.layout.channels, later.layout.channels) == (("y", "a"), ("a", "y"))
    pre = learn(sequences, split(sequences, "random"))
    assert np.array_equal(Part(later, pre).inputs(0), Part(sequences, pre).inputs(0))


@pytest.mark.parametrize("kind", [SequenceClassifier, Forecaster])
def test_an_estimator_keeps_the_names_of_columns(kind, tmp_path):
    """In its run, its stream and its exports, which would be read by position otherwise."""
    model = kind(**QUICK, run=tmp_path / "run").fit(TURNED, *([GAITS] if kind is SequenceClassifier else []))
    pre = model.trained_.config.task.learned
    assert pre.channels == ("a", "y")
    assert [column["name"] for column in columns_of(pre)][:2] == ["a", "y"]
    expected = model.predict(FRAMES)
    assert np.array_equal(model.predict(TURNED), expected)
    assert np.array_equal(model.trained_.predict(FRAMES), expected)
    assert np.array_equal(model.trained_.predict([walk[:, ::-1] for walk in WALKS]), expected)
    stream = model.trained_.stream()
    for row in FRAMES[0].to_dict("records"):
        answer = stream.step(row)
    if kind is Forecaster:
        assert np.allclose([answer["a"][0], answer["y"][0]], expected[0, 0], atol=1e-5)


@pytest.mark.parametrize("kind", [SequenceClassifier, Forecaster])
def test_columns_may_be_called_as_an_estimator_calls_its_own(kind):
    names = ["id", "label", "split", "time"]
    frames = [pd.DataFrame(np.concatenate([walk, walk + 1], axis=1), columns=names) for walk in WALKS]
    model = kind(**QUICK).fit(frames, *([GAITS] if kind is SequenceClassifier else []))
    assert model.trained_.config.task.learned.channels == tuple(names)
    assert np.array_equal(model.predict([one[names[::-1]] for one in frames]), model.predict(frames))


def followed(capsys, monkeypatch, run, made):
    text = io.BytesIO()
    pa.csv.write_csv(made, text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text.getvalue().decode()))
    code, out, err = hrnn(capsys, "predict", run, "--follow")
    assert code == 0, err
    found = {line["id"]: [float(line["p_fast"]), float(line["p_slow"])] for line in csv.DictReader(io.StringIO(out))}
    return list(found.values())


def test_times_are_read_from_the_column_that_training_had(tmp_path, capsys, monkeypatch):
    """Another one with a better known name is none of the run's business."""
    run = run_on(tmp_path, table(irregular=True))
    trained, made = library.load(run), table(irregular=True)
    expected = trained.predict_proba(made)
    others = made.append_column("ds", pa.array(np.arange(len(made)) ** 2.5))
    assert trained.config.task.learned.interval > 0
    assert np.array_equal(trained.predict_proba(others), expected)
    assert np.allclose(followed(capsys, monkeypatch, run, others), expected, atol=1e-6)


def test_a_channel_that_is_called_like_a_time_is_none(tmp_path, capsys, monkeypatch):
    run = run_on(tmp_path, table(("ID", "ds", "y", "time", "label"), irregular=True))
    lacking = table(("ID", "when", "y", "time", "label"), irregular=True)
    said = "the data have no times, and training had"
    with pytest.raises(UserError, match=said):
        library.load(run).predict(lacking)
    said = "the first line has no column of times, and training had one; add it"
    monkeypatch.setattr("sys.stdin", io.StringIO("ID,when,y,time\n1,0,1,2\n"))
    assert said in hrnn(capsys, "predict", run, "--follow")[2]


def test_columns_that_differ_in_their_capitals_play_the_same_parts_everywhere(tmp_path, capsys, monkeypatch):
    made = table(("x", "Time", "y", "time", "label"), irregular=True).append_column("id", table()["id"])
    run = run_on(tmp_path, made)
    trained = library.load(run)
    assert trained.config.task.learned.channels == ("x", "y", "time")
    assert np.allclose(followed(capsys, monkeypatch, run, made), trained.predict_proba(made), atol=1e-6)
