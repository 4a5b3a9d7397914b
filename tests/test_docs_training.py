"""What docs/ shows of tasks and training is run."""

import re
from pathlib import Path

from tests.test_cli import hrnn

DOCS = Path(__file__).parents[1] / "docs"


def python_in(name):
    return re.search(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)[1]


def test_the_task_of_the_documentation_trains(tmp_path, monkeypatch, capsys):
    (tmp_path / "parity.py").write_text(python_in("own_task.md"))
    monkeypatch.chdir(tmp_path)
    small = ("--steps", 6, "--hidden-sizes", 16, 16, "--periods", 3, "--batch", 20, "--updates", 120, "--learning-rate", 0.02)
    assert hrnn(capsys, "train", "--task", "parity:Parity", *small, "--no-tensorboard")[0] == 0
    code, out, _ = hrnn(capsys, "evaluate", "runs/parity-ours-0", "--part", "validation")
    assert code == 0
    assert float(re.search(r"accuracy ([\d.]+)", out)[1]) > 0.9
    assert "--steps INT" in hrnn(capsys, "train", "--task", "parity:Parity", "--help")[1]


def test_training_from_python_as_documented(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(python_in("training.md").replace("updates=100", "updates=3"), {})
    assert "'updates': 3" in capsys.readouterr().out
    assert (tmp_path / "runs" / "python" / "result.json").exists()


def test_every_documented_option_exists(capsys):
    documented = "\n".join((DOCS / name).read_text() for name in ("tasks.md", "training.md", "reproduce.md", "sweeps.md"))
    for command in re.findall(r"^    hrnn (.+?)(?:  +#.*)?$", documented, re.MULTILINE):
        words = command.split()
        shown = hrnn(capsys, *words[: 2 if words[0] in ("train", "sweep") else 1], "--help")[1]
        for option in re.findall(r"--[a-z-]+", command):
            assert option in shown, f"hrnn {command}: no {option}"


def test_an_experiment_from_python_as_documented(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(python_in("reproduce.md").replace("scale=0.01", "scale=0.001"), {})
    assert capsys.readouterr().out == "{} False\n"
    assert (tmp_path / "runs" / "python" / "seed-1" / "result.json").exists()
