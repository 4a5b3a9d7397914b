"""Training under torchrun: the same runs as in one process, also when a process is killed, and with other numbers of them."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from campaigns.small import journal, newest_checkpoint
from hrnn.cli import main
from hrnn.training.checkpoint import read
from tests.holding import held, holding
from tests.runs import SMALL, tasks
from tests.torchrun import ROOT, command, environment, torchrun
from tests.waiting import PATIENCE

CLOSE = {"rel": 2e-3, "abs": 2e-3}  # float32, added up in another order


def compare(found, expected):
    """The same records, numbers up to rounding."""
    assert [(r["kind"], r["update"]) for r in found] == [(r["kind"], r["update"]) for r in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            entries = value if isinstance(value, list) else [value]
            numbers = isinstance(value, dict) or all(isinstance(entry, float) for entry in entries)
            assert one[name] == (pytest.approx(value, **CLOSE) if numbers else value), (other["update"], name)


def other_text(folder, options):
    """A run on a text that has changed since; the command that goes on with it."""
    text, run = folder / "changed.txt", str(folder / "changed-2")
    original = Path(options[options.index("--data") + 1])
    text.write_text(original.read_text())
    assert main(["train", *options, "--data", str(text), "--updates", "3", "--run", run]) == 0
    text.write_text(original.read_text()[::-1])
    return ["resume", run, "--updates", "6", "--accept-changed-data"]


@pytest.fixture(scope="module", params=[0, pytest.param(3, marks=pytest.mark.long)], ids=lambda kills: f"{kills} kills")
def runs(request, tmp_path_factory):
    """A folder with every run twice: NAME by one process, NAME-2 by two. In the first few one of the two is killed; torchrun
    takes ten seconds to begin again, so that most kills are long tests."""
    folder = tmp_path_factory.mktemp("runs")
    commands = {}
    for name, options in tasks(folder).items():
        arguments = [*options, *SMALL, "--no-tensorboard", "--checkpoint-seconds", "0"]
        arguments += ["--schedule", "constant"] if name == "text" else []  # whose budget changes on the way
        if name != "text":  # that has a test of its own
            commands[name] = ["train", *arguments, "--run", str(folder / f"{name}-2")]
        if name == "text":  # begun by one process, ended by two
            half = [*arguments[: arguments.index("--updates")], *arguments[arguments.index("--updates") + 2 :]]
            assert main(["train", *half, "--updates", "23", "--run", str(folder / "half-2")]) == 0
            commands["half"] = ["resume", str(folder / "half-2"), "--updates", "50"]
            commands["changed"] = other_text(folder, half)
        if name == "series":  # the same in the middle of a batch, whose windows have fewer and fewer rows
            assert main(["train", *arguments, "--updates", "7", "--run", str(folder / "middle-2")]) == 0
            assert read(newest_checkpoint(folder / "middle-2")).facts["position"]["windows"]
            commands["middle"] = ["resume", str(folder / "middle-2"), "--updates", "11"]
        assert main(["train", *arguments, "--run", str(folder / name)]) == 0
    order = ["copy", "pixels", "needle", "unlocked", "half", "changed", "series", "middle"]
    listing = folder / "commands.json"
    listing.write_text(json.dumps({name: commands[name] for name in order}))
    launch = ROOT / "tests" / "parallel" / "trains_all.py", listing, request.param
    done = torchrun(*launch, options=("--standalone", "--max-restarts", "3"))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", ["copy", "pixels", "needle", "unlocked", "series"])
def test_a_run_by_two_processes_is_that_of_one_although_one_may_be_killed(runs, name):
    compare(journal(runs / f"{name}-2"), journal(runs / name))
    result = json.loads((runs / f"{name}-2" / "result.json").read_text())
    assert result["updates"] == json.loads((runs / name / "result.json").read_text())["updates"]


@pytest.mark.parametrize(("name", "straight", "begun"), [("half", "text", 24), ("middle", "series", 0)])
def test_a_run_begun_by_one_process_is_ended_by_two(runs, name, straight, begun):
    found, expected = journal(runs / f"{name}-2"), journal(runs / straight)
    rows = [{r["update"]: r["loss"] for r in records if r["kind"] == "update"} for records in (found, expected)]
    assert rows[0].keys() == rows[1].keys()
    late = [update for update in rows[1] if update > begun]
    assert [rows[0][u] for u in late] == pytest.approx([rows[1][u] for u in late], **CLOSE)


def test_two_processes_go_on_with_changed_data_though_only_one_compares_them(runs):
    records = journal(runs / "changed-2")
    assert [r["update"] for r in records if r["kind"] == "data"] == [3]
    assert records[-1]["update"] == 6


def test_the_command_line_survives_a_kill_and_another_number_of_processes(tmp_path):
    options = [*tasks(tmp_path)["text"], *SMALL, "--no-tensorboard", "--checkpoint-seconds", "0"]
    run, alone = tmp_path / "run", tmp_path / "alone"
    launch = command("-m", "--", "hrnn", "train", *options, "--run", run, options=("--standalone", "--max-restarts", "1"))
    variables = environment(**holding(8, tmp_path / "held"))
    with subprocess.Popen(launch, env=variables, stderr=subprocess.PIPE, text=True) as job:
        _, second = (held(tmp_path / "held", "run", rank, over=job.poll) for rank in (0, 1))
        os.kill(second, signal.SIGKILL)
        _, errors = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, errors
    assert "Traceback" not in errors.replace("traceback : Signal 9 (SIGKILL)", ""), errors
    assert main(["train", *options, "--run", str(alone)]) == 0
    compare(journal(run), journal(alone))
    for folder in (run, alone):  # by one process now
        assert main(["resume", str(folder), "--updates", "60"]) == 0
    compare(journal(run), journal(alone))
