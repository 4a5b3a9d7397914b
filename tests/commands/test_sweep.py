"""hrnn sweep through the command line: what it leaves behind, how it survives, and what it says of mistakes."""

import json
import os
import signal
import socket
import sys

import pytest

from hrnn.launching import cluster
from hrnn.launching.progress import last_update
from hrnn.training import folder as folders
from hrnn.training.loop import start
from tests.commands.console import complaint, hrnn
from tests.commands.sweeping import NEEDLE, QUICK, begin, journal
from tests.holding import held, holding
from tests.waiting import PATIENCE, wait_for


@pytest.mark.long
def test_killed_and_started_again_it_ends_with_the_runs_and_the_table_of_the_grid(tmp_path, capsys):
    folder = tmp_path / "sweep"
    over = ("--over", "learning-rate=0.001,0.01", "--over", "seed=0,1")
    command = (*NEEDLE, *QUICK, "--updates", "150", *over, "--folder", folder, "--jobs", "2")
    names = [f"learning-rate={rate},seed={seed}" for rate in (0.001, 0.01) for seed in (0, 1)]
    process = begin(*command, env=os.environ | holding(10, tmp_path / "held"))
    for name in names[:2]:
        held(tmp_path / "held", name, over=process.poll)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    wait_for(lambda: not any(folders.is_locked(folder / name) for name in names), "a child is still at work")
    half = sum(last_update(folder / name).get("update", 0) for name in names)
    assert 10 < half < 600
    process = begin(*command, "--json")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    table = json.loads(out)
    assert json.loads((folder / "table.json").read_text())["rows"] == table["rows"]
    assert sorted(path.parent.name for path in folder.rglob("config.json")) == sorted(names)
    assert table["judged_on"] == "validation"
    assert {row["setting"]["learning-rate"] for row in table["rows"]} == {"0.001", "0.01"}
    assert table["rows"][0]["mean"] >= table["rows"][1]["mean"]  # accuracy: the best first
    for row in table["rows"]:
        values = []
        for one in row["runs"]:
            alone = start(folders.read_run(folder / one["run"]).config(), tmp_path / "alone" / one["run"])
            assert journal(folder / one["run"]) == journal(tmp_path / "alone" / one["run"])
            values.append(alone.result["validation"]["accuracy"])  # the test is not for choosing
        assert [one["value"] for one in row["runs"]] == values
        assert row["mean"] == pytest.approx(sum(values) / 2)
        assert row["std"] == pytest.approx(abs(values[0] - values[1]) / 2)
    code, out, _ = hrnn(capsys, "runs", folder, "--json")
    assert [one["state"] for one in json.loads(out)] == ["done"] * 4
    assert hrnn(capsys, "plot", *(folder / name for name in names), "--output", tmp_path / "curves.png")[0] == 0
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("journal.jsonl")}
    code, out, _ = hrnn(capsys, "sweep", *command)  # nothing is missing
    assert code == 0
    assert "learning-rate" in out
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("journal.jsonl")}
    assert "± " in (folder / "table.md").read_text()


