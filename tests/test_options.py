"""Whatever an option is given, in Python, in config.json or on the command line: a sentence that names it, before anything is
written. Signals from the first line on, and what no check foresaw."""

import contextlib
import dataclasses
import json
import math
import shlex
import subprocess
import sys
import typing
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import pytest

from hrnn.cli import main
from hrnn.errors import UserError
from hrnn.limits import name_of
from hrnn.room import in_words, memory_of_machine
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.training.config import Budget, Config, Learning, Model, from_json, settled, to_json
from hrnn.training.network import build
from hrnn.training.sizes import bytes_needed, weights
from tests.commands.test_mistakes import complaint
from tests.test_cli import OWN_TASK, hrnn
from tests.tiny import TINY, write_text

SECTIONS = ("task", "model", "learning", "budget", "upkeep")
TASKS = (Copy(), Needle(), Pixels(), Text(data=(Path("book.txt"),), vocabulary="ab"))
HUGE = (2**63, -(2**63), 2**70, 10**5000)
WRONG = {  # by kind of option, what a file or a Python program may hold
    int: (True, "5", 1.5, [1], {}, math.nan, *HUGE),
    float: (True, "5", [1.0], {}, math.nan, math.inf, -math.inf, *HUGE),
    bool: (1, "yes", None),
    str: (5, None, ["a"]),
    Path: (5, "a\0b", "x" * 300, "y/" * 3000),
}


def options():
    """Every option of every section: its section, its field and hostile values of it."""
    for task in TASKS:
        for section in SECTIONS if task is TASKS[0] else ("task",):
            owner = getattr(Config(task), section)
            for field in dataclasses.fields(owner):
                yield task, section, field.name, list(hostile(typing.get_type_hints(type(owner))[field.name]))


def hostile(hint):
    arguments = [one for one in typing.get_args(hint) if one is not type(None)]
    if typing.get_origin(hint) is Literal:
        yield from ("xxx", 5, None, ["a"])
    elif typing.get_origin(hint) is tuple:
        yield from (5, "ab", {}, *([value] for value in hostile(arguments[0])))
    elif arguments:  # or None
        yield from (value for value in hostile(arguments[0]) if value is not None)
    else:
        yield from WRONG[hint]


def with_option(config, section, field, value):
    return replace(config, **{section: replace(getattr(config, section), **{field: value})})


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_every_option_refuses_every_wrong_type_in_python_and_in_a_file(task):
    base = Config(task, Model(hidden_sizes=(4, 4), periods=() if isinstance(task, Text) else (3,), window=5, betas=(0.1,)))
    base = replace(base, budget=Budget(updates=1))
    entries = to_json(base)
    assert from_json(entries) == base
    tried = 0
    for of, section, field, values in options():
        for value in values if of is task else ():
            with pytest.raises(UserError) as refused:
                settled(with_option(base, section, field, value))
            assert name_of(field) in str(refused.value), (field, refused.value)
            with pytest.raises(UserError) as refused:
                from_json({**entries, section: {**entries[section], field: value}})
            assert name_of(field) in str(refused.value)
            assert len(str(refused.value)) < 600
            tried += 1
    assert tried > 15


@pytest.mark.parametrize(
    ("section", "field", "values"),
    [
        ("learning", "warmup", (-5,)),
        ("learning", "weight_decay", (-1.0,)),
        ("learning", "momentum", (-1.0, 1.0)),
        ("learning", "clip", (0, -1.0)),
        ("learning", "learning_rate", (0, -1e-3)),
        ("learning", "batch", (0, -5)),
        ("model", "hidden_sizes", ((0, 8), (8,) * 65)),
        ("model", "betas", ((-0.1,),)),
        ("model", "decoder_layers", (0, 100_000)),
        ("model", "window", (0, -5)),
        ("model", "cell", ("lstn", "")),
        ("budget", "epochs", (0, -1.0)),
        ("upkeep", "threads", (0, 100_000)),
        ("upkeep", "checkpoint_seconds", (-1.0,)),
        ("upkeep", "checkpoints", (0,)),
        ("upkeep", "frozen_every", (-1,)),
        ("task", "solved", (0, -1.0)),
        ("task", "length", (0,)),
        ("task", "step", (0,)),
    ],
)
def test_ranges(section, field, values):
    base = settled(Config(Copy(), budget=Budget(updates=1)))
    for value in values:
        with pytest.raises(UserError, match=name_of(field)):
            settled(with_option(base, section, field, value))
        entries = to_json(with_option(base, section, field, value))
        with pytest.raises(UserError, match=f"does not describe a run.*{name_of(field)}"):
            from_json(json.loads(json.dumps(entries)))


def test_a_file_that_is_no_configuration():
    entries = to_json(settled(Config(Copy(), budget=Budget(updates=1))))
    damaged = [5, None, [], {}, {**entries, "task": 5}, {**entries, "task": {"name": 5}}, {**entries, "model": [1]}]
    damaged += [{**entries, "upkeep": {**entries["upkeep"], "sed": 1}}, {**entries, "more": {}}]
    damaged += [{**entries, "model": {**entries["model"], name: None}} for name in ("window", "hidden_sizes", "betas")]
    damaged += [{**entries, "learning": {**entries["learning"], "update": "segment"}}]  # without --update-every
    for one in damaged:
        with pytest.raises(UserError):
            from_json(one)


def test_lists_and_texts_do_where_tuples_and_paths_are_meant(tmp_path):
    text = write_text(tmp_path / "a.txt")
    config = settled(Config(Text(data=[str(text)], boundaries=["word"]), Model(hidden_sizes=[4, 4]), Learning(learning_rate=1)))
    assert config.task.data == (text,)
    assert config.hidden_sizes == (4, 4)


