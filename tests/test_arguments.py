"""What campaigns against the API once found, one by one: the argument is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hrnn
from hrnn import memory
from hrnn.parallel import Group, join
from tests.calls import small, window
from tests.helpers import METHODS, squares, untouched

NAN = float("nan")


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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
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
