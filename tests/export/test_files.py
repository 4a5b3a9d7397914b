"""Exported files compute what the model computes, in onnxruntime and in torch, and say how they are used."""

import json

import numpy
import pytest
import torch
from torch import nn

import hrnn
from hrnn.export import Step, Window, metadata, to_onnx, to_torch_export
from hrnn.export.files import _in_onnxruntime
from tests.export.cases import CELLS, MIXED, OWN, PAPER, PERIODS, made
from tests.export.drift import drift
from tests.user_cells import TanhReader

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
WITHOUT = 'ONNX is not installed: pip install "hrnn[onnx]"'


@pytest.fixture
def onnxruntime():
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package, reason=WITHOUT)
    return pytest.importorskip("onnxruntime", reason=WITHOUT)


def compared(path, model, head, steps):
    return drift(_in_onnxruntime(path.read_bytes()), Step(model, head), model, steps)


@pytest.mark.parametrize(
    ("cell", "levels", "kind", "dtype", "tokens", "edges"),
    [
        (["gru", "rnn", "lstm"], 3, "given above", torch.float64, True, MIXED),
        (["lstm", "gru"], 2, "fixed", torch.float32, False, OWN),
        ("rnn", 1, "fixed", torch.float32, False, PAPER),
    ],
)
def test_onnxruntime_equals_the_model(onnxruntime, cell, levels, kind, dtype, tokens, edges, tmp_path):
    model, head = made(cell, levels, kind, dtype, tokens, **edges)
    entries = to_onnx(model, tmp_path / "step.onnx", head=head, before=nn.Identity())  # which needs no example
    assert entries["checked"]["largest_difference"] < TOLERANCE[dtype]
    assert compared(tmp_path / "step.onnx", model, head, 200) < TOLERANCE[dtype]


FIXED_OR_GIVEN = [
    (cell, levels, kind, PAPER) for cell in CELLS for levels in (1, 2, 3, 4) for kind in ("fixed", "given")[:levels]
]
BOTH = [(CELLS, 3, kind, MIXED) for kind in PERIODS if " " in kind]


@pytest.mark.long
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("cell", "levels", "kind", "edges"), FIXED_OR_GIVEN + BOTH)
def test_over_ten_thousand_steps(onnxruntime, cell, levels, kind, edges, dtype, tmp_path):
    model, head = made(cell, levels, kind, dtype, decoders=False, **edges)
    to_onnx(model, tmp_path / "step.onnx", head=head, check=False)
    assert compared(tmp_path / "step.onnx", model, head, 10_000) < TOLERANCE[dtype]


def test_what_is_written_beside_an_onnx_file_is_what_it_takes(onnxruntime, tmp_path):
    model, head = made("lstm", 3, "given below", torch.float32)
    path = tmp_path / "step.onnx"
    entries = to_onnx(model, path, head=head, facts={"run": "abc"})
    assert json.loads((tmp_path / "step.onnx.json").read_text()) == entries
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inside = json.loads(session.get_modelmeta().custom_metadata_map["hrnn"])
    assert inside == {name: value for name, value in entries.items() if name != "checked"}
    kinds = {"float32": "tensor(float)", "bool": "tensor(bool)", "int64": "tensor(int64)"}
    for found, said in ((session.get_inputs(), entries["inputs"]), (session.get_outputs(), entries["outputs"])):
        assert {i.name: (i.shape, i.type) for i in found} == {n: (e["shape"], kinds[e["dtype"]]) for n, e in said.items()}
    assert (entries["periods"], entries["cell"], entries["run"]) == ([{"given": 4}, 2], ["lstm"] * 3, "abc")
    assert str(tmp_path.cwd()).encode() not in path.read_bytes()  # the exporter would write where the source was


def test_preprocessing_comes_before_and_the_head_after(onnxruntime, tmp_path):
    class Scaled(nn.Module):
        """Five raw columns, of which the model reads three, standardised."""

        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            return (x[:, :3].float() - self.mean) / 2

    model, head = made("gru", 2, "fixed", torch.float32)
    head = nn.Sequential(head, nn.Dropout(0.9), nn.Softmax(-1))
    raw = torch.randint(9, (6, 5))
    entries = to_onnx(model, tmp_path / "step.onnx", head=head, before=Scaled(), example=raw)
    assert entries["inputs"]["x"] == {"dtype": "int64", "shape": ["batch", 5]}
    session = onnxruntime.InferenceSession(tmp_path / "step.onnx", providers=["CPUExecutionProvider"])
    state = numpy.zeros((1, entries["state"]["size"]), numpy.float32)
    output, _ = session.run(None, {"x": raw[:1].numpy(), "state": state})
    expected = head.eval()(model.step(Scaled()(raw[:1]))[0])
    assert numpy.abs(output - expected.detach().numpy()).max() < 1e-6


