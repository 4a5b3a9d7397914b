"""A short share of the campaign against the API, and what it and its like once found, one by one."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch

import hrnn
from campaigns import api, calls, scenes
from campaigns.defects import Limit
from hrnn import memory
from hrnn.parallel import Group, join
from tests.helpers import METHODS, squares, untouched

NAN = float("nan")


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def small(**options):
    torch.manual_seed(0)
    return hrnn.HRNN(2, [3, 2], [2], decoder_units=3, **options)


def window(**changes):
    torch.manual_seed(1)
    return {"x": torch.randn(5, 3, 2), "y": torch.randn(5, 3, 3), "loss": squares, "betas": [0.1]} | changes


def test_a_share_of_the_campaign(tmp_path):
    summary = api.run(0, Limit(cases=120), tmp_path)
    assert [f"{defect.what}: {defect.reproduction}" for defect in summary.defects] == []
    assert summary.calls == 120
    assert summary.counts["done"] > 20
    assert summary.counts["refused"] > 40


def test_the_campaign_sees_other_exceptions_changes_and_crashes(tmp_path, monkeypatch):
    """Calls that do what none should: each is found, named, and the rest go on."""

    def changes(model):
        next(iter(model.parameters())).data.add_(1)
        raise ValueError("model is changed")

    def dies(model):
        os.kill(os.getpid(), signal.SIGKILL)

    broken = {
        "key": "(lambda model: {}[model])",
        "silent": "(lambda model: int('x'))",
        "changes": "changes",
        "dies": "dies",
    }
    monkeypatch.setattr(
        api, "CALLS", {name: calls.Call(text, {"model": ["s.model"]}, ("model",), ("single",)) for name, text in broken.items()}
    )
    monkeypatch.setattr(api, "NAMES", {**scenes.NAMES, "changes": changes, "dies": dies})
    summary = api.run(0, Limit(cases=40), tmp_path)
    assert summary.calls == 40
    said = " ".join(defect.what for defect in summary.defects)
    for words in (
        "key: KeyError",
        "silent: ValueError that names no argument",
        "changes something",
        "dies: the process ends with -9",
    ):
        assert words in said


UPDATES = {
    "clip below 0": ({"clip": -1}, "clip is -1"),
    "clip of nan": ({"clip": [NAN, 1.0]}, "clip is nan"),
    "clip of 0": ({"clip": 0}, "clip is 0"),
    "every of 1.5": ({"every": 1.5}, "every is 1.5"),
    "every of bytes": ({"every": b"ab"}, "every is b'ab'"),
    "rows of 0": ({"rows": 0}, "rows is 0"),
    "rows of text": ({"rows": "many"}, "rows is 'many'"),
    "after that cannot be called": ({"after": 5}, "after is 5"),
    "another group": ({"group": None}, "group is None"),
    "a module for heads": ({"heads": torch.nn.Linear(2, 2)}, "heads is a Linear; give its parameters"),
    "a tensor for heads": ({"heads": torch.zeros(2, 2)}, "heads has"),
    "optimizers that are none": ({"optimizers": lambda p: None}, r"optimizers\[0\] returned None"),
    "optimizers of another model": (
        {"optimizers": [sgd(small().cells[level].parameters()) for level in range(2)]},
        r"optimizers\[0\] holds none of the parameters of level 0",
    ),
}


@pytest.mark.parametrize("name", UPDATES)
def test_wrong_updates_are_found_when_they_are_made(name):
    changes, words = UPDATES[name]
    model = small()
    with untouched(model), pytest.raises((ValueError, TypeError), match=words):
        hrnn.Updates(model, **({"optimizers": sgd} | changes))


def test_updates_of_another_model_are_refused_before_anything_moves():
    model, other = small(), small()
    for updates, words in (
        (hrnn.Updates(other, sgd), "updates was made for another model"),
        (hrnn.Updates(hrnn.HRNN(2, [3], []), sgd), "updates was made for another model"),
        (hrnn.Updates(model, sgd, rows=2), "rows of updates is 2 and the window has 3"),
        (5, "updates is 5; give an hrnn.Updates"),
        (sgd(model.parameters()), "updates is"),
    ):
        with untouched(model), untouched(other), pytest.raises((ValueError, TypeError), match=words):
            hrnn.Restricted().backward(model, **window(updates=updates))
    with untouched(model), pytest.raises(ValueError, match="local_weight is 0"):
        hrnn.Restricted().backward(model, **window(updates=hrnn.Updates(model, sgd), weight=0.1, local_weight=0))


BACKWARD = {
    "numpy": ({"x": np.zeros((5, 3, 2), np.float32)}, TypeError, r"x is a numpy array; give a tensor: torch.from_numpy\(x\)"),
    "weight of nan": ({"weight": NAN, "local_weight": 0.1}, ValueError, "weight is nan"),
    "weight below 0": ({"weight": -0.1, "local_weight": 0.1}, ValueError, "weight is -0.1"),
    "weight of 401 digits": ({"weight": 10**400, "local_weight": 0.1}, ValueError, "weight is 1000"),
    "local_weight of text": ({"weight": 0.1, "local_weight": "x"}, ValueError, "local_weight is 'x'"),
    "betas of 401 digits": ({"betas": [10**400]}, ValueError, r"betas is \[1000"),
    "betas of bytes": ({"betas": b"a"}, TypeError, "betas is b'a'"),
    "lengths of text": ({"lengths": ["a", 1, 2]}, ValueError, r"lengths\[0\] is 'a'"),
    "lengths of 31 digits": ({"lengths": [10**30, 1, 2]}, ValueError, r"lengths\[0\] is 1000"),
    "lengths on meta": ({"lengths": torch.empty(3, dtype=torch.int64, device="meta")}, ValueError, "lengths is on meta"),
    "sparse x": ({"x": torch.zeros(5, 3, 2).to_sparse()}, ValueError, "x is torch.sparse_coo"),
    "sparse mask": ({"mask": torch.ones(5, 3, dtype=torch.bool).to_sparse()}, ValueError, "mask is torch.sparse_coo"),
    "y on meta": ({"y": torch.empty(5, 3, 3, device="meta")}, ValueError, "y is on meta"),
    "a metric of None": ({"loss": lambda o, t: (squares(o, t), {"a": None})}, TypeError, "metric 'a' as None"),
    "a generator that is none": ({"generator": 5}, TypeError, "generator is 5"),
    "on_segment that cannot be called": ({"on_segment": 5}, TypeError, "on_segment is 5"),
}


@pytest.mark.parametrize("way", METHODS)
@pytest.mark.parametrize("name", BACKWARD)
def test_wrong_arguments(name, way):
    changes, error, words = BACKWARD[name]
    model = small()
    with untouched(model), pytest.raises(error, match=words):
        METHODS[way]().backward(model, **window(**changes))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int32, torch.uint64])
def test_tokens_may_be_whole_numbers_of_any_kind(dtype):
    model = hrnn.HRNN(hrnn.Tokens(4), [3, 2], [2])
    x = torch.randint(4, (5, 3))
    options = window(x=x, generator=torch.Generator().manual_seed(3))
    expected = hrnn.Restricted().backward(model, **options).loss
    options = window(x=x.to(dtype), generator=torch.Generator().manual_seed(3), lengths=torch.tensor([5, 5, 5]).to(dtype))
    assert torch.equal(hrnn.Restricted().backward(model, **options).loss, expected)
    assert torch.equal(model(x.to(dtype))[0], model(x)[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hrnn.HRNN(2, b"ab", [2]), "hidden_sizes is b'ab'"),
        (lambda: hrnn.HRNN(2, [10**9, 10**9], [2]), "hidden_sizes is .*EB and this machine has"),
        (lambda: hrnn.HRNN(2, [3, 2], [10**15]), "periods .* and this machine has"),
        (lambda: hrnn.HRNN(2, [3] * 3, [2**40, 2**40]), "more steps than can be counted"),
        (lambda: hrnn.HRNN(2, [3, 2], [2], decoder_layers=100_000), "decoder_layers"),
        (lambda: hrnn.HRNN(2, [3, 2], [2], decoder_units=b"a"), "decoder_units"),
        (lambda: hrnn.HRNN(2, [3, 2], [2], decoders="no"), "decoders is 'no'"),
        (lambda: hrnn.HRNN(10**5000, [3]), "inputs is a int"),
        (lambda: hrnn.Restricted(round_steps=1.5), "round_steps is 1.5"),
        (lambda: hrnn.Restricted(round_steps=NAN), "round_steps is nan"),
        (lambda: small().initial_state(10**12), "batch is 1000000000000"),
        (lambda: small().decoder(5), "level is 5"),
        (lambda: small(decoders=False).decoder(0), "no decoders"),
        (lambda: small().reset(small().initial_state(3), [True]), "rows is a list"),
        (lambda: small().step(torch.tensor(1.0)), r"x has shape \(\)"),
        (lambda: small().initial_state(3).select(torch.tensor([5])), r"rows is \[5\]"),
        (lambda: small().initial_state(3).select([1]), r"rows is \[1\]"),
        (lambda: small().initial_state(3).to("abc"), "device is 'abc'"),
        (lambda: small().initial_state(3).to(dtype=torch.int64), "dtype is torch.int64"),
        (lambda: hrnn.State.together([]), r"states is \[\]"),
        (lambda: hrnn.State.together([small().initial_state(1), small().double().initial_state(1)]), r"states\[1\]"),
        (lambda: small().initial_state(2).with_rows(torch.tensor([0, -1])), "row has -1"),
        (lambda: memory.predict([8, 8], [10], 10**400, 4), "window is 1000"),
        (lambda: memory.predict([8, 8], [10], 100, 4, cell="x"), "cell is 'x'"),
        (lambda: memory.measure("nothing"), "maker is 'nothing'"),
        (lambda: memory.measure(children=0), "children is 0"),
        (lambda: Group(1, 2).rows("x"), "batch is 'x'"),
        (lambda: Group(2, 2), "rank is 2"),
        (lambda: Group().check_same_options([1]), r"options is \[1\]"),
        (lambda: join("x").__enter__(), "timeout is 'x'"),
    ],
)
def test_the_argument_is_named(call, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call()
    assert len(str(caught.value)) < 500


def test_nested_tensors_are_named_before_they_are_turned():
    model = hrnn.HRNN(2, hidden_sizes=[3], batch_first=True)
    x, nested = torch.zeros(2, 4, 2), torch.nested.nested_tensor([torch.zeros(4), torch.zeros(3)])
    with pytest.raises(ValueError, match="x is a nested tensor"):
        model.step(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(2)]))
    for gradient in (hrnn.Full(), hrnn.Restricted()):
        with pytest.raises(ValueError, match="mask is a nested tensor"):
            gradient.backward(model, x, x, loss=lambda output, target: output.sum(-1), mask=nested)


def test_numbers_of_the_planner_are_taken_as_numbers():
    for function in (hrnn.memory.exact_count, lambda *given: hrnn.memory.predict(*given, 4)):
        with pytest.raises(TypeError, match="hidden_sizes is None"):
            function(None, [10], 100)
    with pytest.raises(ValueError, match=r"window is 1000000000000000 and batch 2: that takes"):
        hrnn.memory.one_window(window=10**15, batch=2)
    assert hrnn.memory.plan(10**8, 10**6, 4, depths=torch.tensor([2, 3])) == hrnn.memory.plan(10**8, 10**6, 4, depths=[2, 3])


def test_a_dtype_in_which_nothing_can_be_computed():
    model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[3]).to(torch.float8_e5m2)
    with pytest.raises(ValueError, match=r"model is torch.float8_e5m2"):
        hrnn.Restricted().backward(model, torch.zeros(2, 2, dtype=torch.long), torch.zeros(2, 2), loss=lambda o, t: o.sum(-1))
