"""Wrong `Updates` are found when they are made, or before anything moves."""

from __future__ import annotations

import pytest
import torch

import hrnn
from tests.calls import sgd, small, window
from tests.helpers import untouched

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
