"""A user's reader that draws random numbers: where what it gave is made again, these are drawn once."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch import nn

import hrnn
from hrnn.gradients import literal
from tests.helpers import assert_close, seeded


class Dropped(nn.Module):
    def __init__(self, parts, input_size, size):
        super().__init__()
        self.linear = nn.Linear(parts[0] * input_size, size)

    def forward(self, inputs):
        return nn.functional.dropout(self.linear(inputs.flatten(1)))


@pytest.mark.parametrize("method", [hrnn.Restricted(), hrnn.Checkpointed(every=8), hrnn.Restricted(top="checkpointed")])
def test_random_numbers_are_drawn_once(method):
    """As an unbroken graph has it: the gradient is that of the loss, which small steps against it lower."""
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [4, 5], [3], reads="inputs", reader=Dropped).double()
    x = torch.randn(24, 2, 2, generator=seeded(1), dtype=torch.float64)

    def window():
        state, seed = torch.get_rng_state(), torch.Generator().manual_seed(5)
        found = method.backward(model, x, x[..., :1], loss=lambda o, y: (o[..., :1] - y).square().mean(-1), generator=seed)
        assert torch.equal(state, torch.get_rng_state())
        return float(found.loss)

    weight = model.readers[0].module.linear.weight
    with patch.object(literal, "ticks_at_once", lambda *_: 2):  # what it gave is made again, two ticks at a time
        window()
        gradient = weight.grad.clone()
        step = 1e-6 * torch.randn(weight.shape, generator=seeded(2), dtype=torch.float64)
        with torch.no_grad():
            above = [weight.add_(step), window()][1]
            below = [weight.sub_(2 * step), window()][1]
    assert_close(torch.tensor(above - below), (gradient * 2 * step).sum().float(), tolerance=1e-4)
