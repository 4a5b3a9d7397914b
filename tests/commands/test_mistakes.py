"""Every mistake gets one sentence that says what to do, exit code 2 and no traceback, and nothing is lost."""

import gzip
import json
import re
import shutil
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from hrnn.tasks import Needle
from hrnn.training.checkpoint import read
from tests.commands.console import OWN_TASK, complaint, hrnn
from tests.tiny import TINY, idx_bytes, write_mnist, write_text


@dataclass(frozen=True)
class Endless(Needle):
    """A task that suggests nothing about validation."""

    suggested: ClassVar = {"updates": 1}


NEEDLE = ("needle", *TINY, "--steps", 8, "--periods", 3, "--test-sequences", 5, "--journal-every", 1, "--checkpoint-seconds", 0)


@pytest.fixture
def run(tmp_path, capsys):
    """A finished run of four updates, with a checkpoint of each of the last three."""
    assert hrnn(capsys, "train", *NEEDLE, "--updates", 4, "--run", tmp_path / "run")[0] == 0
    return tmp_path / "run"


def test_no_command_and_unknown_commands(capsys):
    assert hrnn(capsys)[0] == 2
    assert "no command 'tarin'; there are train, resume" in complaint(capsys, "tarin")
    assert "which task? There are copy, pixels, text, needle" in complaint(capsys, "train")
    assert "no task is called 'cpoy'" in complaint(capsys, "train", "cpoy")


def test_unknown_options_and_values(capsys, tmp_path):
    for wrong in (["--lenght", 5], ["--model", "hrrn"], ["--updates", "many"]):
        code, _, err = hrnn(capsys, "train", "copy", *wrong, "--run", tmp_path / "run")
        assert code == 2
        assert "Traceback" not in err
        assert str(wrong[0]) in err
    assert not (tmp_path / "run").exists()


def test_data_files_missing_truncated_or_of_other_dimensions(capsys, tmp_path):
    train = ("train", "pixels", *TINY, "--updates", 1, "--run", tmp_path / "run", "--data")
    assert "holds neither train-images" in complaint(capsys, *train, tmp_path / "nowhere")
    data = write_mnist(tmp_path / "mnist")
    weighted = complaint(capsys, *train, data, "--symbol-weights", "inverse")
    assert "--symbol-weights inverse is for symbols, and the inputs of this task are vectors; drop it" in weighted
    images = data / "t10k-images-idx3-ubyte.gz"  # the test set too is looked at before anything is trained
    images.write_bytes(images.read_bytes()[:1000])
    assert "t10k-images-idx3-ubyte.gz is truncated or damaged" in complaint(capsys, *train, data)
    images.write_bytes(gzip.compress(idx_bytes(np.zeros((60, 20, 20)))))
    assert "20 x 20; expected 28 x 28" in complaint(capsys, *train, data)
    assert "text.txt does not exist" in complaint(
        capsys, "train", "text", "--data", tmp_path / "text.txt", "--run", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()


def test_downloads_with_a_wrong_checksum(capsys, tmp_path):
    from tests.tasks.test_pixels import serve

    with serve(write_mnist(tmp_path / "mnist")) as mirror:
        options = ("--download", "--mirror", mirror, "--data", tmp_path / "new", "--run", tmp_path / "run")
        code, _, err = hrnn(capsys, "train", "pixels", *TINY, *options)
    assert code == 2
    assert err.endswith("has a wrong checksum; try another --mirror\n")  # after a line that says what is fetched
    assert not list((tmp_path / "new").glob("*ubyte*"))


def test_texts_that_are_empty_too_short_or_strange(capsys, tmp_path):
    text = tmp_path / "text.txt"
    train = ("train", "text", *TINY, "--window", 20, "--updates", 1, "--run", tmp_path / "run", "--data", text)
    text.write_text("")
    assert "text.txt is empty" in complaint(capsys, *train)
    text.write_text("too short a text")
    assert "fewer than one window of 20 for each of 10 rows; give a smaller --batch or --window" in complaint(capsys, *train)
    text.write_text("abc " * 500 + "é " * 100)
    assert "1 character(s) that the training text never had ('é')" in complaint(capsys, *train, "--no-unknown")
    text.write_bytes(b"\xff" * 1000)
    assert "is not UTF-8 (byte 0); use --symbols bytes" in complaint(capsys, *train)
    assert "--boundaries '(' is not a regular expression" in complaint(capsys, *train, "--boundaries", "(")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_a_run(capsys, run):
    before = (run / "journal.jsonl").read_bytes()
    again = ("train", *NEEDLE, "--updates", 2, "--run", run)
    assert f"{run} already holds a run; continue it with hrnn resume, or give --overwrite" in complaint(capsys, *again)
    assert (run / "journal.jsonl").read_bytes() == before
    (run / "notes.txt").write_text("mine")
    assert hrnn(capsys, *again, "--overwrite")[0] == 0
    assert json.loads((run / "result.json").read_text())["updates"] == 2
    assert (run / "notes.txt").read_text() == "mine"


def test_a_folder_that_holds_no_run(capsys, tmp_path):
    for command in ("resume", "evaluate", "sample", "plot"):
        assert "holds no run" in complaint(capsys, command, tmp_path)
    assert "is not a folder" in complaint(capsys, "runs", tmp_path / "nowhere")
    assert hrnn(capsys, "runs", tmp_path)[1].startswith("no run in")


def test_a_run_of_another_version(capsys, run):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "format": 9, "version": "9.0.0"}))
    for command in ("resume", "evaluate", "plot"):
        sentence = complaint(capsys, command, run)
        assert "was written by hrnn 9.0.0 in format 9 and this is" in sentence
        assert "pip install --upgrade hrnn" in sentence
    assert f"skipped {run}: " in hrnn(capsys, "runs", run.parent, "--json")[2]
    (run / "config.json").write_text("{ half a fi")
    assert "config.json cannot be read" in complaint(capsys, "resume", run)
    (run / "config.json").write_text(json.dumps({**config, "model": {"unknown": 1}}))
    assert "config.json was edited (model.betas is None and was [1.0]" in complaint(capsys, "resume", run)


