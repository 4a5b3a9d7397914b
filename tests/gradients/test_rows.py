"""Rows that end: what stands behind them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import hrnn
from tests.user_cells import MinimalGRU


def test_padding_may_hold_numbers_that_are_no_tokens():
    x, model = torch.zeros(6, 2, dtype=torch.int64), hrnn.HRNN(hrnn.Tokens(3), [4, 4], [2])
    x[3:, 1] = -1
    model(x, lengths=torch.tensor([6, 3]))
    with pytest.raises(ValueError, match="token -1 at step 3, row 1"):
        model(x, lengths=torch.tensor([6, 4]))


def test_padding_is_not_computed_on():
    """Counted: every level's cell sees as many rows as there are ticks, forward and in both gradients."""
    seen = Counter()

    class Counting(MinimalGRU):
        def step(self, inputs, state):
            seen[self.gate.in_features - self.hidden_size] += len(inputs)
            return super().step(inputs, state)

    torch.manual_seed(0)
    model = hrnn.HRNN(2, hidden_sizes=[4, 5], periods=[3], cell=Counting)
    lengths = torch.tensor([40, 33, 12, 7, 3, 1, 0])
    x, y = torch.randn(40, 7, 2), torch.zeros(40, 7)
    ticks = {2 + 5: int(lengths.sum()), 4: int(((lengths + 2) // 3).sum())}
    assert ticks[7] < 40 * 7 / 2
    model(x, lengths=lengths)
    assert seen == ticks
    for method in (hrnn.Restricted(round_steps=3), hrnn.Full()):
        seen.clear()
        method.backward(model, x, y, loss=lambda o, t: (o[..., 0] - t) ** 2, betas=[0.1], lengths=lengths)
        assert seen == ticks
