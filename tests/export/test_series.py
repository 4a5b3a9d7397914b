"""An exported step of a run on series takes values as they come, and says in their units what hrnn predict says."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import hrnn as library
from hrnn.cli import main
from hrnn.export import Step
from hrnn.export.checking import largest_difference
from hrnn.export.series import around, columns_of
from hrnn.training.answers import probabilities
from tests.runs import SMALL

HEAD = ["walk", "time", "x", "y", "shoe", "gait", "height"]
CASES = {
    "classes": ["--target", "gait", "--values", "x", "y", "shoe", "--intervals", "True"],
    "numbers": ["--target", "height", "--values", "x", "y", "--target-is", "number", "--readout", "last"],
    "forecast": ["--values", "x", "y", "--target", "none", "--forecast", "2", "--patch", "2"],
    "own scale": ["--target", "gait", "--values", "x", "--normalise", "sequence", "--patch", "3", "--output-levels", "all"],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Walks with missing values, from the first step on, at times of their own, and with shoes that training may not have."""
    path, random = tmp_path_factory.mktemp("walks") / "walks.csv", np.random.default_rng(0)
    with open(path, "w") as file:
        out = csv.writer(file)
        out.writerow(HEAD)
        for walk in range(40):
            time = 1000.0
            for step in range(13):
                time += random.exponential() + 0.1
                x = "" if random.random() < 0.2 or (walk == 3 and step < 4) else f"{1e4 + 3 * random.normal():.5f}"
                gait = ["slow", "fast"][walk % 2]
                y, shoe = f"{random.normal():.5f}", random.choice(["boot", "sandal"])
                out.writerow([walk, f"{time:.4f}", x, y, shoe, gait, 150.5 + walk])
    return path


@pytest.fixture(scope="module")
def runs(table):
    """By name, trained when they are first asked for."""
    made = {}

    def run(name):
        if name not in made:
            made[name] = table.parent / "runs" / name
            words = ["train", "series", str(table), "--id", "walk", *CASES[name], "--periods", "3", "--window", "20"]
            assert main([*words, "--updates", "3", *SMALL, "--no-tensorboard", "--run", str(made[name])]) == 0
        return library.load(made[name])

    return run


def rows_of(table, walk):
    with open(table) as file:
        return [row for row in csv.DictReader(file) if row["walk"] == str(walk)]


def number(text):
    return float(text) if text else math.nan


def raw(columns, rows, statistics):
    """Steps as the file beside the step says that they are to be given: (steps, columns)."""
    given = np.zeros((len(rows), len(columns)))
    for place, column in enumerate(columns):
        values = [row[column["name"]] for row in rows]
        if column["is"] == "number":
            last = math.nan
            for step, value in enumerate(values):
                last = last if value == "" else float(np.float32(float(value)))
                given[step, place] = last if statistics is None else (last - statistics[0]) / statistics[1]
            if statistics is not None:
                given[:, place] = np.nan_to_num(given[:, place])
        elif column["is"] == "before":
            own = [one["name"] for one in columns].index(column["name"])  # the number of that name comes first
            given[:, place] = np.concatenate([given[:1, own], given[:-1, own]])
        elif column["is"] == "missing":
            given[:, place] = [value == "" for value in values]
        elif column["is"] == "interval":
            given[1:, place] = np.diff(np.array(values, float))
        else:
            names = column["names"]
            given[:, place] = [names.index(value) if value in names else len(names) for value in values]
    return given


def as_predicted(trained, made, outputs, last, statistics):
    """From outputs (inputs, ...) of the exported step, what the file beside it says of answers."""
    about = made.facts["answers"]
    if "classes" in about:
        return probabilities(outputs.mean(0)[None])[0]
    if about["of"] == "next":
        return (last + outputs[-1]).ravel()
    return outputs[-1]


def answer_of(trained, rows, statistics):
    """What hrnn says, step by step."""
    stream = trained.stream(*(() if statistics is None else [[one] for one in statistics]))
    pre = trained.config.task.learned
    for row in rows:
        stream.step({name: row[name] for name in pre.channels}, float(row["time"]) if pre.interval else None)
    found = stream.end()
    return np.array([value for name, value in found.items() if not isinstance(value, str)], float)