HOSTILE = [
    ("train copy --warmup -5", "--warmup"),
    ("train copy --betas nan", "--betas"),
    ("train copy --seed 18446744073709551616", "--seed"),
    ("train copy --solved nan", "--solved"),
    ("train copy --minutes inf", "--minutes"),
    ("train copy --timeout inf", "--timeout"),
    ("train copy --run " + "x" * 300, "--run"),
    ("train copy --run file/run", "file is not a folder; give another --run"),
    ("train copy --batch " + "9" * 5000, "--batch"),
    ("train copy --model " + "z" * 5000, "--model"),
    ("train copy --hidden-sizes 8 x", "--hidden-sizes"),
    ("train copy --lenght 5", "perhaps you meant --length"),
    ("train copy --length 1000000000", "needs about 3.2 TB"),
    ("train copy --hidden-sizes 1000000 1000000", "smaller --hidden-sizes"),
    ("train needle --steps 1000000000000", "needs about"),
    ("train text --data file --boundaries a{99999999999999}", "--boundaries"),
    ("resume nowhere --epochs inf", "--epochs"),
    ("evaluate nowhere --length 0", "--length"),
    ("sample nowhere --temperature nan", "--temperature"),
    ("sample nowhere --temperature 1e-300", "--temperature"),
    ("sample nowhere --length 1000000000000", "--length"),
    ("memory --budget " + "9" * 400, "--budget"),
    ("memory --window 1000000000000000", "--window"),
    ("memory --hidden-sizes 100000 100000 --window 1000000 --measure", "measuring needs about 40 TB"),
    ("reproduce copy --scale inf", "--scale"),
    ("reproduce copy --seeds -1", "--seeds"),
    ("sweep copy --over learning-rate=nan", "--learning-rate"),
    ("sweep copy --over seed=" + ",".join(map(str, range(2000))), "2,000 values"),
    ("demo --updates 0", "--updates"),
    ("z" * 5000, "no command"),
]


def test_the_command_line_refuses_in_one_line_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("some text")
    for line, expected in HOSTILE:
        sentence = complaint(capsys, *line.split())
        assert expected in sentence, sentence
        assert len(sentence) < 500
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_grids_and_names_that_are_too_large():
    from hrnn.launching.grid import Axis, options_of, points

    base, known = Config(Copy(), budget=Budget(updates=1)), options_of(Copy)
    many = [Axis(name, known[name], range(1, 300)) for name in ("seed", "batch", "warmup")]
    with pytest.raises(UserError, match="the grid has 26,730,899 runs"):
        points(base, many)
    names = ("batch", "window", "updates", "warmup", "threads", "checkpoints", "sequences")
    long = [Axis(name, known[name], [2**62 + number for number in (1, 2)][:1]) for name in names]
    with pytest.raises(UserError, match="too long for a folder"):
        points(
            base, [*long, *(Axis(name, known[name], [2**62]) for name in ("decoder-units", "journal-every", "test-sequences"))]
        )


def test_a_count_of_weights_is_that_of_the_network():
    for config in (
        Config(Copy(), Model(hidden_sizes=(6, 7, 8), periods=(3, 2), cell="gru", decoder_layers=3, decoder_units=5)),
        Config(Needle(), Model(model="lstm", hidden_sizes=(9,))),
        Config(Pixels(), Model(hidden_sizes=(4, 4), periods=(5,), cell="rnn", decoder_layers=1)),
    ):
        config = settled(replace(config, budget=Budget(updates=1)))
        there = sum(parameter.numel() for parameter in build(config).parameters())
        assert weights(config) <= there <= weights(config) + sum(config.hidden_sizes)  # a GRU's second bias is left out
        assert bytes_needed(config)["weights"] > bytes_needed(config, learning=False)["weights"] == 4 * weights(config)


def test_bytes_in_words():
    assert [in_words(n) for n in (5, 3200, 25_300_000_000, 3.2e12, 10**40)] == [
        "5 bytes",
        "3.2 kB",
        "25.3 GB",
        "3.2 TB",
        "1e+22 EB",
    ]
    assert 1e8 < memory_of_machine() < 1e15


def test_a_run_that_diverges_at_once_has_the_checkpoint_that_it_speaks_of(capsys, tmp_path):
    options = ("--length", 2, "--updates", 5, "--learning-rate", 1e38, "--run", tmp_path / "run")
    code, _, err = hrnn(capsys, "train", "copy", *TINY, *options)
    assert code == 1
    assert f"at update 2; the last good checkpoint is in {tmp_path / 'run'}. Try a lower --learning-rate" in err
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors")] == ["update-000000000.safetensors"]


def test_a_users_mistake_while_running_is_shown_with_its_line(capsys, tmp_path, monkeypatch):
    broken = OWN_TASK.replace(
        "        values = cross_entropy(logits, target)\n", "        values = cross_entropy(logits, 5 / 0)\n"
    )
    (tmp_path / "broken_task_of_mine.py").write_text(broken)
    monkeypatch.chdir(tmp_path)
    code, _, err = hrnn(capsys, "train", "--task", "broken_task_of_mine:Parity", *TINY, "--periods", 3, "--updates", 1)
    assert code == 1
    assert "broken_task_of_mine.py, line 17, in loss: ZeroDivisionError" in err.splitlines()[-1]
    assert "Traceback" not in err


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


@pytest.mark.parametrize("command", ["memory 2>&- >&-", "memory | true"])
def test_output_that_nobody_reads(command):
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shlex.quote(sys.executable)} -m hrnn {command}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
