"""What hrnn inspect proposes fits the budget, and its command runs as printed."""

import json
import shlex

import numpy as np
import pytest

from hrnn.data import Preprocessing
from hrnn.limits import in_bytes
from hrnn.tasks.series.choices import SLACK, Shape, chosen, needed, periods_for
from tests.commands.console import hrnn
from tests.series.made import write


@pytest.mark.parametrize("kind", ["class", "step", "panel", "series", "bases"])
def test_the_command_runs_as_printed(tmp_path, capsys, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path, *options = write(tmp_path)[kind]
    options = [word for word in options if word in ("--forecast", "2", "3", "--values", "a", "b")]
    code, out, err = hrnn(capsys, "inspect", path, *options)
    assert code == 0, err
    assert "sequence(s)" in out
    command = shlex.split(out.strip().splitlines()[-1].removeprefix("command: "))
    assert command[:3] == ["hrnn", "train", "series"]
    code, _, err = hrnn(capsys, *command[1:], "--updates", "1", "--no-tensorboard")
    assert code == 0, err
    assert f"options: {shlex.join(command[command.index('--hidden-sizes') : command.index('--batch')])}" in err
    assert not list(tmp_path.glob("*.cache"))


def test_json(tmp_path, capsys):
    code, out, err = hrnn(capsys, "inspect", write(tmp_path)["class"][0], "--memory", "30MB", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["sequences"] == 20
    assert found["proposal"]["predicted_bytes"] <= 30_000_000
    assert found["proposal"]["parts"] == {"training": 16, "validation": 2, "test": 2}


@pytest.mark.parametrize("lengths", [[40] * 9, [1200] * 140, [20_000] * 30, [936_000]])
@pytest.mark.parametrize("budget", ["12MB", "40MB", "500MB"])
def test_choices_fit_the_budget(lengths, budget):
    pre = Preprocessing(("a",) * 6, ("number",) * 6, ((),) * 6, mean=(0.0,) * 6, scale=(1.0,) * 6)
    shape = Shape(np.array(lengths), pre, 7, carried=len(lengths) == 1)
    found = chosen(shape, in_bytes(budget))
    sizes = found["hidden_sizes"]
    assert needed(shape, sizes, found["periods"], found["window"], found["batch"]) + SLACK <= in_bytes(budget)
    assert len(sizes) == len(found["periods"]) + 1
    assert found["batch"] <= max(len(lengths), 32)


def test_periods_grow_with_lengths():
    assert periods_for(1000) == (16,)
    assert 16 <= periods_for(1500)[0] <= 20
    assert len(periods_for(10_000)) == 2
    assert len(periods_for(100_000)) == 3
    assert (periods_for(2), periods_for(1)) == ((2,), (1,))  # no longer than a sequence
