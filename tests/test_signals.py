"""Signals from the first line on."""

import json
import subprocess
import sys

import pytest

from hrnn.cli import main
from tests.commands.console import hrnn
from tests.tiny import TINY

SIGNALLED = """
import os, signal, sys
number = getattr(signal, sys.argv[1])
class Finder:  # where torch would be imported, the signal comes
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
from hrnn.cli import main
sys.argv = ["hrnn", "train", "copy"]
sys.exit(main())
"""


@pytest.mark.parametrize(("name", "code", "line"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_signals_while_the_program_starts(name, code, line):
    command = [sys.executable, "-c", SIGNALLED, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"hrnn: {line}\n")


@pytest.mark.parametrize(("name", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_during_the_final_test_leaves_a_run_that_can_be_finished(capsys, tmp_path, monkeypatch, name, code, word):
    import os
    import signal

    import hrnn.training.loop as loop

    def interrupted(*arguments):
        os.kill(os.getpid(), getattr(signal, name))
        raise AssertionError("the signal is raised at once")

    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(loop, "evaluate", interrupted)
        options = ("--length", 2, "--updates", 2, "--test-sequences", 5, "--run", run)
        found, _, err = hrnn(capsys, "train", "copy", *TINY, *options)
    assert (found, f"stopped ({word}); continue with: hrnn resume {run}" in err) == (code, True)
    assert not (run / "result.json").exists()
    assert main(["resume", str(run)]) == 0
    assert json.loads((run / "result.json").read_text())["updates"] == 2