def compare(trained, table, walk, run_step, made, state, dtype):
    pre = trained.config.task.learned
    statistics = (1e4, 3.0) if pre.normalise == "sequence" else None
    rows = rows_of(table, walk)
    if pre.patch > 1 and made.facts["answers"]["of"] == "next":
        rows = rows[: len(rows) // pre.patch * pre.patch]
    steps = raw(made.facts["columns"], rows, statistics)
    fill = {"number": math.nan, "before": math.nan, "category": -1}
    lacking = -len(steps) % pre.patch
    filled = [[fill.get(column["is"], 0) for column in made.facts["columns"]]] * lacking
    steps = np.array([*steps.tolist(), *filled])
    inputs = steps.reshape(-1, pre.patch, steps.shape[1]) if pre.patch > 1 else steps
    outputs = []
    for x in torch.tensor(inputs, dtype=dtype):
        output, state = run_step(x[None], state)
        outputs.append(np.asarray(output[0], float))
    found = as_predicted(trained, made, np.stack(outputs), steps[-1, : len(pre.numeric)], statistics)
    expected = answer_of(trained, rows, statistics)
    if "classes" not in made.facts["answers"] and made.facts["answers"]["of"] == "next":
        expected = expected.reshape(len(pre.numeric), -1).T.ravel()
    np.testing.assert_allclose(found, expected[-len(found) :], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_values_go_in_as_they_come_and_answers_come_out_in_their_units(runs, table, name):
    trained = runs(name)
    network = trained.network
    made = around(trained.config.task, network.head, torch.float32)
    step = Step(network.levels, made.head, made.before)
    for walk in (3, 8):
        compare(trained, table, walk, step, made, step.initial_state(1), torch.float32)


@pytest.mark.parametrize("name", ["classes", "own scale"])
def test_inputs_are_remembered_as_the_model_reads_them(runs, name):
    task = runs(name).config.task
    torch.manual_seed(0)
    model = library.HRNN(task.inputs, [4, 5, 3], [3, 2], reads=["inputs", "both"], context="state", burn_in=2).double()
    made = around(task, torch.nn.Linear(4, task.outputs).double(), torch.float64)
    step = Step(model, made.head, made.before)
    assert torch.isnan(made.example).any()
    assert largest_difference(step, step, model, made.example, steps=20) < 1e-12


def test_what_the_columns_are(runs):
    columns = around(runs("classes").config.task, torch.nn.Identity(), torch.float32).facts["columns"]
    kinds = [(column["name"], column["is"]) for column in columns]
    assert kinds == [("x", "number"), ("y", "number"), ("x", "missing"), ("time", "interval"), ("shoe", "category")]
    assert sorted(columns[-1]["names"]) == ["boot", "sandal"]


@pytest.mark.parametrize(
    ("times", "unit"), [("numbers", "the source's unit"), ("timestamps", "seconds"), (None, "the source's unit")]
)
def test_the_unit_of_times_is_said(runs, times, unit):
    pre = replace(runs("classes").config.task.learned, times=times)
    (interval,) = [column for column in columns_of(pre) if column["is"] == "interval"]
    assert interval["meaning"] == f"the time since the step before, in {unit}; 0 at the first step"


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_in_onnxruntime(runs, table, name, dtype, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason='ONNX is not installed: pip install "hrnn[onnx]"')
    trained = runs(name)
    path = tmp_path / "step.onnx"
    assert main(["export", str(table.parent / "runs" / name), "--output", str(path), "--dtype", dtype]) == 0
    about = json.loads((tmp_path / "step.onnx.json").read_text())
    made = around(trained.config.task, trained.network.head, getattr(torch, dtype))
    assert about["columns"] == made.facts["columns"]
    session = onnxruntime.InferenceSession(path)

    def step(x, state):
        return session.run(None, {"x": x.numpy(), "state": state})

    state = np.zeros((1, about["state"]["size"]), about["dtype"])
    compare(trained, table, 3, step, made, state, getattr(torch, dtype))
