"""Every command of README and docs is understood by the program that it starts; the quick ones are run, made shorter."""

import contextlib
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import campaigns.__main__
from hrnn.commands import sweep
from hrnn.commands.options import parse
from hrnn.commands.task import task_and_rest
from hrnn.commands.train import Train
from hrnn.errors import UserError
from hrnn.launching.grid import points
from hrnn.training.config import Config, resolved
from tests.commands.console import hrnn
from tests.data.made import write_fasta, write_wav
from tests.docs.documented import DOCS, PAGES, ROOT, arguments_of, code_in, lines_in, require, shorter_command
from tests.tiny import write_mnist, write_text

FILES = {"own_task.md": "parity.py", "own_cell.md": "cells.py", "distributed.md": "loop.py"}  # a page's first block, saved
# Other machines, downloads, hours, or processes of their own: understood, but not run.
SLOW = r"--download|--help|10\.0\.0\.1|hrnn demo|--list --measure|hrnn reproduce .* --run|(hrnn|report) sweep|torchrun|--live"
WITH_COMMANDS = [page for page in PAGES if lines_in(page)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with everything that the pages' commands read."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("book.txt", "more.txt", "other.txt", "log.txt"):
        write_text(folder / name)
    (folder / "ptb").mkdir()
    for part in ("train", "valid", "test"):
        write_text(folder / "ptb" / f"ptb.{part}.txt")
    write_mnist(folder / "mnist")
    with contextlib.chdir(folder):
        exec(code_in(DOCS / "series.md")[0], {})
    (folder / "walks.csv").write_text((folder / "sensors.csv").read_text().replace("id,time,x,y,label", "walk,time,x,y,gait"))
    _with_persons(folder / "walks.csv")
    for number in range(20):
        for name, frequency in (("low", 0.05), ("high", 0.5)):
            write_wav(folder / "recordings" / name / f"{number}.wav", 100 + number, frequency=frequency)
    write_fasta(folder / "genome.fa.gz", {"one": "ACGTN" * 200})
    _like_data_of_others(folder)
    for page, name in FILES.items():
        (folder / name).write_text(code_in(DOCS / page)[0])
    return folder


def _like_data_of_others(folder):
    """What the scripts of examples/data write, in small."""
    sensors = pyarrow.csv.read_csv(folder / "sensors.csv")
    for name in ("watch", "acsf1", "vowels", "leaf"):
        pq.write_table(sensors, folder / f"{name}.parquet")
    counts = np.random.default_rng(0).normal(size=20_000).cumsum()
    pq.write_table(pa.table({"counts": counts}), folder / "seismogram.parquet")
    (folder / "speakers").symlink_to(folder / "recordings")
    (folder / "jargon.txt").write_text("jargon: what one says among those who say it. " * 400)


def _with_persons(path):
    head, *lines = path.read_text().splitlines()
    persons = [f"{line},p{int(line.partition(',')[0][1:]) % 12}" for line in lines]
    path.write_text("\n".join([f"{head},person", *persons, ""]))


class Understood(Exception):  # noqa: N818, it is no error
    """The options of a command, instead of doing what it does."""


def check_hrnn(words, monkeypatch):
    """By the command's own parser; what would be trained has to be possible, too."""
    module = importlib.import_module(f"hrnn.commands.{words[0]}")
    if "--help" in words:
        return
    if words[0] == "sweep":
        base, axes = sweep.read(*task_and_rest(words[1:]))
        points(base.config, axes, base.grid.random, base.grid.sweep_seed or 0)
        return

    def stop(*arguments):
        raise Understood(parse(*arguments))

    monkeypatch.setattr(module, "parse", stop)
    with pytest.raises(Understood) as caught:
        module.main(words[1:])
    options = caught.value.args[0]
    if isinstance(options, Train):
        config = Config(options.task, options.model, options.learning, options.budget, options.runtime)
        fetches = {"download": False} if hasattr(config.task, "download") else {}
        resolved(replace(config, task=replace(config.task, **fetches)))


def check_torchrun(words, monkeypatch):
    from torch.distributed.run import parse_args

    options = parse_args(words)
    program = [one for one in (options.training_script, *options.training_script_args) if one != "--"]
    if options.module:
        check_python(["-m", *program], monkeypatch)
    else:
        assert Path(program[0]).exists(), program


def check_python(words, monkeypatch):
    if words[0] == "-c":
        compile(words[1], "-c", "exec")
    elif words[:2] == ["-m", "hrnn"]:
        check_hrnn(words[2:], monkeypatch)
    elif words[0] == "-m":
        assert importlib.util.find_spec(words[1]), words
        if words[1] == "campaigns":
            campaigns.__main__.arguments(words[2:])
    else:
        assert (ROOT / words[0]).exists() or Path(words[0]).exists(), words


def check_make(words, monkeypatch):
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        assert re.search(rf"^{name} \?=" if is_variable else rf"^{name}:", makefile, re.MULTILINE), f"make {word}"


def check_pip(words, monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words:
        assert set(re.findall(r"[\w-]+", word.partition("[")[2])) <= set(project["optional-dependencies"]), word


def check_ray(words, monkeypatch):
    scripts = pytest.importorskip("ray.scripts.scripts", reason='Ray is not installed: pip install "hrnn[ray]"')
    known = {name for option in scripts.cli.commands[words[0]].params for name in option.opts}
    assert {word for word in words if word.startswith("-")} <= known


CHECKS = {
    "hrnn": check_hrnn,
    "torchrun": check_torchrun,
    "python": check_python,
    "make": check_make,
    "pip": check_pip,
    "ray": check_ray,
}


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_is_understood(page, data, monkeypatch):
    monkeypatch.chdir(data)
    monkeypatch.syspath_prepend(data)
    for line in lines_in(page):
        program, *words = shlex.split(line.partition(" > ")[0])
        assert program in CHECKS, f"{line}: no test knows how to check this"
        with monkeypatch.context() as patched:
            CHECKS[program](words, patched)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("hrnn train copy --lenght 3", UserError),
        ("hrnn sweep copy --over lenght=3", UserError),
        ("torchrun --standalone --processes 2 loop.py", SystemExit),
        ("python -m campaign", AssertionError),
        ("python -m campaigns --part disk", SystemExit),
        ("make tset", AssertionError),
        ("make campaign MINUTE=3", AssertionError),
        ("pip install .[clli]", AssertionError),
    ],
)
def test_a_wrong_command_is_found(line, error, data, monkeypatch):
    monkeypatch.chdir(data)
    program, *words = shlex.split(line)
    with pytest.raises(error):
        CHECKS[program](words, monkeypatch)


