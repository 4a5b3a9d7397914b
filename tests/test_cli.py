"""The command line as a whole: help does not wait for torch, what no check foresaw is one line, and output may fail."""

import contextlib
import shlex
import subprocess
import sys
from unittest.mock import Mock

import pytest

from hrnn import __version__
from hrnn.cli import COMMANDS, main
from tests.commands.console import hrnn


def test_help_is_quick_because_it_imports_little():
    program = "import sys; from hrnn.cli import main; main(['--help']); print({'torch', 'numpy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert all(name in done.stdout for name in COMMANDS)
    assert "hrnn train copy" in done.stdout


def test_the_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "hrnn", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == __version__


def test_what_nobody_foresaw_is_one_line(capsys, monkeypatch):
    import hrnn.commands.runs as command

    for error, sentence in (
        (KeyError("gone"), "this is a mistake of the program: KeyError: 'gone'"),
        (MemoryError(), "memory is not enough"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory is not enough"),
        (PermissionError(13, "Permission denied", "/some/file"), "/some/file cannot be read or written: Permission denied"),
    ):
        monkeypatch.setattr(command, "main", Mock(side_effect=error))
        code, _, err = hrnn(capsys, "runs")
        assert (code, err.count("\n"), sentence in err) == (1, 1, True)
    monkeypatch.setenv("HRNN_TRACEBACK", "1")
    assert "Traceback" in hrnn(capsys, "runs")[2]


def test_a_full_device(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hrnn", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (1, "hrnn: the output cannot be read or written: No space left on device\n")
        assert subprocess.run([sys.executable, "-m", "hrnn", "tarin"], stderr=full, check=False).returncode == 2


def test_what_is_left_to_print_does_not_change_the_exit_code(monkeypatch):
    import hrnn.commands.sample as command

    def interrupted(arguments):
        print("half of a text")
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "main", interrupted)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["sample", "run"]) == 130
        sys.stdout.flush()  # as the interpreter does at its end
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()


@pytest.mark.parametrize("command", ["memory 2>&- >&-", "memory | true"])
def test_output_that_nobody_reads(command):
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shlex.quote(sys.executable)} -m hrnn {command}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
