"""A model, a head and a window for levels that move within it."""

from __future__ import annotations

import torch
from torch import nn

import hrnn
from tests.helpers import steady

STEPS, BATCH, RATE = 24, 3, 0.3


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=RATE)


def problem(sizes, periods, cell="rnn", inputs: int | hrnn.Tokens = 2, **options):
    """A model in float64, a head, a loss, and a window of data."""
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(inputs, sizes, periods, cell=cell, decoder_units=4, **options).double())
    head = nn.Linear(sizes[0], 1).double()
    x = torch.randint(3, (STEPS, BATCH)) if isinstance(inputs, hrnn.Tokens) else torch.randn(STEPS, BATCH, inputs).double()
    y = torch.randn(STEPS, BATCH).double()
    given = [p for p in periods if isinstance(p, hrnn.Given)]
    boundaries = None
    if given:
        boundaries = torch.rand(STEPS, BATCH, len(given)) < 0.5
        for level in range(1, len(given)):
            boundaries[..., level] &= boundaries[..., level - 1]
        for level in range(len(given)):
            boundaries[0, :, level] = True
    return model, head, x, y, boundaries


class Elman(nn.Module):
    """The built-in Elman cell as a user would write it."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.inner = nn.Linear(input_size, hidden_size)
        self.hidden = nn.Linear(hidden_size, hidden_size, bias=False)

    def initial_state(self, batch):
        return (self.inner.weight.new_zeros(batch, self.hidden_size),)

    def step(self, inputs, state):
        return (torch.tanh(self.inner(inputs) + self.hidden(state[0])),)


def make_loss(head):
    return lambda output, target: (head(output)[..., 0] - target) ** 2
