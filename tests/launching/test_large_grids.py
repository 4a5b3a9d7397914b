"""Grids with too many runs, and names that are too long for a folder."""

import pytest

from hrnn.errors import UserError
from hrnn.tasks import Copy
from hrnn.training.config import Budget, Config


def test_grids_and_names_that_are_too_large():
    from hrnn.launching.grid import Axis, options_of, points

    base, known = Config(Copy(), budget=Budget(updates=1)), options_of(Copy)
    many = [Axis(name, known[name], range(1, 300)) for name in ("seed", "batch", "warmup")]
    with pytest.raises(UserError, match="the grid has 26,730,899 runs"):
        points(base, many)
    names = ("batch", "window", "updates", "warmup", "threads", "checkpoints", "sequences")
    long = [Axis(name, known[name], [2**62 + number for number in (1, 2)][:1]) for name in names]
    with pytest.raises(UserError, match="too long for a folder"):
        points(
            base, [*long, *(Axis(name, known[name], [2**62]) for name in ("decoder-units", "journal-every", "test-sequences"))]
        )
