"""A window that starts in mid-segment, for both methods."""

from __future__ import annotations

import hrnn
from tests.helpers import (
    seeded,
    take_gradients,
)

PERIODS = {"fixed": [2, 2], "given": [hrnn.Given(2), 2]}


STEPS, BATCH = 9, 3


def run(method, model, options, **changes):
    """The result and the gradients, which are cleared."""
    result = method.backward(model, **(options | {"generator": seeded()} | changes))
    return result, take_gradients(model)
