"""Classes and numbers of sequences: whatever form they come in, as a run has them, in scikit-learn's company."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import hrnn
from hrnn.errors import UserError
from hrnn.estimators.given import parts_of
from tests.commands.console import hrnn as command
from tests.data.made import recordings, write_table
from tests.estimators.made import QUICK, columns, repeated, waves

X, Y = waves()


def test_it_learns():
    sequences, labels = waves(60)
    model = hrnn.SequenceClassifier(hidden_sizes=(16, 16), learning_rate=1e-2, epochs=10, random_state=0)
    model.fit(sequences[:40], labels[:40])
    assert model.score(sequences[40:], labels[40:]) > 0.9
    assert model.score(sequences[40:], labels[40:]) == accuracy_score(labels[40:], model.predict(sequences[40:]))
    numbers = np.where(labels == "slow", 400.0, 1200.0)  # far from what a network says by itself
    regressor = hrnn.SequenceRegressor(hidden_sizes=(16, 16), learning_rate=1e-2, epochs=10, random_state=0)
    regressor.fit(sequences[:40], numbers[:40])
    assert regressor.score(sequences[40:], numbers[40:]) > 0.7
    assert regressor.score(sequences[40:], numbers[40:]) == r2_score(numbers[40:], regressor.predict(sequences[40:]))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9"], ["10", "9"]),
        ([10, 9], [9, 10]),  # as texts 10 comes first
        ([True, False], [False, True]),
        ([2.0, -1.0], [-1.0, 2.0]),
    ],
)
def test_labels_come_back_as_they_were(labels, classes):
    y = np.array(labels)[np.arange(24) % 2]
    model = hrnn.SequenceClassifier(**QUICK).fit(X, y)
    assert model.classes_.tolist() == classes
    assert model.classes_.dtype == y.dtype
    shares = model.predict_proba(X)
    by_name = dict(zip(model.trained_.classes, model.trained_.predict_proba(X).T, strict=True))
    assert np.array_equal(shares, np.stack([by_name[str(one)] for one in classes], 1))
    assert np.array_equal(model.predict(X), model.classes_[shares.argmax(1)])


def test_all_forms_of_the_same_sequences_are_one():
    one = np.stack([sequence[:9, 0] for sequence in X])
    models = [
        hrnn.SequenceRegressor(**QUICK).fit(form, np.arange(24)) for form in (one, one[..., None], list(one), one.tolist())
    ]
    for form in (one[..., None], list(one), np.array([*one, None], dtype=object)[:-1]):
        for model in models:
            assert np.array_equal(model.predict(form), models[0].predict(one))
    assert models[0].predict([np.zeros(3), np.zeros(40)]).shape == (2,)  # other lengths
    with pytest.raises(ValueError, match="X has 8 features, but SequenceRegressor is expecting 9"):
        models[0].predict(one[:, :8])


def test_a_run_that_is_kept_says_the_same(tmp_path, capsys):
    table = pa.table(columns(X))
    edges = {"reads": "inputs", "reader": "maximum", "context": "state", "output_levels": "all", "burn_in": 2, "segments": 2}
    model = hrnn.SequenceClassifier(**QUICK, **edges, periods=[3], run=tmp_path / "run").fit(X, Y)
    for option, value in edges.items():
        found = getattr(model.trained_.config.model, option)
        assert found == ((value,) if isinstance(found, tuple) else value)
    assert "reads=('inputs',), reader=('maximum',), context=('state',)" in repr(model.trained_)
    expected = model.predict_proba(X)
    assert np.array_equal(hrnn.load(tmp_path / "run").predict_proba(X), expected)
    names = {"walk": "id", "a": "x0", "b": "x1"}
    data = write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), tmp_path / "t.parquet")
    code, _, err = command(capsys, "predict", tmp_path / "run", data, "-o", tmp_path / "out.parquet")
    assert code == 0, err
    found = pa.parquet.read_table(tmp_path / "out.parquet")
    assert np.abs(np.stack([found[f"p_{name}"] for name in model.classes_], 1) - expected).max() < 1e-6
    pretrained = hrnn.hub.from_pretrained(hrnn.hub.save_pretrained(tmp_path / "run", tmp_path / "saved"))
    for stream in (model.trained_.stream(), pretrained.stream()):
        for step in X[0]:
            answer = stream.step(step)
        assert abs(answer["p_slow"] - expected[0, 1]) < 1e-6
    with pytest.raises(UserError, match="which is there already; give a new folder, or remove it"):
        model.fit(X, Y)


@pytest.fixture
def without_collector():
    """Nothing waits until Python looks for circles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_nothing_is_left_of_a_run_that_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    torch.set_num_threads(1)
    before = torch.get_rng_state()
    model = hrnn.SequenceClassifier(**QUICK, options={"threads": 2}).fit(X, Y)
    model.predict(X)
    with pytest.raises(UserError):
        hrnn.SequenceClassifier(hidden_sizes=(4,), run=tmp_path / "run").fit(X, Y)
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(("torch", "pymp"))]
    assert torch.get_num_threads() == 1
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("option", "value", "where"),
    [
        ("periods", [2], "model"), ("window", 6, "model"), ("batch", 6, "learning"), ("learning_rate", 0.5, "learning"),
        ("epochs", np.float64(0.5), "budget"), ("updates", np.int64(1), "budget"), ("normalise", "none", "task"),
        ("patch", 2, "task"), ("readout", "last", "task"), ("class_weights", "balanced", "task"), ("held_out", 0.4, "task"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_options_reach_the_run(option, value, where):
    model = hrnn.SequenceClassifier(**{"hidden_sizes": [4, 4], "updates": 1, "random_state": 0, option: value}).fit(X, Y)
    found = getattr(getattr(model.trained_.config, where), option)
    assert found == (tuple(value) if isinstance(value, list) else value)
    assert model.chosen_.get(option, found) == found
    assert model.chosen_["hidden_sizes"] == (4, 4)


def test_others_come_by_their_names():
    model = hrnn.SequenceClassifier(**QUICK, options={"cell": "gru", "crop": 5, "clip": None}).fit(X, Y)
    config = model.trained_.config
    assert (config.model.cell, config.task.crop, config.learning.clip) == ("gru", 5, None)
    assert config.upkeep.seed == 0
    assert hrnn.SequenceClassifier(updates=1, random_state=7).fit(X, Y).trained_.config.upkeep.seed == 7


def test_less_memory_is_a_smaller_model():
    long = np.random.default_rng(0).normal(size=(240, 300))
    sizes = [
        hrnn.SequenceClassifier(updates=1, random_state=0, memory=memory).fit(long, np.arange(240) % 2).chosen_
        for memory in (None, "13MB")
    ]
    assert sizes[0]["hidden_sizes"] == (64, 64)
    assert sizes[1]["batch"] * sum(sizes[1]["hidden_sizes"]) < sizes[0]["batch"] * sum(sizes[0]["hidden_sizes"])


def test_the_seed_decides():
    first, again, other = (
        hrnn.SequenceClassifier(**{**QUICK, "random_state": seed}).fit(X, Y).predict_proba(X) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_what_may_be_wrong_is_a_warning_in_terms_of_python():
    with pytest.warns(UserWarning, match="^readout last has one target at the end"):
        hrnn.SequenceClassifier(**QUICK, readout="last").fit(X, Y)


def test_what_is_chosen_is_printed_if_asked(capsys):
    hrnn.SequenceClassifier(**QUICK, verbose=1).fit(X, Y)
    assert "options: --hidden-sizes 10 11 --periods 2" in capsys.readouterr().err
    hrnn.SequenceClassifier(**QUICK).fit(X, Y)
    assert capsys.readouterr().err == ""


def test_among_others(tmp_path):
    """A pipeline that makes sequences of sequences, searched for the best; each is pickled on the way."""
    differences = FunctionTransformer(lambda X: [np.diff(one, axis=0) for one in X])
    search = GridSearchCV(
        make_pipeline(differences, hrnn.SequenceClassifier(**QUICK)), {"sequenceclassifier__learning_rate": [1e-6, 1e-1]}, cv=2
    ).fit(X, Y)
    assert (
        search.best_estimator_[-1].trained_.config.learning.learning_rate
        == search.best_params_["sequenceclassifier__learning_rate"]
    )
    assert search.predict(X).shape == (24,)
    predicted = cross_val_predict(hrnn.SequenceRegressor(**QUICK), X, np.arange(24.0), cv=2, n_jobs=1)
    assert predicted.shape == (24,)
    model = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_missing_values_are_inputs_of_their_own():
    holes = [np.where(np.arange(one.size).reshape(one.shape) % 7 == 3, np.nan, one) for one in X]
    model = hrnn.SequenceRegressor(**QUICK).fit(holes, np.arange(24))
    assert model.trained_.config.task.learned.masked == ("x0", "x1")
    assert np.isfinite(model.predict(holes)).all()


@pytest.mark.parametrize("on_disk", [False, True])
def test_tables_with_their_targets(tmp_path, on_disk):
    """Long tables, in memory or on disk, whose columns are found; classes are texts or numbers."""
    content = columns(X) | {
        "gait": repeated(X, Y.tolist()),
        "code": repeated(X, [3, 1] * 12),
        "pace": repeated(X, np.arange(24.0)),
    }
    table = pa.table(content)
    given = str(write_table(table, tmp_path / "t.parquet")) if on_disk else table
    options = {"id": "walk", "values": ["a", "b"]}
    model = hrnn.SequenceClassifier(**QUICK, options=options).fit(given, "gait")
    assert model.classes_.tolist() == ["fast", "slow"]
    assert model.score(given, "gait") == accuracy_score(Y, model.predict(X))
    assert np.abs(model.predict_proba(given) - model.predict_proba(X)).max() < 1e-6
    model.fit(given, "code")
    assert model.classes_.tolist() == [1, 3]
    assert model.score(given, "code") == accuracy_score([3, 1] * 12, model.predict(given))
    regressor = hrnn.SequenceRegressor(**QUICK, options=options).fit(given, "pace")
    assert regressor.score(given, "pace") == pytest.approx(r2_score(np.arange(24.0), regressor.predict(X)))


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few units for patches of audio
def test_folders_have_classes_by_their_names(tmp_path):
    place = recordings(tmp_path / "recordings")
    model = hrnn.SequenceClassifier(**QUICK, held_out=0.25).fit(place)
    assert model.classes_.tolist() == ["high", "low"]
    high = place / "test" / "high"
    assert model.predict(high).shape == (2,)
    assert model.score(place / "test") == np.mean(
        [*(model.predict(high) == "high"), *(model.predict(high.with_name("low")) == "low")]
    )


TABLE = pa.table(columns(X) | {"gait": repeated(X, Y.tolist())})


@pytest.mark.parametrize(
    ("X", "y", "options", "sentence"),
    [
        (TABLE, "gate", {"options": {"id": "walk"}}, "X has no column 'gate' for target; did you mean 'gait'?"),
        (TABLE, None, {"options": {"id": "walk"}}, r"name the column that is, as in fit\(table, 'label'\)"),
        (TABLE, "a", {"options": {"id": "walk"}}, "the data have no target for each sequence"),
        (TABLE, Y, {}, "X has .* rows and y 24 entries; give one for each row where a row is a sequence, and the name"),
        (X, "gait", {}, "requires y to be passed, but the target y is gait; give one for each sequence"),
        (X, Y[:-1], {}, "inconsistent numbers of samples"),
        (X, ["slow"] * 24, {}, r"y has one class only \('slow'\); give at least two"),
        (X, np.array(["a", 1] * 12, dtype=object), {}, "y has labels of several types, or lacks some; give texts or numbers"),
        ([*X[:23], X[0][:, :1]], Y, {}, "sequence 23 of X has 1 channels, the first 2; give equally many"),
        ([*X[:23], X[0][:0]], Y, {}, "sequence 23 of X is empty; leave it out"),
        ([*X[:23], X[0] + np.inf], Y, {}, "sequence 23 of X has infinite values"),
        ([*X[:23], "text"], Y, {}, "sequence 23 of X is .*; give arrays of numbers"),
        ([*X[:23], [[1, 2], [3]]], Y, {}, "sequence 23 of X is no array of numbers"),
        (X[:2], Y[:2], {}, "X has n_samples=2, one of each kind, and one more is needed to validate on"),
        (X, Y, {"memory": "lots"}, "^memory is 'lots'; give bytes, as in 200MB"),
        (X, Y, {"hidden_sizes": [4]}, "^hidden_sizes has 1 entries for 1 of periods"),
        (X, Y, {"learning_rate": "high"}, "^learning_rate is 'high'; give a number"),
        (X, Y, {"options": {"cel": "gru"}}, "options has 'cel', which is no option of a run; did you mean cell?"),
        (X, Y, {"options": {"batch": 3}}, "options has 'batch', which is an argument of its own"),
    ],
)  # fmt: skip
def test_mistakes_are_a_sentence(X, y, options, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        hrnn.SequenceClassifier(updates=1, **options).fit(X, y)
    assert "/data.parquet" not in str(error.value)


def test_what_is_held_out():
    kinds = np.array([0] * 20 + [1] * 10 + [2])
    parts = np.array(parts_of(kinds, 0.2, np.random.RandomState(0)))
    assert [(parts[kinds == kind] == "validation").sum() for kind in range(3)] == [4, 2, 0]
    assert parts_of(np.array([0, 1, 1]), 0.1, np.random.RandomState(0)).index("validation") in (1, 2)
    pairs = np.repeat(np.arange(30), 2)  # no kind is large enough for its share: some have one, no more than all together
    parts = np.array(parts_of(pairs, 0.1, np.random.RandomState(0)))
    assert (parts == "validation").sum() == len(set(pairs[parts == "validation"])) == 6
    assert parts_of(np.arange(3), 0, np.random.RandomState(0)) == ["training"] * 3


@pytest.mark.parametrize("kind", [hrnn.SequenceClassifier, hrnn.SequenceRegressor, hrnn.Forecaster])
def test_all_may_be_learned_from(kind):
    targets = {hrnn.SequenceClassifier: Y, hrnn.SequenceRegressor: np.arange(len(X))}
    model = kind(**QUICK, held_out=0).fit(X, targets.get(kind))
    assert "validation" not in model.result_
    assert len(model.predict(X)) == len(X)


def test_what_is_held_out_of_very_many():
    """At once: a look through all that were chosen for each of them would take an hour."""
    parts = parts_of(np.arange(500_000) % 2, 0.2, np.random.RandomState(0))
    assert (parts.count("validation"), len(parts)) == (100_000, 500_000)