@pytest.mark.parametrize(("kind", "edges"), [("fixed", OWN), ("given", PAPER)])
def test_torch_export_of_a_step_and_of_a_window(kind, edges, tmp_path):
    model, head = made(["lstm", "gru"], 2, kind, **edges)
    entries = to_torch_export(model, tmp_path / "step.pt2", head=head)
    assert entries["checked"]["largest_difference"] < 1e-12
    window = to_torch_export(model, tmp_path / "window.pt2", head=head, steps=6)
    run = torch.export.load(tmp_path / "window.pt2").module()
    x = torch.randn(6, 5, 3, dtype=torch.float64)
    flags = [] if kind == "fixed" else [torch.rand(6, 5) < 0.4]
    output, state = run(x, *flags)
    expected, after = model(x, boundaries=flags[0] if flags else None)
    assert torch.allclose(output, head(expected), atol=1e-12)
    assert torch.allclose(state, Step(model).flat(after), atol=1e-12)
    assert window["inputs"]["x"]["shape"] == [6, "batch", 3]
    assert window["outputs"]["output"]["shape"] == [6, "batch", 2]
    go_on = torch.export.load(tmp_path / "step.pt2").module()
    more, flag = torch.randn(5, 3, dtype=torch.float64), [f[0] for f in flags]
    output, _ = go_on(more, state, *flag)
    assert torch.allclose(output, head(model.step(more, after, boundaries=flag[0] if flag else None)[0]), atol=1e-12)


def test_what_a_state_and_a_call_cost_is_said():
    edges = {"reads": "inputs", "reader": "maximum", "context": "state", "burn_in": 2, "output": "all"}
    model = hrnn.HRNN(3, [5, 4], [3], decoders=False, **edges)
    step, x = Step(model), torch.zeros(2, 3)
    entries = metadata.of_model(model, "one step") | metadata.of_step(step, x, None, [x, step.initial_state(2)], None)
    low, context, high, reader = 4 * 5 * (3 + 5), 2 * 5 * 4, 4 * 4 * (4 + 4), 2 * 9 + 3 * 2 * 3
    assert entries["state"]["bytes"] == 4 * (2 * 5 + 2 * 4 + 1 + 3 * 3 + 2 * 3)
    assert entries["cost"]["multiplications"] == 3 * low + context + high + reader
    assert entries["cost"]["bytes_of_weights"] == 4 * sum(p.numel() for p in model.parameters())
    window = metadata.of_step(Window(step, 4), x, None, [torch.zeros(4, 2, 3)], 4)  # in which two segments begin
    assert window["cost"]["multiplications"] == (4 + 2 * 2) * low + 2 * (context + high + reader)
    assert entries["edges"] == edges | {"reads": ["inputs"], "reader": ["maximum"], "context": ["state"]}


class Branching(TanhReader):
    def forward(self, places):
        return super().forward(places) if places.sum() > 0 else super().forward(-places)


def test_a_reader_that_torch_does_not_export_is_named(tmp_path, capfd):
    model = hrnn.HRNN(3, [4, 4], [2], reads="inputs", reader=Branching)
    with pytest.raises(
        ValueError, match=r"level 1 has a reader of your own, Branching, that .*; write it in torch's operations"
    ):
        to_torch_export(model, tmp_path / "step.pt2")
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"path": "step.bin"}, "path is 'step.bin'; give the name of a file in an existing folder, ending in .onnx"),
        ({"path": "nowhere/step.onnx"}, "ending in .onnx"),
        ({"before": nn.Flatten()}, r"example is None, and before says nothing of what it reads; give some inputs"),
        ({"before": nn.Flatten(), "example": torch.tensor(1.0)}, "give a tensor of inputs"),
    ],
)
def test_bad_arguments(onnxruntime, change, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = {"model": hrnn.HRNN(2, [3]), "path": "step.onnx", "check": False} | change
    with pytest.raises(ValueError, match=sentence):
        to_onnx(**arguments)
    assert not list(tmp_path.iterdir())


def test_a_model_that_amplifies_every_rounding_is_exported_all_the_same(tmp_path):
    torch.manual_seed(0)
    model, head = hrnn.HRNN(3, [32], cell="rnn"), nn.Linear(32, 2)
    with torch.no_grad():
        model.cells[0].weight_hidden.mul_(6)
        model.cells[0].weight_input.mul_(0.5)
    assert to_torch_export(model, tmp_path / "step.pt2", head=head)["checked"]["largest_difference"] < 1e-4
    step, double = Step(model, head), Step(model.double(), head.double())

    def rounded(x, state, boundaries):
        output, state = step(x.float(), state.float())
        return output.double(), state.double()

    assert drift(rounded, double, model, 200) > 1e-2  # carried along, rounding is all that is left of it


def test_a_model_that_is_no_longer_finite_is_not_written(tmp_path):
    model, head = made("lstm", 2, "fixed")
    with torch.no_grad():
        model.cells[0].bias.fill_(float("nan"))
    with pytest.raises(ValueError, match="the exported step differs from the model by nan"):
        to_torch_export(model, tmp_path / "step.pt2", head=head)
    assert not list(tmp_path.iterdir())
