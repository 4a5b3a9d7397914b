"""Models to be exported: every cell, one to four levels, fixed periods, given boundaries and both."""

from __future__ import annotations

import torch
from torch import nn

import hrnn
from tests.user_cells import TanhReader

CELLS = ("lstm", "gru", "rnn")
SIZES = (5, 7, 6, 4)
PERIODS = {
    "fixed": (3, 2, 4),
    "given": (hrnn.Given(4), hrnn.Given(3), hrnn.Given(2)),
    "given below": (hrnn.Given(4), 2, 3),
    "given above": (3, hrnn.Given(2), hrnn.Given(2)),
}


# One level has no periods, and two have one, which is fixed or given.
KINDS = [(1, "fixed"), (2, "fixed"), (2, "given"), *((levels, kind) for levels in (3, 4) for kind in PERIODS)]
PAPER: dict = {}
# Of three levels, and of any number.
MIXED = {"reads": ["inputs", "both"], "reader": ["maximum", "linear"], "context": ["state", "input"], "burn_in": 2}
OWN = {"reads": "inputs", "reader": TanhReader, "context": "state", "burn_in": 1}


def made(cell, levels: int, kind: str, dtype=torch.float64, tokens: bool = False, decoders: bool = True, **edges):
    """A model, of more than two levels one that shows them all, and a head. Weights are larger than at the start of learning,
    so that nothing is nearly linear."""
    torch.manual_seed(levels)
    inputs = hrnn.Tokens(6) if tokens else 3
    model = hrnn.HRNN(
        inputs, SIZES[:levels], PERIODS[kind][: levels - 1], cell=cell, decoders=decoders, decoder_units=8,
        output="all" if levels > 2 else "lowest", **edges,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in (*model.cells.parameters(), *model.readers.parameters()):
            parameter.mul_(1.5)
    return model.to(dtype), nn.Linear(model.output_size, 2).to(dtype)
