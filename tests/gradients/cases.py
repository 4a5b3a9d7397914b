"""Models and rows from the start of their sequences, drawn by hypothesis, and ways to cut them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
import torch

import hrnn
from tests.helpers import (
    CELLS,
    nested_flags,
    steady,
)


@dataclass
class Case:
    """A model, and rows from the start of their sequences: x, y, boundaries (steps + 1, ...) or None."""

    model: hrnn.HRNN
    x: torch.Tensor
    y: torch.Tensor
    flags: torch.Tensor | None
    betas: list[float]
    generator: torch.Generator

    @property
    def steps(self):
        return self.x.shape[0]

    @property
    def batch(self):
        return self.x.shape[1]

    def part(self, a, b, rows=slice(None), extra=True):
        """Arguments for steps a to b of some rows; `extra`: the boundary behind them is told, if it is known."""
        flags = None if self.flags is None else self.flags[a : b + (extra or b == self.steps), rows]
        return {"x": self.x[a:b, rows], "boundaries": flags}

    def weights(self):
        """Of the whole, for parts of it that make one update."""
        return {"weight": 1 / (self.steps * self.batch), "local_weight": 1 / (self.steps * self.batch)}


@st.composite
def cases(draw, fixed=None, steps=None, resets=False):
    levels = draw(st.integers(1, 3))
    fixed = draw(st.booleans()) if fixed is None else fixed
    period = st.integers(1, 4) if fixed else st.one_of(st.integers(1, 4), st.integers(1, 3).map(hrnn.Given))
    periods = draw(st.lists(period, min_size=levels - 1, max_size=levels - 1))
    seed, tokens, batch = draw(st.integers(0, 2**31)), draw(st.booleans()), draw(st.integers(1, 4))
    steps = draw(st.integers(1, 16)) if steps is None else steps
    name = draw(st.sampled_from(sorted(CELLS)))
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    sizes = [3, 2, 4][:levels]
    indices = draw(st.sampled_from(["sampled", "all"]))
    model = hrnn.HRNN(hrnn.Tokens(3) if tokens else 2, sizes, periods, cell=CELLS[name], indices=indices, decoder_units=3)
    model = steady(model.double())
    x = torch.randint(3, (steps, batch), generator=generator)
    if not tokens:
        x = torch.randn(steps, batch, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(steps, batch, 3, generator=generator, dtype=torch.float64)
    reset = torch.rand(steps, batch, generator=generator) < 0.2 if resets else None
    case = Case(model, x, y, nested_flags(periods, steps, batch, generator, reset), [0.7, 0.3][: levels - 1], generator)
    return (case, reset) if resets else case


def copied(model, **changes):
    """The same weights in a model made with some other options."""
    config = model.config
    names = zip(config.pop("cell"), model.cells, strict=True)
    options = config | {
        "inputs": model.inputs,
        "periods": model.periods,
        "cell": [type(cell.module) if name is None else name for name, cell in names],
    }
    other = hrnn.HRNN(**(options | changes)).double()
    other.load_state_dict(model.state_dict())
    return other.train(model.training)


def cuts(case, draw_from):
    inner = draw_from.draw(st.sets(st.integers(1, max(1, case.steps - 1)), max_size=5)) if case.steps > 1 else set()
    edges = [0, *sorted(inner), case.steps]
    return list(pairwise(edges))


def chunked(case, flags, reset, lengths, edges):
    """The window in chunks; the boundary behind the last step is told with the last of them."""
    return [
        hrnn.Chunk(
            case.x[a:b],
            case.y[a:b],
            boundaries=None if flags is None else flags[a : b + (b == case.steps)],
            reset=None if reset is None else reset[a:b],
            lengths=None if lengths is None else (lengths - a).clamp(0, b - a),
        )
        for a, b in edges
    ]
