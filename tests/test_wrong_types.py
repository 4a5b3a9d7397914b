"""What is of a wrong type is refused, where it would only count as true, as a number or as a path."""

import numpy as np
import pytest
import torch

import hrnn
from hrnn.data import array_files, arrays, cache, chunks, crops, in_order, learn, split, table
from hrnn.errors import UserError
from hrnn.tasks import Series
from tests.data.made import panel
from tests.series.made import untrained
from tests.tiny import write_walks

SEQUENCES = [np.arange(6, dtype=np.float32)[:, None]] * 8
X, Y = np.zeros((8, 6, 2), np.float32), [0, 1] * 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("types")
    options = {"id": "walk", "target": "gait", "values": ("x", "y"), "normalise": "sequence"}
    return hrnn.load(untrained(place / "run", Series(data=(write_walks(place / "walks.csv"),), **options)))


@pytest.mark.parametrize("value", ["no", 5, [], None, 1])
@pytest.mark.parametrize(
    "call",
    [
        lambda trust: hrnn.load("run", trust=trust),
        lambda replace: cache(arrays(SEQUENCES), replace=replace),
        lambda verify: cache(arrays(SEQUENCES), verify=verify),
        lambda tokens: arrays(SEQUENCES, tokens=tokens),
        lambda tokens: array_files("x.npy", tokens=tokens),
        lambda private: hrnn.hub.push_to_hub(hrnn.HRNN(3, [4]), "me/mine", private=private),
    ],
)
def test_yes_or_no_is_true_or_false(call, value, monkeypatch, tmp_path, trained):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", SEQUENCES[0])
    monkeypatch.setattr("hrnn.hub.remote.require_extra", lambda *_: None)
    name = call.__code__.co_varnames[0]
    with pytest.raises(TypeError, match=f"^{name} is .*; give True or False$"):
        call(value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hrnn.load(5), "folder is 5; give a path"),
        (lambda: hrnn.load("run", task=5), "task is 5; give module:Name"),
        (lambda: hrnn.load("run", cell=[]), r"cell is \[\]; give module:Name"),
        (lambda: cache(arrays(SEQUENCES), 5), "folder is 5; give a path"),
        (lambda: cache(arrays(SEQUENCES), sort_budget="1GB"), "sort_budget is '1GB'; give a whole number"),
        (lambda: split(cache(arrays(SEQUENCES)), seed="a"), "seed is 'a'; give a whole number"),
        (lambda: table(panel(), targets="no"), "targets is 'no'; give 'sequence' or 'step'"),
        (lambda: table(panel(), values="y"), "values is 'y'; give a list"),
        (lambda: table(panel(), categorical="who"), "categorical is 'who'; give a list"),
        (lambda: hrnn.hub.save_pretrained(hrnn.HRNN(3, [4]), "x", name=5), "name is 5; give a text"),
        (lambda: hrnn.hub.save_pretrained(hrnn.HRNN(3, [4]), "x", license=[]), r"license is \[\]; give a text"),
        (lambda: learn(cache(arrays(SEQUENCES)), {"training": None}, target="no"), "target is 'no'; give class or number"),
        (lambda: learn(cache(arrays(SEQUENCES)), {"training": None}, patch=True), "patch is True; give a whole number"),
        (lambda: learn(cache(arrays(SEQUENCES)), {"training": None}, intervals=[]), r"intervals is \[\]; give True or False"),
        (lambda: list(chunks(None, [0], -1)), "steps is -1; give a whole number of at least 1"),
        (lambda: crops([5], 0, 0, 0), "steps is 0; give a whole number of at least 1"),
        (lambda: list(in_order(5, -1)), "batch is -1; give a whole number of at least 1"),
        (lambda: hrnn.export.to_torch_export(hrnn.HRNN(3, [4]), "a.pt2", facts=[]), "facts cannot be written as JSON"),
        (lambda: hrnn.SequenceClassifier(run=5).fit(X, Y), "run is 5; give a path"),
        (lambda: hrnn.SequenceClassifier(run="x" * 300).fit(X, Y), "run is x*.*too long for a file"),
        (lambda: hrnn.SequenceClassifier(run="/proc/x").fit(X, Y), "^/proc/x cannot be made: .*give another one$"),
        (lambda: hrnn.SequenceClassifier(verbose="no").fit(X, Y), "verbose is 'no'; give True or False"),
        (lambda: hrnn.SequenceClassifier(options=5).fit(X, Y), "options is 5; give a dict"),
    ],
)
def test_other_arguments(call, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, UserError), match=words):
        call()


COMPLEX = [[1 + 2j, 1], [np.complex64(1), 1], np.array([1j, 2]), {"x": 1j, "y": 1}, torch.tensor([1j, 2]), [np.array(1j), 1]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", COMPLEX)
def test_a_step_of_complex_numbers(trained, values):
    with pytest.raises(UserError, match=r"channel 'x' is .*; give a finite number"):
        trained.stream(0.0, 1.0).step(values)
    with pytest.raises(UserError, match=r"channel 'x' is .*; give a finite number"):
        trained.stream(values, 1.0)


@pytest.mark.parametrize("values", [{1.0, 2.0}, [[1], 2], [np.zeros(2), 1], "ab", b"ab", object()])
def test_a_step_of_what_is_no_row(trained, values):
    with pytest.raises(UserError, match=r"channel 'x' is |values has 1 entries"):
        trained.stream(0.0, 1.0).step(values)


@pytest.mark.parametrize("mean", [[None, 1], [float("nan"), 1], "x", float("inf"), []])
def test_a_mean_that_is_none(trained, mean):
    with pytest.raises(UserError, match=r"mean is |mean has 0|channel 'x' is "):
        trained.stream(mean, 1.0)


@pytest.mark.parametrize("scale", [0, -1.0, [1, float("nan")], [1, 0]])
def test_a_scale_that_is_none(trained, scale):
    with pytest.raises(UserError, match=r"scale is .*; give finite numbers above 0"):
        trained.stream(0.0, scale)