def quick(page):
    return [arguments_of(line) for line in lines_in(page) if arguments_of(line) and not re.search(SLOW, line)]


# The page of the command line has examples that do not follow on each other.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if quick(page) and page.name != "command_line.md"], ids=lambda page: page.name
)
def test_the_quick_commands_of_a_page_work_in_their_order(page, data, tmp_path, monkeypatch, capsys):
    require(page)
    for entry in data.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    for words in quick(page):
        code, out, err = hrnn(capsys, *shorter_command(words))
        assert (code, "Traceback" in out + err) == (0, False), (words, err)
        if words[0] == "plot":
            assert Path(words[words.index("--output") + 1]).stat().st_size > 1000


def test_the_task_of_the_documentation_learns(data, tmp_path, monkeypatch, capsys):
    (tmp_path / "parity.py").symlink_to(data / "parity.py")
    monkeypatch.chdir(tmp_path)
    train, help_, resume, evaluate = (arguments_of(line) for line in lines_in(DOCS / "own_task.md"))
    assert hrnn(capsys, *train, "--no-tensorboard")[0] == 0
    assert "--steps INT" in hrnn(capsys, *help_)[1]
    assert hrnn(capsys, *resume, "--updates", 202)[0] == 0
    code, out, _ = hrnn(capsys, *evaluate)
    assert code == 0
    assert float(re.search(r"accuracy ([\d.]+)", out)[1]) > 0.9  # chance is 0.5


@pytest.mark.long
def test_getting_started_works_as_it_stands_from_an_empty_folder(tmp_path):
    """Minutes, as a user sees it: real programs, nothing made shorter. What needs other machines or data is left out."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    elsewhere = ("--download", "text ptb", "10.0.0.1", "needle", "make ", "pip ")
    for line in lines_in(DOCS / "getting_started.md"):
        if not any(word in line for word in elsewhere):
            environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, env=environment)
            assert (done.returncode, "Traceback" in done.stderr) == (0, False), (line, done.stderr)
    for model in ("ours", "hrnn"):
        assert '"longest_solved_length": 15' in (tmp_path / "runs" / f"copy-{model}-0" / "result.json").read_text()
    assert (tmp_path / "copy.svg").exists()
