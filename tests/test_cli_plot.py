import json
import re

import pytest

from tests.test_cli import hrnn
from tests.test_cli_mistakes import complaint
from tests.tiny import TINY, write_text

COPY = ("copy", *TINY, "--start", 1, "--periods", 3, "--window", 10, "--test-sequences", 20, "--learning-rate", 0.03)


@pytest.fixture
def runs(tmp_path, capsys):
    folders = [tmp_path / model for model in ("ours", "gr-hrnn")]
    for folder in folders:
        assert hrnn(capsys, "train", *COPY, "--model", folder.name, "--updates", 60, "--run", folder)[0] == 0
    return folders


def test_curves_of_several_runs(tmp_path, capsys, runs):
    for axis in ("updates", "sequences", "minutes"):
        picture = tmp_path / f"{axis}.svg"
        code, out, _ = hrnn(capsys, "plot", *runs, "--output", picture, "--x", axis)
        assert (code, out) == (0, f"{picture}\n")
        words = re.findall(r"<!-- (.*?) -->", picture.read_text())
        assert {"ours 8/8, seed 0", "gr-hrnn 8/8, seed 0", "length solved (bits)", "local loss (nats)"} <= set(words)
        assert "loss (bits per recalled character)" in words
        assert ("sequences seen" if axis == "sequences" else axis) in words
    assert hrnn(capsys, "plot", runs[0], "--output", tmp_path / "a" / "curves.png")[0] == 0
    assert (tmp_path / "a" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_runs_give_the_same_picture(tmp_path, capsys, runs):
    for name in ("a.svg", "b.svg"):
        hrnn(capsys, "plot", *runs, "--output", tmp_path / name)
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()


def test_a_run_that_is_still_going_can_be_drawn(tmp_path, capsys, runs):
    journal = runs[0] / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"kind": "update", "upd')
    assert hrnn(capsys, "plot", runs[0], "--output", tmp_path / "a.png")[0] == 0
    assert json.loads(hrnn(capsys, "runs", tmp_path, "--json")[1])[1]["updates"] == 60


def test_runs_that_cannot_be_drawn(tmp_path, capsys, runs):
    options = ("--data", write_text(tmp_path / "text.txt"), "--window", 10, "--updates", 1)
    assert hrnn(capsys, "train", "text", *TINY, *options, "--run", tmp_path / "text")[0] == 0
    assert "different tasks" in complaint(capsys, "plot", runs[0], tmp_path / "text")
    journal = runs[0] / "journal.jsonl"
    journal.write_text("no JSON\n" + journal.read_text())
    assert "journal.jsonl is damaged at line 1" in complaint(capsys, "plot", *runs)
    journal.write_text("")
    assert "has recorded nothing yet" in complaint(capsys, "plot", *runs)
