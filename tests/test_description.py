"""Files of models and States that are damaged, or were made to do harm: one sentence that names the file, nothing else."""

from __future__ import annotations

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import hrnn
from hrnn.errors import UserError


@pytest.fixture
def model():
    torch.manual_seed(0)
    return hrnn.HRNN(hrnn.Tokens(4), [3, 2], [2], decoder_units=3)


def rewritten(path, tensors=None, config=None, text=None):
    """The file with other tensors (None: without it) or other entries of its configuration (..., without it)."""
    with safe_open(str(path), framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        metadata = file.metadata() or {}
    found = {name: t for name, t in {**found, **(tensors or {})}.items() if t is not None}
    entries = {name: v for name, v in {**json.loads(metadata["hrnn"]), **(config or {})}.items() if v is not ...}
    save_file(found, str(path), {**metadata, "hrnn": text or json.dumps(entries)})
    return path


MODELS = {
    "more units than numbers": ({"config": {"hidden_sizes": [10**9, 10**9]}}, "need"),
    "a reach of terabytes": ({"config": {"periods": [{"given": 10**12}]}}, "numbers"),
    "a million layers": ({"config": {"decoder_layers": [10**6]}}, "decoder_layers"),
    "tokens of terabytes": ({"config": {"inputs": {"tokens": 10**13}}}, "need"),
    "another kind of inputs": ({"config": {"inputs": "x"}}, "inputs"),
    "sizes that are no list": ({"config": {"hidden_sizes": 3}}, "hidden_sizes"),
    "sizes that are text": ({"config": {"hidden_sizes": ["a", "b"]}}, "hidden_sizes"),
    "periods without a number": ({"config": {"periods": [{}]}}, "given"),
    "an unknown cell": ({"config": {"cell": ["lstm", "transformer"]}}, "cell is 'transformer'"),
    "a flag that is none": ({"config": {"batch_first": "yes"}}, "batch_first"),
    "an entry too many": ({"config": {"more": 1}}, "has 'more'"),
    "an entry too few": ({"config": {"cell": ...}}, "lacks 'cell'"),
    "a later format": ({"config": {"format": 99}}, "knows formats up to 5; use a newer"),
    "a format that is none": ({"config": {"format": "x"}}, "has format x, which is no number"),
    "metadata that are a list": ({"text": "[1]"}, "not a JSON object"),
    "metadata that are no JSON": ({"text": "{"}, "not a JSON object"),
    "metadata without a bottom": ({"text": "[" * 100_000}, "not a JSON object"),
    "a tensor too few": ({"tensors": {"cells.0.bias": None}}, "'cells.0.bias' is missing"),
    "a tensor too many": ({"tensors": {"more": torch.zeros(2)}}, "'more' is not expected"),
    "a tensor of another shape": (
        {"tensors": {"cells.0.bias": torch.zeros(12, 1)}},
        r"'cells.0.bias' is torch.float32 of shape",
    ),
    "a tensor of whole numbers": ({"tensors": {"cells.0.bias": torch.zeros(12, dtype=torch.int64)}}, "expected torch.float32"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_cannot_be(name, model, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    changes, words = MODELS[name]
    with pytest.raises(ValueError, match=words) as caught:
        hrnn.HRNN.load(rewritten(path, **changes))
    assert type(caught.value) in (ValueError, UserError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_floating_tensor_at_all(model, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    with safe_open(str(path), framework="pt") as file:
        whole = {name: file.get_tensor(name).long() for name in file.keys()}  # noqa: SIM118 (not a dict)
    with pytest.raises(ValueError, match=r"expected torch\.float32"):
        hrnn.HRNN.load(rewritten(path, tensors=whole))


STATES = {
    "a clock that runs backward": ({"position": torch.full((3, 1), -1)}, "counts to -1"),
    "a clock near its end": ({"ordinal": torch.full((3, 1), 2**63 - 1)}, "counts to"),
    "a clock of floats": ({"span": torch.zeros(3, 1)}, "int64"),
    "a clock of other rows": ({"span": torch.zeros(2, 1, dtype=torch.int64)}, "clock"),
    "rows below 0": ({"row": torch.tensor([0, 1, -2])}, "counts to -2"),
    "other rows": ({"row": torch.arange(2)}, "2 row numbers and cells"),
    "a hidden state of whole numbers": ({"cells.0.0": torch.zeros(3, 3, dtype=torch.int64)}, "floating-point"),
    "a level too few": ({"cells.1.0": None, "cells.1.1": None}, "clock"),
    "a history of other rows": ({"history.0": torch.zeros(2, 9, dtype=torch.int64)}, "history"),
    "a tensor too many": ({"more": torch.zeros(1)}, "has 'more'"),
    "no rows": ({"row": None}, "no 'row'"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_cannot_be(name, model, tmp_path):
    path, (changes, words) = tmp_path / "state", STATES[name]
    model(torch.randint(4, (5, 3)))[1].save(path)
    with pytest.raises(ValueError, match=words) as caught:
        hrnn.State.load(rewritten(path, changes))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("way", ["forward", "restricted", "full"])
def test_a_state_with_tokens_that_the_model_has_not(way, model, tmp_path):
    """In order by itself: only the model knows that its decoder would read beyond its table."""
    path, x = tmp_path / "state", torch.randint(4, (5, 3))
    model(x)[1].save(path)
    found = hrnn.State.load(rewritten(path, {"history.0": torch.full((2, 3), 4)}))
    loss = {"loss": lambda o, t: (o - t).square().mean(-1), "betas": [1.0]}
    call = {
        "forward": lambda: model(x, found),
        "restricted": lambda: hrnn.Restricted().backward(model, x, torch.zeros(5, 3, 3), state=found, **loss),
        "full": lambda: hrnn.Full().backward(model, x, torch.zeros(5, 3, 3), state=found, **loss),
    }[way]
    with pytest.raises(ValueError, match=r"state remembers the token 4, the model has Tokens\(4\)"):
        call()


@pytest.mark.parametrize("kind", [hrnn.HRNN, hrnn.State])
def test_what_is_no_such_file(kind, model, tmp_path):
    path = tmp_path / "file"
    (model if kind is hrnn.HRNN else model.initial_state(3)).save(path)
    content = path.read_bytes()
    for spoiled in (content[:-5], content[:20], b"", b"x" * 100, (2**63).to_bytes(8, "little") + content[8:], content + b"x"):
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match="file is damaged, or not a safetensors file"):
            kind.load(path)
    huge = content.replace(b'"data_offsets":[0,', b'"data_offsets":[9,', 1)
    path.write_bytes(huge)
    with pytest.raises(ValueError, match="damaged"):
        kind.load(path)
    with pytest.raises(ValueError, match="is not a file"):
        kind.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a file"):
        kind.load(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        kind.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="path is 5"):
        kind.load(5)
    with pytest.raises(ValueError, match="device is 'abc'"):
        kind.load(path, device="abc")


def test_a_failed_save_leaves_what_was_there(model, tmp_path, monkeypatch):
    path = tmp_path / "model"
    model.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    with pytest.raises(ValueError, match="path is"):
        model.save(tmp_path / "no" / "folder")
