"""Wrong `Updates` are found when they are made, or before anything moves."""

from __future__ import annotations

import pytest
import torch

import hrnn
from hrnn.gradients.updates import own_parameters
from tests.calls import sgd, small, window
from tests.helpers import untouched
from tests.user_cells import MinimalGRU

UPDATES = {
    "clip below 0": ({"clip": -1}, "clip is -1"),
    "clip of nan": ({"clip": [float("nan"), 1.0]}, "clip is nan"),
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


def make_loss(*heads):
    def loss(output, y):
        for head in heads:
            output = head(output)
        return output.square().mean(-1)

    return loss


@pytest.mark.parametrize("cell", ["lstm", MinimalGRU])
@pytest.mark.parametrize("given", ["none", "one of two"])
def test_a_head_that_nobody_moves_is_an_error(cell, given):
    """It stayed as it was, and no word was said."""
    model = hrnn.HRNN(2, [3, 4], [2], cell=cell)
    first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
    updates = hrnn.Updates(model, sgd, **({} if given == "none" else {"heads": first.parameters()}))
    x, y = torch.randn(6, 3, 2), torch.zeros(6, 3, 1)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(
        ValueError, match=r"loss uses parameters that updates does not move, .* of shape \(.*; give .* heads=\(\) if"
    ):
        hrnn.Restricted().backward(model, x, y, loss=make_loss(first, second), updates=updates)
    assert all(p.grad is None for p in [*model.parameters(), *first.parameters(), *second.parameters()])
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True)), "before anything has moved"


def test_a_head_of_the_callers_own_has_the_gradient_of_the_window():
    grads = []
    for updates in (False, True):
        torch.manual_seed(0)
        model, head = hrnn.HRNN(2, [3, 4], [4]), torch.nn.Linear(3, 1)
        moved = hrnn.Updates(model, sgd, heads=(), every=None) if updates else None
        x, y = torch.randn(8, 3, 2), torch.zeros(8, 3, 1)
        hrnn.Restricted().backward(model, x, y, loss=make_loss(head), updates=moved)
        grads.append(head.weight.grad)
    assert grads[0].abs().max() > 0
    assert torch.equal(*grads)


def test_what_needs_no_gradient_or_belongs_to_the_model_is_no_forgotten_head():
    model, head = hrnn.HRNN(2, [3, 4], [2]), torch.nn.Linear(3, 1).requires_grad_(False)
    tied = model.cells[1].weight_hidden

    def loss(output, y):
        return head(output).square().mean(-1) + tied.square().mean()

    x = torch.randn(6, 3, 2, requires_grad=True)
    hrnn.Restricted().backward(model, x, torch.zeros(6, 3, 1), loss=loss, updates=hrnn.Updates(model, sgd))
    assert x.grad is not None


def test_an_optimizer_of_the_callers_own_has_to_hold_the_heads():
    model, head = hrnn.HRNN(2, [3, 4], [2]), torch.nn.Linear(3, 1)
    ready = [torch.optim.SGD(level, lr=0.1) for level in own_parameters(model)]
    with pytest.raises(ValueError, match=r"optimizers\[0\] does not hold 2 of the 2 heads"):
        hrnn.Updates(model, ready, heads=head.parameters())
    hrnn.Updates(model, ready, heads=())
    ready[0].add_param_group({"params": list(head.parameters())})
    hrnn.Updates(model, ready, heads=head.parameters())
