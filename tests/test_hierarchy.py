"""Models that cannot be made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hrnn
from tests.calls import make
from tests.helpers import take_gradients


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"periods": []}, ValueError, ["periods has 0 entries for 2 levels", "one fewer than hidden_sizes", "periods=[10]"]),
        ({"periods": [2, 2]}, ValueError, ["periods has 2 entries for 2 levels", "periods=[10]"]),
        ({"hidden_sizes": [4], "periods": [2]}, ValueError, ["periods has 1 entries for 1 levels", "periods=[]"]),
        ({"periods": [0]}, ValueError, ["periods[0] is 0", "at least 1"]),
        ({"periods": [-3]}, ValueError, ["periods[0] is -3", "at least 1"]),
        ({"periods": [2.0]}, ValueError, ["periods[0] is 2.0", "whole number"]),
        ({"periods": [True]}, ValueError, ["periods[0] is True", "whole number"]),
        ({"periods": [hrnn.Given(0)]}, ValueError, ["periods[0] is Given(reach=0)", "reach of at least 1"]),
        ({"periods": 2}, TypeError, ["periods is 2", "periods=[2]"]),
        ({"hidden_sizes": 4}, TypeError, ["hidden_sizes is 4", "hidden_sizes=[4]"]),
        ({"hidden_sizes": []}, ValueError, ["hidden_sizes is []", "at least one level"]),
        ({"hidden_sizes": [4, 0]}, ValueError, ["hidden_sizes is [4, 0]", "at least one unit"]),
        ({"inputs": 0}, ValueError, ["inputs is 0", "hrnn.Tokens(n)"]),
        ({"inputs": hrnn.Tokens(0)}, ValueError, ["inputs is Tokens(count=0)", "at least 1"]),
        ({"inputs": "x"}, ValueError, ["inputs is x", "hrnn.Tokens(n)"]),
        ({"cell": "transformer"}, ValueError, ["cell is 'transformer'", "'gru', 'lstm', 'rnn'"]),
        ({"cell": ["lstm"]}, ValueError, ["cell has 1 entries for 2 levels", "one for each level"]),
        ({"cell": [3, "lstm"]}, TypeError, ["cell is 3", "a name or a callable"]),
        ({"cell": lambda inputs, hidden: 3}, TypeError, ["cell returned a int", "nn.Module with step and initial_state"]),
        ({"cell": nn.Linear}, TypeError, ["cell Linear has no method step()", "step(inputs, state)"]),
        ({"decoder_units": [3, 3]}, ValueError, ["decoder_units has 2 entries for 1 levels below the top", "one for all"]),
        ({"decoder_units": 0}, ValueError, ["decoder_units of level 0 are 2 and 0", "at least 1"]),
        ({"decoder_layers": 0}, ValueError, ["decoder_layers", "0", "at least 1"]),
        ({"indices": "some"}, ValueError, ["indices is 'some'", "'sampled', 'all'"]),
    ],
)
def test_wrong_models(arguments, error, words):
    with pytest.raises(error) as caught:
        hrnn.HRNN(**({"inputs": 2, "hidden_sizes": [4, 4], "periods": [2]} | arguments))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_other_numbers_that_must_be_positive():
    with pytest.raises(ValueError, match="round_steps is 0; give at least 1, or None"):
        hrnn.Restricted(round_steps=0)
    with pytest.raises(ValueError, match="batch is 0; give at least one row"):
        make().initial_state(0)


@pytest.mark.parametrize(("sizes", "periods"), [([5], []), ([5, 4], [3])])
def test_writing_into_an_output_before_backward_changes_no_gradient(sizes, periods):
    model = hrnn.HRNN(3, sizes, periods).double()
    x, weights, found = torch.randn(9, 2, 3).double(), torch.randn(9, 2, 5).double(), []
    for written in (False, True):
        output, _ = model(x)
        loss = (output * weights).sum()
        if written:
            output.detach().zero_()
        loss.backward()
        found.append(take_gradients(model))
    assert any(bool(gradient.any()) for gradient in found[0].values())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