@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty"])
def test_a_damaged_newest_checkpoint_is_passed_over(capsys, tmp_path, run, damage):
    assert hrnn(capsys, "train", *NEEDLE, "--updates", 6, "--run", tmp_path / "straight")[0] == 0
    newest = max((run / "checkpoints").glob("*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes({"truncated": bytes(content[:1000]), "one bit": bytes(content), "empty": b""}[damage])
    assert "give another --checkpoint" in complaint(capsys, "evaluate", run)
    code, _, err = hrnn(capsys, "resume", run, "--updates", 6)
    assert code == 0
    assert f"warning: {newest}" in err
    assert "continuing from update 3" in err
    first, second = (read(folder / "checkpoints" / "update-000000006.safetensors") for folder in (run, tmp_path / "straight"))
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


def test_no_checkpoint_that_can_be_read(capsys, run):
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"damaged")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    for _ in range(2):
        assert "no checkpoint of" in complaint(capsys, "resume", run, "--updates", 9)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"} == before
    shutil.rmtree(run / "checkpoints")
    assert "though the run has recorded updates; put back copies" in complaint(capsys, "resume", run, "--updates", 9)
    assert (run / "journal.jsonl").read_bytes() == before[run / "journal.jsonl"]
    assert (run / "result.json").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("copy", "--length", 5, "--start", 3), "give one or the other"),
        (("copy", "--epochs", 1), "--epochs is for tasks whose data end"),
        (("copy", "--stop-after", 2), "this one has none"),
        (("--task", "tests.commands.test_mistakes:Endless", "--stop-after", 2), "give --validate-every, too"),
        (("copy", "--model", "lstm", "--periods", 5), "--model lstm is one flat LSTM"),
        (("copy", "--model", "gr-hrnn", "--betas", 1), "gr-hrnn has no local loss"),
        (("copy", "--hidden-sizes", 8, 8, 8), "--hidden-sizes has 3 entries for 1 of --periods"),
        (("copy", "--momentum", 0.9), "--momentum is for sgd and rmsprop"),
        (("copy", "--cell", "lstn"), "cell is 'lstn'"),
        (("needle", "--within", 2), "--within is 2.0"),
        (("pixels", "--pool", 3), "--pool is 3; give 1, 2 or 4"),
        (("text",), "no text to train on"),
    ],
)
def test_options_that_contradict_each_other(capsys, tmp_path, options, expected):
    assert expected in complaint(capsys, "train", *options, "--run", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mr_hrnn_needs_fixed_periods(capsys, tmp_path):
    text = write_text(tmp_path / "text.txt")
    assert "mr-hrnn takes its window from fixed periods" in complaint(
        capsys, "train", "text", "--data", text, "--model", "mr-hrnn", "--run", tmp_path / "run"
    )


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("x = (", "cannot be loaded: SyntaxError"),
        ("import not_installed_anywhere", "cannot be loaded: ModuleNotFoundError"),
        ("raise RuntimeError('no')", "cannot be loaded: RuntimeError: no"),
        ("Other = 1", "cannot be loaded: AttributeError"),
        ("class Parity: pass", "is not a subclass of hrnn.tasks.Task"),
        (OWN_TASK.replace("def batch", "def butch"), "does not say batch"),
        (OWN_TASK.replace("@dataclass(frozen=True)", ""), "is not a dataclass"),
        (OWN_TASK.replace("    metrics =", "    metric ="), "says metric; write metrics"),
        (OWN_TASK.replace('Metric("accuracy", higher_is_better=True)', '"accuracy"'), "the task's metrics are ('accuracy',)"),
    ],
)
def test_a_users_task_that_cannot_be_read(capsys, tmp_path, monkeypatch, module, expected):
    monkeypatch.chdir(tmp_path)
    name = f"mistaken_{abs(hash(module))}"
    (tmp_path / f"{name}.py").write_text(module)
    assert expected in complaint(capsys, "train", "--task", f"{name}:Parity", *TINY, "--updates", 1)
    assert not (tmp_path / "runs").exists()


