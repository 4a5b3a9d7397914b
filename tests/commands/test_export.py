"""hrnn export, on a run that was trained."""

import errno
import json

import numpy
import pytest
import torch

import hrnn as library
from hrnn.export import Step
from hrnn.export.checking import largest_difference
from hrnn.export.files import _in_onnxruntime
from tests.commands.console import complaint, hrnn
from tests.export.drift import drift
from tests.tiny import TINY

WITHOUT = 'ONNX is not installed: pip install "hrnn[onnx]"'


@pytest.fixture
def onnx():
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=WITHOUT)


def test_a_run_on_text_as_onnx_has_averaged_weights_head_and_vocabulary(onnx, text_run, capsys):
    code, out, _ = hrnn(capsys, "export", text_run, "--json")
    entries = json.loads(out)
    assert (code, entries["file"]) == (0, str(text_run / "export" / "step.onnx"))
    trained = library.load(text_run)
    assert entries["vocabulary"] == trained.config.task.vocabulary
    assert entries["update"] == trained.update
    assert entries["text_boundaries"]["patterns"] == [r"[ \n]"]
    assert entries["inputs"]["x"]["meaning"] == f"0 to {trained.network.levels.input_size - 1}; others are not checked"
    run = _in_onnxruntime((text_run / "export" / "step.onnx").read_bytes())
    levels, head = trained.network.levels, trained.network.head
    assert drift(run, Step(levels, head), levels, steps=50) < 1e-4


def test_the_other_formats(text_run, capsys, tmp_path):
    code, out, _ = hrnn(capsys, "export", text_run, "--format", "torch-export", "--dtype", "float64")
    assert code == 0
    assert "step.pt2: one step, torch.export, update 60; within " in out
    new = ("--window", 3, "--output", tmp_path / "new" / "w.pt2")
    assert hrnn(capsys, "export", text_run, "--format", "torch-export", *new)[0] == 0
    assert (tmp_path / "new" / "w.pt2.json").exists()
    assert "safetensors" in complaint(capsys, "export", text_run, "--format", "safetensors")


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-4), ("float64", 1e-9)])
def test_a_trained_run_over_ten_thousand_steps(onnx, dtype, most, tmp_path, capsys):
    options = "copy --hidden-sizes 32 32 --periods 5 --window 30 --start 5 --step 5 --until 5 --batch 50 --updates 600"
    assert hrnn(capsys, "train", *options.split(), "--run", tmp_path / "run", "--no-tensorboard")[0] == 0
    assert hrnn(capsys, "export", tmp_path / "run", "--dtype", dtype)[0] == 0
    network = library.load(tmp_path / "run").network.to(getattr(torch, dtype))
    step = Step(network.levels, network.head)
    run = _in_onnxruntime((tmp_path / "run" / "export" / "step.onnx").read_bytes())
    # Sequences of the task one after the other, states carried; a row starts over where its own begin. On anything else this
    # model amplifies rounding until its own forward pass and its own step have nothing in common: then only single steps tell.
    bits = torch.randint(2, (1_000, 5, 4), generator=torch.Generator().manual_seed(0))
    x = torch.cat([bits, torch.full_like(bits, 2)], 1).reshape(10_000, 4)
    x = torch.stack([x[:, r].roll(3 * r + 1 if r else 0) for r in range(4)], 1)
    assert drift(run, step, network.levels, steps=10_000, x=x) < most
    assert largest_difference(run, step, network.levels, torch.empty(0), steps=10_000) < most
    state = numpy.zeros((1, sum(step.sizes)), dtype)
    assert run(torch.zeros(1, dtype=torch.int64), torch.from_numpy(state), None)[1].dtype == getattr(torch, dtype)


def test_mistakes(text_run, tmp_path, capsys):
    assert "--window is for --format torch-export and --format is onnx" in complaint(capsys, "export", text_run, "--window", 3)
    assert "give the name of a file that ends in .onnx" in complaint(capsys, "export", text_run, "--output", tmp_path / "x.bin")
    assert "is not a folder" in complaint(capsys, "export", text_run, "--output", tmp_path / "text.txt" / "step.onnx")
    assert "holds no run" in complaint(capsys, "export", tmp_path / "nothing")
    assert not (text_run / "export").exists()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(text_run, capsys, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    said = complaint(capsys, "export", text_run, "--format", "torch-export")
    assert "export/" in said
    assert "No space left on device" in said
    assert not [path for path in (text_run / "export").iterdir() if not path.name.startswith(".")]
    assert not list((text_run / "export").glob(".*"))


def test_a_run_with_a_cell_of_its_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_export_cells.py").write_text("from tests.user_cells import MinimalGRU\n")
    cell = ("--cell", "my_export_cells:MinimalGRU")
    options = ("--updates", 2, "--until", 2, "--window", 5, "--periods", 3, "--run", tmp_path / "run")
    assert hrnn(capsys, "train", "copy", *TINY, *options, *cell)[0] == 0
    assert "names code of its own" in complaint(capsys, "export", tmp_path / "run", "--format", "torch-export")
    said = complaint(capsys, "export", tmp_path / "run", "--format", "torch-export", *cell)
    assert "level 0 has a cell of your own, MinimalGRU" in said
