"""An exported step held against the model, step by step, on random inputs, rows at different places of their segments."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor

from hrnn.export.step import Step
from hrnn.hierarchy import HRNN

Run = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]  # x, state, boundaries to output, state
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


@torch.no_grad()
def largest_difference(run: Run, step: Step, model: HRNN, example: Tensor, steps: int, rows: int = 3, seed: int = 0) -> float:
    """Of any output or state of `run`, over so many steps, in units of the outputs where these exceed 1. Every step starts from
    the state that the model has: a model that learned may be so sensitive that it differs from itself in float32 after some
    hundred steps. Row r starts over after 3 r + 1 steps, and is out of phase from then on.

    example: inputs as `step.before` takes them, of which rows are drawn where there is preprocessing
    """
    model = copy.deepcopy(model).eval()  # as the step's own copy: a reader may have dropout
    generator, device = torch.Generator().manual_seed(seed), model.device
    state, found = model.initial_state(rows), [0.0]
    for t in range(steps):
        state = model.reset(state, torch.tensor([r > 0 and t == 3 * r + 1 for r in range(rows)], device=device))
        flat = step.flat(state)
        x, boundaries = inputs(step, example, rows, generator), nested(step, flat, generator)
        given = None if boundaries is None else boundaries.to(device)
        hidden, state = model.step(step.before(x).to(device), state, boundaries=given)
        for value, expected in zip(run(x, flat, boundaries), (step.head(hidden.cpu()), step.flat(state)), strict=True):
            found.append(float((value - expected).abs().max()) / max(1.0, float(expected.abs().max())))
    return math.nan if any(map(math.isnan, found)) else max(found)


def inputs(step: Step, example: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    """Inputs of one step: random ones, or, where there is preprocessing, some of the examples."""
    if not isinstance(step.before, torch.nn.Identity):
        return example[torch.randint(len(example), (rows,), generator=generator)]
    if step.tokens:
        return torch.randint(step.input_size, (rows,), generator=generator)
    return torch.randn(rows, step.input_size, generator=generator, dtype=torch.float64).to(step.dtype)


def nested(step: Step, state: Tensor, generator: torch.Generator) -> Tensor | None:
    """Random boundaries (rows,) or (rows, given levels), only where the level ticks; None where none are given."""
    if not step.given:
        return None
    flags, column = torch.rand(len(state), step.given, generator=generator) < 0.3, 0
    for level, period in enumerate(step.periods):
        if not isinstance(period, int):
            ticks, _ = step.ticking(step.split(state)[1], flags)
            flags[:, column : column + 1] &= ticks[level]
            column += 1
    return flags[:, 0] if step.given == 1 else flags