FULL_DISK = """
import os
sync = os.fsync
def fsync(file):
    if "seed=0/checkpoints" in os.readlink(f"/proc/self/fd/{file}"):
        raise OSError(28, "No space left on device")
    sync(file)
os.fsync = fsync
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the stand-in for a full disk needs /proc")
def test_a_full_disk_under_one_run_fails_that_run_alone(tmp_path, monkeypatch, capfd):
    (tmp_path / "sitecustomize.py").write_text(FULL_DISK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, out, err = hrnn(capfd, "sweep", *NEEDLE, "--updates", 3, "--over", "seed=0,1", "--folder", tmp_path / "s")
    assert code == 1
    failed = [line for line in err.splitlines() if line.startswith("hrnn: ")]
    assert len(failed) == 1
    assert failed[0].startswith("hrnn: seed=0 failed: ")
    assert "cannot be written: No space left on device" in failed[0]
    assert "not finished at update" in out
    assert folders.read_result(tmp_path / "s" / "seed=1")["updates"] == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "what is varied? Give --over OPTION=VALUE,VALUE"),
        (("--over", "lerning-rate=1,2"), "--over lerning-rate: hrnn train needle has no such option to vary; there are steps"),
        (("--over", "run=a,b"), "--over run: hrnn train needle has no such option"),
        (("--over", "learning-rate="), "should read OPTION=VALUE,VALUE"),
        (("--over", "learning-rate=1e-3,,2e-3"), "should read OPTION=VALUE,VALUE"),
        (("--over", "learning-rate"), "should read OPTION=VALUE,VALUE"),
        (("--over=seed=0,1", "--over", "seed=2"), "--over seed is given twice"),
        (("--over", "batch=5,6"), "--batch is given, and varied by --over batch; drop one"),
        (("--over", "tensorboard=true,false"), "--tensorboard is given, and varied"),
        (("--over", "normalized=True,Falsch"), "'Falsch' is neither true nor false"),
        (("--over", "seed=0,0"), "seed=0 and seed=0 are the same run; drop one of the values"),
        (("--over", "model=ours,lstm"), "model=lstm: --model lstm is one flat LSTM"),
        (("--over", "clip=1,-1"), "--clip is -1.0; give a number above 0"),
        (("--over", "seed=0,1", "--sweep-seed", 3), "--sweep-seed 3 is of the sample of --random"),
        (("--over", "clip=1,2", "--random", 3), "--random is 3 and the grid has 2 settings"),
        (
            ("--over", "seed=0,1", "--address", "localhost:1"),
            "--address localhost:1 is that of a Ray cluster; give --eng",
        ),
        (("--over", "seed=0,1", "--jobs", 0), "--jobs is 0; give at least 1"),
        (("--over", "cell=lstm,mine:Cell"), "mine:Cell cannot be loaded"),
    ],
)
def test_mistakes_get_one_sentence_and_nothing_is_begun(tmp_path, capsys, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in complaint(capsys, "sweep", *NEEDLE, "--updates", 2, *options)
    assert not list(tmp_path.rglob("config.json"))


def test_a_value_that_cannot_be_read(tmp_path, capsys):
    code, _, err = hrnn(capsys, "sweep", *NEEDLE, "--over", "learning-rate=1e-3,fast", "--folder", tmp_path / "s")
    assert code == 2
    assert "--learning-rate" in err
    assert not (tmp_path / "s").exists()


def test_what_is_not_installed_is_said_with_the_command_that_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    options = (*NEEDLE, "--over", "seed=0,1", "--folder", tmp_path / "s")
    assert "pip install 'hrnn[ray]'" in complaint(capsys, "sweep", *options, "--engine", "ray")


def test_an_address_where_no_cluster_is(tmp_path, capsys, monkeypatch):
    """Nobody listens; somebody listens and never answers; it is no address at all. No wait is longer than its limit."""
    pytest.importorskip("ray", reason='Ray is not installed: pip install "hrnn[ray]"')
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 3.0)
    options = ("sweep", *NEEDLE, "--over", "seed=0,1", "--folder", tmp_path / "s", "--engine", "ray", "--address")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*silent.getsockname())
        assert f"--address {address}: nothing answers there" in complaint(capsys, *options, address)
        silent.listen()
        assert f"--address {address}: no Ray cluster answers there within 3 s" in complaint(capsys, *options, address)
    for wrong in ("nonsense", "host:port", "http://127.0.0.1:80"):
        assert f"--address is '{wrong}'; give HOST:PORT" in complaint(capsys, *options, wrong)
    assert not (tmp_path / "s").exists()


def test_help(capsys):
    assert "hrnn sweep TASK" in hrnn(capsys, "sweep", "--help")[1]
    code, out, _ = hrnn(capsys, "sweep", "copy", "--help")
    assert code == 0
    assert all(option in out for option in ("--over", "--random", "--prune", "--engine", "--address", "--hidden-sizes"))
