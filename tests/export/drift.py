"""How far an exported step and the model come apart when each carries its own state."""

from __future__ import annotations

import torch

from hrnn.export.checking import inputs, nested

CHUNK = 100  # steps that the model is given at a time: one after the other takes long where rows are out of phase


@torch.no_grad()
def drift(run, step, model, steps, rows=4, seed=1, x=None):
    """The largest difference between outputs, in units of the outputs where these exceed 1. Row r starts over after 3 r + 1
    steps, and is out of phase from then on. x: inputs (steps, rows); by default random ones."""
    generator, worst = torch.Generator().manual_seed(seed), 0.0
    state, flat = model.initial_state(rows), step.initial_state(rows)
    for begin in range(0, steps, CHUNK):
        read, given, resets, outputs = [], [], [], []
        for t in range(begin, min(begin + CHUNK, steps)):
            resets.append(torch.tensor([r > 0 and t == 3 * r + 1 for r in range(rows)]))
            flat = flat.masked_fill(resets[-1][:, None], 0.0)
            read.append(inputs(step, torch.empty(0), rows, generator) if x is None else x[t])
            given.append(nested(step, flat, generator))
            output, flat = run(read[-1], flat, given[-1])
            outputs.append(output)
        boundaries = torch.stack(given) if step.given else None
        hidden, state = model(torch.stack(read), state, boundaries=boundaries, reset=torch.stack(resets))
        expected, found = step.head(hidden), torch.stack(outputs)
        assert torch.isfinite(found).all()
        worst = max(worst, float((expected - found).abs().max()) / max(1.0, float(expected.abs().max())))
    return worst
