"""Which upward edges `Restricted(replay=p)` sends a gradient along, and what it counts for there."""

from __future__ import annotations

import torch
from torch import Tensor

from hrnn.decoders import segment_hash
from hrnn.forward import AutogradLevel, Forward
from hrnn.gradients.window import Window
from hrnn.segments import Ticks
from hrnn.state import State

_SALT = 0x5EED0FED6E5  # so that it does not depend on the sampled indices, which are hashed from the same numbers


class Edges:
    """A draw for every segment and row: whatever is computed when, in which batch or process, sees the same.

    probability: that the gradient of a summary is sent back into the segment; where it is, it counts for one over that.
    """

    def __init__(self, window: Window, probability: float):
        self.window, self.probability = window, probability

    def weights(self, level: int, row: Tensor, ordinal: Tensor) -> Tensor:
        """What the gradients of the summaries of segments, `row` and `ordinal` (n,) or alike, are multiplied by."""
        dtype = self.window.model.dtype
        if self.probability == 1.0:
            return torch.ones_like(ordinal, dtype=dtype)
        uniform = (segment_hash(self.window.seed ^ _SALT, level, row, ordinal) >> 10).double() * 2.0**-53
        return (uniform < self.probability).to(dtype) / self.probability


class WeightedLevel(AutogradLevel):
    """A level under autograd that weighs the gradients of what it reads from the level below."""

    edges: Edges
    begun: Tensor  # (batch,) segments of the level below, since each row's sequence began

    def run(self, inputs: Tensor | None, ticks: Ticks) -> Tensor:
        if self.level and inputs is not None:
            rows = self._columns(ticks.rows)
            if inputs.requires_grad:
                weights = self.edges.weights(self.level - 1, self.row[rows], self.begun[rows] - 1)
                fixed = inputs.detach()
                inputs = fixed + (inputs - fixed) * weights[:, None]  # the value to the last bit, the gradient weighted
            begun = self.begun[rows] + 1  # where this level ticks, the one below begins a segment
            if ticks.unborn is not None:
                begun = begun.masked_fill(ticks.unborn, 1)
            self.begun = self.begun.index_copy(0, rows, begun)
        return super().run(inputs, ticks)


def weigh(forward: Forward, state: State, edges: Edges) -> None:
    """Let a forward pass that begins with `state` weigh its upward edges, for any rows and any cells. It takes as long however
    few of them are drawn."""
    for number, level in enumerate(forward.levels):
        weighted = WeightedLevel(level.level, level.cell, state, level.listener)
        weighted.edges = edges
        weighted.begun = state.clock.ordinal[:, number - 1] if number else state.row
        forward.levels[number] = weighted
