"""hrnn train: help, results, time limits, a user's own task."""

import json
import re
import sys

import pytest

from hrnn.cli import overview
from tests.commands.console import OWN_TASK, hrnn
from tests.tiny import SENTENCE, TINY, write_text


@pytest.mark.parametrize("name", ["copy", "pixels", "text", "needle", "series"])
def test_every_task_has_a_help_text_with_defaults_and_examples(capsys, name):
    code, out, _ = hrnn(capsys, "train", name, "--help")
    assert code == 0
    assert "--hidden-sizes" in out
    assert f"    hrnn train {name}" in out
    given = " ".join(out.split()).partition("where not given: ")[2]
    assert given.startswith("--hidden-sizes") or name == "series"  # which asks its data
    rate = {"copy": 0.001, "needle": 0.003}.get(name, 0.002)
    assert f"--learning-rate {rate}" in given


def test_help_breaks_where_the_terminal_does_not_where_the_source_did(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = hrnn(capsys, "train", "series", "--help")
    text = " ".join(out.replace("│", " ").split())
    assert "FASTQ, .txt; others with --kind." in text
    lines = [line.strip("│ ").rstrip() for line in out.splitlines()]
    assert "others" not in lines  # where its line ends in the source


def test_help_fits_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert all(len(line) <= 80 for line in overview().partition("examples:")[0].splitlines())
    _, out, _ = hrnn(capsys, "train", "--help")
    assert "series  Sequences of your own" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_train_evaluate_and_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--length", 3, "--periods", 3, "--window", 10, "--updates", 4, "--test-sequences", 20)
    code, out, err = hrnn(capsys, "train", "copy", *TINY, *options, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["run"] == "runs/copy-ours-0"
    assert result["updates"] == 4
    assert "update 4" in err
    code, out, _ = hrnn(capsys, "evaluate", "runs/copy-ours-0", "--json")
    assert code == 0
    assert json.loads(out)["recalled_bits_per_character"] == result["test"]["recalled_bits_per_character"]
    code, out, _ = hrnn(capsys, "evaluate", "runs/copy-ours-0", "--length", 7)
    assert f"{result['test']['recalled_bits_per_character']:.4f}" not in out
    code, out, _ = hrnn(capsys, "runs", "--json")
    (summary,) = json.loads(out)
    assert (summary["task"], summary["model"], summary["state"], summary["updates"]) == ("copy", "ours", "done", 4)
    code, out, _ = hrnn(capsys, "runs", tmp_path)
    assert code == 0
    assert "copy" in out


def test_a_time_limit_stops_and_says_how_to_go_on(tmp_path, capsys):
    options = ("--length", 3, "--periods", 3, "--updates", 4, "--minutes", 0, "--run", tmp_path / "run")
    code, _, err = hrnn(capsys, "train", "copy", *TINY, *options)
    assert code == 0
    assert f"stopped (time limit); continue with: hrnn resume {tmp_path / 'run'}" in err


def test_a_boundary_that_the_text_never_has_is_warned_about_and_unknown_characters_can_be_a_prompt(tmp_path, capsys):
    text, run = write_text(tmp_path / "text.txt"), tmp_path / "run"
    options = (text, "--window", 10, "--updates", 1, "--boundaries", "wrod", "--run", run)
    code, _, err = hrnn(capsys, "train", "text", *options, *TINY)
    assert code == 0
    assert "'wrod' is found nowhere in the training text, so level 1 never ticks; did you mean word?" in " ".join(err.split())
    code, out, _ = hrnn(capsys, "sample", run, "--prompt", "the ÖX", "--length", 200, "--temperature", 9, "--json")
    assert code == 0
    assert set(json.loads(out)["text"]) <= set(SENTENCE)


def test_a_users_own_task_is_shown_as_well_as_ours_without_its_code(tmp_path, capsys, monkeypatch):
    words = 'Metric("accuracy", label="share right", unit="of 1", higher_is_better=True, levels=((0.5, "chance"),))'
    code = OWN_TASK.replace('Metric("accuracy", higher_is_better=True)', words)
    (tmp_path / "shown_task.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    options = ("--periods", 3, "--updates", 4, "--validate-every", 2, "--journal-every", 1)
    assert hrnn(capsys, "train", "--task", "shown_task:Parity", *TINY, *options)[0] == 0
    (tmp_path / "shown_task.py").write_text("raise SystemExit('imported')")
    monkeypatch.delitem(sys.modules, "shown_task")
    (run,) = json.loads(hrnn(capsys, "runs", "--json")[1])
    assert re.fullmatch(r"test 0\.\d{4} share right", run["result"])
    assert hrnn(capsys, "plot", "runs/parity-ours-0", "--output", "curves.svg")[0] == 0
    shown = set(re.findall(r"<!-- (.*?) -->", (tmp_path / "curves.svg").read_text()))
    assert {"share right (of 1)", "local loss (of 1 by guessing)"} <= shown
    assert any("chance" in one for one in shown)
    assert "shown_task" not in sys.modules


def test_a_users_own_task(tmp_path, capsys, monkeypatch):
    (tmp_path / "tasks_of_mine.py").write_text(OWN_TASK)
    monkeypatch.chdir(tmp_path)
    options = ("--steps", 5, "--periods", 3, "--updates", 3, "--json")
    code, out, err = hrnn(capsys, "train", "--task", "tasks_of_mine:Parity", *TINY, *options)
    assert code == 0, err
    assert json.loads(out)["run"] == "runs/parity-ours-0"
    assert 0 <= json.loads(out)["test"]["accuracy"] <= 1
    code, out, _ = hrnn(capsys, "resume", "runs/parity-ours-0", "--updates", 5, "--json", "--task", "tasks_of_mine:Parity")
    assert json.loads(out)["updates"] == 5
