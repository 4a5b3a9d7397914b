"""What the gradients of summaries count for, where upward edges are neither whole nor cut everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from hrnn.decoders import segment_hash
from hrnn.gradients.window import Window

_SALT = 0x5EED0FED6E5  # so that it does not depend on the sampled indices, which are hashed from the same numbers


class Edges:
    """A draw for every segment and row: whatever is computed when, in which batch or process, sees the same.

    probability: that the gradient of a summary is sent back into the segment; where it is, it counts for one over that. 0:
    never
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
