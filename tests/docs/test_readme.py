"""The README's code and the commands of docs/getting_started.md are run as they stand."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.commands.console import hrnn
from tests.docs.documented import README, ROOT, arguments_of, code_in, lines_in
from tests.tiny import write_text

START = ROOT / "docs" / "getting_started.md"
WALK = "From the command line"
# Options that come last win: what makes a command of the walk quick. A window of 60 and the rest stay as they are.
SMALL = {
    "train": "--hidden-sizes 8 8 --batch 10 --updates 2 --no-tensorboard",
    "sample": "--length 5",
    "memory": "--no-measure",
}


def test_the_readmes_python_learns():
    (code,) = code_in(README)
    names: dict = {}
    torch.manual_seed(0)
    exec(code, names)
    assert float(names["result"].loss) < 0.1  # whoever tells blanks from bits and guesses the bits has 0.35
    assert len([line for line in code.splitlines() if line.strip()]) <= 25


def test_the_commands_work_in_their_order_from_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = walk()
    assert [words[0] for words in commands if words][:3] == ["train", "train", "plot"]
    for words in commands:
        if words is None:
            write_text(tmp_path / "book.txt")  # what the line before the first training on text makes
            continue
        code, out, err = hrnn(capsys, *words, *SMALL.get(words[0], "").split())
        assert (code, "Traceback" in out + err) == (0, False), (words, err)
    assert (tmp_path / "copy.svg").stat().st_size > 1000


def walk():
    """The first block of the section: arguments of hrnn, None for other programs."""
    lines = lines_in(START, WALK)
    return [arguments_of(line) for line in lines[: lines.index(next(one for one in lines if "hrnn memory" in one)) + 1]]


@pytest.mark.long
def test_the_whole_page_works_in_its_order_from_an_empty_folder(tmp_path):
    """Minutes, as a user sees it: real programs, nothing made smaller. What needs other machines or data is left out."""
    bin_folder = Path(sys.executable).parent
    elsewhere = ("--download", "--data ptb", "--data data", "10.0.0.1", "reproduce", "needle")
    for section in (WALK, "Many runs", "On many processes"):
        for line in lines_in(START, section):
            if not any(word in line for word in elsewhere):
                done = subprocess.run(
                    line, shell=True, cwd=tmp_path, capture_output=True, text=True, env=user_environment(bin_folder)
                )
                assert (done.returncode, "Traceback" in done.stderr) == (0, False), (line, done.stderr)
    for model in ("ours", "hrnn"):
        assert '"longest_solved_length": 15' in (tmp_path / "runs" / f"copy-{model}-0" / "result.json").read_text()
    assert (tmp_path / "copy.svg").exists()


def user_environment(bin_folder):
    import os

    return {**os.environ, "PATH": f"{shlex.quote(str(bin_folder))}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
