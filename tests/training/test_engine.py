"""A run notes what it was computed with, and says where that changes."""

import json

import pytest

import hrnn
from hrnn.native.engine import Engine
from hrnn.training import run as runs
from tests.commands.console import hrnn as command
from tests.tiny import TINY, write_text

NATIVE, OTHER_LEVEL = Engine("native", "avx512", 1, ""), Engine("native", "avx2", 1, "HRNN_LEVEL in the environment")
TORCH, TWO_THREADS = Engine("torch", "", 1, "HRNN_NATIVE=0 in the environment"), Engine("native", "avx512", 2, "")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Begun by native code."""
    computed_by(monkeypatch, NATIVE)
    options = ("--steps", 8, "--periods", 3, "--updates", 3, "--test-sequences", 5, "--journal-every", 1)
    assert command(capsys, "train", "needle", *TINY, *options, "--run", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def computed_by(monkeypatch, engine):
    monkeypatch.setattr(runs, "engine", lambda: engine)


def noted(run):
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == "engine"]


def behind_the_first_window(began, executor="compiled"):
    """The record of a start or a resumption once more, with what ran it, and why not compiled code."""
    return {"kind": "engine", "update": began["update"], "engine": {**began["engine"], "executor": executor}}


def resumed(capsys, run, updates):
    code, _, err = command(capsys, "resume", run, "--updates", updates)
    assert code == 0
    return [line for line in err.splitlines() if "computed by" in line]


def test_a_start_and_a_resumption_are_noted_and_the_same_engine_is_no_news(run, capsys):
    began = {"kind": "engine", "update": 0, "engine": {"name": "native", "level": "avx512", "threads": 1}}
    assert noted(run) == [began, behind_the_first_window(began)]
    assert resumed(capsys, run, 4) == []
    assert noted(run)[2:] == [again := {**began, "update": 3}, behind_the_first_window(again)]


@pytest.mark.parametrize(
    ("engine", "words"),
    [(TORCH, "torch, 1 thread"), (OTHER_LEVEL, "native avx2, 1 thread"), (TWO_THREADS, "native avx512, 2 threads")],
    ids=["engine", "level", "threads"],
)
def test_another_engine_is_said_once_on_screen_and_in_the_journal(run, capsys, monkeypatch, engine, words):
    computed_by(monkeypatch, engine)
    before = "native avx512, 1 thread"
    said = f"warning: computed by {before} so far, and by {words} from here on: last bits may differ"
    assert resumed(capsys, run, 4) == [said]
    assert noted(run)[2] == {"kind": "engine", "update": 3, "engine": engine.entries(), "before": before}
    assert resumed(capsys, run, 5) == []
    assert not any("before" in record for record in noted(run)[3:])


def test_what_is_noted_is_what_the_process_has(tmp_path, capsys):
    options = ("--steps", 8, "--periods", 3, "--updates", 1, "--test-sequences", 5)
    assert command(capsys, "train", "needle", *TINY, *options, "--run", tmp_path / "run", "--threads", 1)[0] == 0
    assert noted(tmp_path / "run")[0]["engine"] == hrnn.engine().entries()


def test_the_executor_is_said_once_with_the_reason_where_it_is_not_compiled(tmp_path, capsys):
    text = write_text(tmp_path / "text.txt", copies=12)
    options = ("--hidden-sizes", 4, 4, "--window", 10, "--batch", 2, "--decoder-units", 4, "--updates", 3)
    for name, given, said in (
        ("words", (), "literal, as boundaries are given by the data"),
        ("full", ("--gradient", "full"), "literal, as only Restricted has compiled code"),
        ("fixed", ("--boundaries", "--periods", 3), "compiled"),
    ):
        code, _, err = command(capsys, "train", "text", text, *options, *given, "--run", tmp_path / name)
        assert code == 0
        assert [line for line in err.splitlines() if line.startswith("engine")] == [f"engine: {said}"]
        assert noted(tmp_path / name)[1]["engine"]["executor"] == said.replace(", as ", ": ")
