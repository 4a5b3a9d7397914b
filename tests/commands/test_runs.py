"""hrnn runs: a table of whatever can be read, and a line for what cannot."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hrnn.formats import numbered
from hrnn.report import summary
from hrnn.report.series import load
from hrnn.training.folder import locked
from tests.commands.console import hrnn
from tests.runs import update, write_run


def listed(capsys, folder):
    code, out, err = hrnn(capsys, "runs", folder, "--json")
    assert code == 0, err
    return {os.path.basename(one["folder"]): one for one in json.loads(out)}, err


def damage(run, kind):
    """A run that cannot be read, in one of many ways; the file that is to blame."""
    files = {
        "number": ("result.json", b"5"),
        "binary": ("result.json", b"\xff\xfe\x00"),
        "deep": ("result.json", b"[" * 100_000),
        "digits": ("result.json", b"1" * 5000),
        "null line": ("journal.jsonl", b"null\n"),
        "half a line": ("journal.jsonl", b'{"kind": "update", "upd\n'),
        "binary line": ("journal.jsonl", b"\x00\xff\n"),
        "no entries": ("config.json", b"[]"),
        "task": ("config.json", json.dumps({**json.loads((run / "config.json").read_text()), "task": 5}).encode()),
        "name": ("config.json", json.dumps({**json.loads((run / "config.json").read_text()), "task": {"name": 5}}).encode()),
    }
    if kind in files:
        name, content = files[kind]
        (run / name).write_bytes(content)
        return name
    name = {"pipe": "config.json", "folder": "config.json", "loop": "config.json", "pipe for a journal": "journal.jsonl"}[kind]
    (run / name).unlink()
    if kind.startswith("pipe"):
        os.mkfifo(run / name)
    elif kind == "folder":
        (run / name).mkdir()
    else:
        (run / name).symlink_to(run / name)
    return name


KINDS = ["number", "binary", "deep", "digits", "null line", "half a line", "binary line", "no entries", "task", "name"]
KINDS += ["pipe", "folder", "loop", "pipe for a journal"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_bad_run_is_named_and_the_others_are_shown(tmp_path, capsys, kind):
    good, bad = write_run(tmp_path / "good"), write_run(tmp_path / "bad")
    name = damage(bad, kind)
    found, err = listed(capsys, tmp_path)
    assert list(found) == ["good"]
    assert err.startswith(f"skipped {bad}: ")
    assert name in err
    assert err.count("\n") == 1
    assert len(err.replace(str(tmp_path), "")) < 400
    code, _, err = hrnn(capsys, "runs", bad)
    assert code == 2
    assert name in err
    if name != "result.json":  # which a picture does not need
        series, skipped = load([bad, good])
        assert len(series) == 1
        assert name in skipped[bad]


def test_a_folder_that_cannot_be_looked_into(tmp_path, capsys, monkeypatch):
    write_run(tmp_path / "good")
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found, err = listed(capsys, tmp_path)
    assert list(found) == ["good"]
    assert err == f"skipped {tmp_path / 'closed'}: Permission denied\n"


def test_links_do_not_lead_in_circles_and_list_nothing_twice(tmp_path, capsys):
    run = write_run(tmp_path / "runs" / "run")
    other = write_run(tmp_path / "elsewhere")
    (run / "itself").symlink_to(run)
    (run / "up").symlink_to(tmp_path)
    (tmp_path / "runs" / "linked").symlink_to(other)
    found, err = listed(capsys, tmp_path / "runs")
    assert (sorted(found), err) == (["linked", "run"], "")


def test_names_cannot_steer_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "[red]", task={"name": "\x1b[2Jcopy[/nothing]"})
    code, out, _ = hrnn(capsys, "runs", ".")
    assert code == 0
    assert "\x1b" not in out
    assert "?[2Jcopy[/nothing]" in out
    assert "[red]" in out


@pytest.mark.parametrize(
    ("records", "result", "words"),
    [
        ([update(5)], None, "training 0.2000 bits per recalled character"),
        ([update(5), {"kind": "validation", "accuracy": 0.75}, update(6)], None, "validation 0.7500 accuracy"),
        ([update(5), {"kind": "test", "accuracy": 0.5}], {"seconds": 60}, "test 0.5000 accuracy"),
        ([update(5, solved=12)], None, "length solved at least 12"),
        ([update(5, solved=12)], {"longest_solved_length": 15, "at_least": True}, "length solved at least 15"),
        ([update(5)], {"longest_solved_length": 15, "at_least": False}, "length solved 15"),
        ([update(5, recalled_bits_per_character=None, bits_per_character="many")], None, ""),
        ([], None, ""),
    ],
)
def test_the_number_that_one_would_ask_for(tmp_path, capsys, records, result, words):
    run = write_run(tmp_path / "run", records, task={"name": "needle" if "accuracy" in words else "copy"})
    if result is not None:
        (run / "result.json").write_text(json.dumps(numbered("run", result)))
    found, _ = listed(capsys, tmp_path)
    assert found["run"]["result"] == words
    assert found["run"]["state"] == ("stopped" if result is None else "done")


def test_minutes_are_all_that_a_run_has_taken(tmp_path, capsys, monkeypatch):
    tested = write_run(tmp_path / "tested", [update(1, seconds=0.4)])
    (tested / "result.json").write_text(json.dumps(numbered("run", {"seconds": 95.0})))  # the test at the end took the rest
    write_run(tmp_path / "validated", [update(1, seconds=0.4), {"kind": "validation", "update": 1, "seconds": 80.0}])
    running = write_run(tmp_path / "running", [update(1, seconds=30.0)])
    silent = write_run(tmp_path / "silent", [])
    monkeypatch.setattr(summary, "time", SimpleNamespace(time=lambda: 1_000_060.0))
    with locked(running), locked(silent):
        for run in (running, silent):  # the last sign of life was a minute ago
            for name in ("lock", "journal.jsonl"):
                os.utime(run / name, (1_000_000, 1_000_000))
        found, _ = listed(capsys, tmp_path)
    seconds = {name: one["seconds"] for name, one in found.items()}
    assert seconds == {"tested": 95.0, "validated": 80.0, "running": 90.0, "silent": 60.0}
    assert found["running"]["state"] == found["silent"]["state"] == "running"


def test_reading_runs_imports_neither_torch_nor_what_a_run_names(tmp_path):
    """What torch alone needs is more than a table of runs may take."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    write_run(
        tmp_path / "runs" / "run", task={"name": "evil:Task"}, model={"model": "ours", "hidden_sizes": [8], "cell": "evil:C"}
    )
    program = (
        "import sys; from pathlib import Path; from hrnn.cli import main; import hrnn.commands.plot as plot; "
        "print(main(['runs']), len(plot.load([Path('runs')])[0]), {'torch', 'evil'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.endswith("0 1 set()\n")
    assert "evil:Task" in done.stdout


@pytest.mark.parametrize("arguments", [("evaluate", "--help"), ("evaluate", "runs/x", "--help"), ("plot", "runs/x", "-h")])
def test_help_names_what_is_given_already(capsys, arguments):
    code, out, _ = hrnn(capsys, *arguments)
    assert code == 0
    assert "PATH" in out.splitlines()[0]