def test_a_score_that_the_task_does_not_report(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "misnamed_score.py").write_text(OWN_TASK.replace('Metric("accuracy"', 'Metric("acuracy"'))
    options = ("--task", "misnamed_score:Parity", *TINY, "--updates", 1, "--validate-every", 1)
    code, _, err = hrnn(capsys, "train", *options)
    assert code == 2
    assert err.splitlines()[-1] == "hrnn: the task's score is acuracy, and it reports loss, accuracy; name one of these"


def test_a_users_task_by_a_wrong_name(capsys):
    assert "should read module:Name" in complaint(capsys, "train", "--task", ":Parity")
    assert "cannot be loaded: ModuleNotFoundError" in complaint(capsys, "train", "--task", "nowhere:Parity")
    assert "--task needs a name" in complaint(capsys, "train", "--task")


def test_a_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file is not a folder; give another --run" in complaint(capsys, "train", *NEEDLE, "--run", tmp_path / "file" / "run")


def test_what_only_some_runs_can_do(capsys, run):
    assert "only runs on text can be sampled" in complaint(capsys, "sample", run)
    assert "makes its own data" in complaint(capsys, "evaluate", run, "--data", run)
    assert "the sequences of this task have one length only" in complaint(capsys, "evaluate", run, "--length", 5)
    assert "give a name that ends with .png, .svg or .pdf" in complaint(capsys, "plot", run, "--output", run / "a.gif")


def test_prompts_that_cannot_be_continued(capsys, tmp_path):
    text = write_text(tmp_path / "text.txt")
    options = ("--data", text, "--window", 10, "--updates", 1, "--no-unknown", "--run", tmp_path / "run")
    assert hrnn(capsys, "train", "text", *TINY, *options)[0] == 0
    assert "the prompt holds 1 character(s) that the training text never had ('X')" in complaint(
        capsys, "sample", tmp_path / "run", "--prompt", "X"
    )
    assert "--prompt is empty" in complaint(capsys, "sample", tmp_path / "run", "--prompt", "")
    assert "--temperature is -1.0" in complaint(capsys, "sample", tmp_path / "run", "--temperature", -1)


def test_a_diverging_run_says_what_to_try(capsys, tmp_path):
    options = ("--updates", 50, "--learning-rate", 1e30, "--optimizer", "sgd", "--run", tmp_path / "run")
    code, _, err = hrnn(capsys, "train", *NEEDLE, *options)
    assert code == 1
    assert "Traceback" not in err
    assert "Try a lower --learning-rate, a lower --clip or --warmup 100" in err


def test_a_gradient_that_is_not_finite_ends_a_run_whose_last_checkpoint_is_good(capsys, tmp_path):
    options = ("--updates", 50, "--learning-rate", 1e30, "--optimizer", "sgd", "--clip", "None", "--checkpoint-seconds", 0)
    code, _, err = hrnn(capsys, "train", *NEEDLE, "--model", "ours", "--update", "segment", *options, "--run", tmp_path / "run")
    assert code == 1
    *rest, last = err.splitlines()
    assert re.match(r"hrnn: the gradient of level 0 is not finite at update \d+; the last good checkpoint is in ", last)
    assert not any(line.startswith("hrnn:") for line in rest)
    assert hrnn(capsys, "evaluate", tmp_path / "run", "--checkpoint", "last")[0] == 0


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
    assert "broken_task_of_mine.py, line 16, in loss: ZeroDivisionError" in err.splitlines()[-1]
    assert "Traceback" not in err
