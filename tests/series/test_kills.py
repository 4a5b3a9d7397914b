"""SIGKILL in the middle of a run on series, whatever its source and targets: resumed, it ends as if nothing had happened."""

import os
import signal
import subprocess
import sys

import pytest

from campaigns.small import End
from tests.commands.console import hrnn
from tests.series.made import TINY, train, write
from tests.series.test_resume import KINDS
from tests.torchrun import ROOT, environment

MORE = ("--validate-every", "3", "--checkpoint-seconds", "0.01", "--journal-every", "2")


def killed(place, number, arguments, run):
    """A process that dies there."""
    said = ["train", "series", *arguments, *TINY, "--updates", "7", "--schedule", "constant", "--run", run, *MORE]
    variables = environment(PYTHONPATH=os.pathsep.join([str(ROOT / "src"), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.series.killed", place, str(number), *map(str, said)],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def ends_the_same(tmp_path, capsys, kind, kills):
    arguments = write(tmp_path / "data")[kind]
    straight, run = (tmp_path / "runs" / name for name in ("straight", "run"))
    for place, number in kills:
        killed(place, number, arguments, run)
        assert not (run / "result.json").exists()
        code, _, err = hrnn(capsys, "resume", run)
        assert code == 0, err
    train(capsys, straight, arguments, 7, *MORE)
    assert same_end(run, straight)


def same_end(run, other):
    """To the last bit: weights, optimizers, states, averages, journal, result."""
    return not End.of(run, without=("events",)).differences(End.of(other, without=("events",)))


def test_killed_between_a_gradient_and_its_update(tmp_path, capsys):
    ends_the_same(tmp_path, capsys, "class", [("update", 5)])


def test_killed_while_the_cache_is_written(tmp_path, capsys):
    arguments, run = write(tmp_path / "data")["class"], tmp_path / "runs" / "run"
    killed("cache", 5, arguments, run)
    (partial,) = (tmp_path / "runs" / "cache").iterdir()
    assert partial.name.startswith(".")
    assert not (run / "config.json").exists()
    train(capsys, run, arguments, 7, *MORE)
    (whole,) = (tmp_path / "runs" / "cache").iterdir()
    assert not whole.name.startswith("."), "what was half-written is gone"
    assert same_end(run, train(capsys, tmp_path / "other" / "run", arguments, 7, *MORE))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kill", [("update", 6), ("checkpoint", 4), ("validation", 2)], ids=lambda kill: kill[0])
def test_killed_anywhere(tmp_path, capsys, kind, kill):
    ends_the_same(tmp_path, capsys, kind, [kill])
