"""Cells of a user's, for tests."""

import torch
from torch import nn


class MinimalGRU(nn.Module):
    """One gate."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.hidden_size = hidden_size
        self.gate = nn.Linear(input_size + hidden_size, hidden_size)
        self.value = nn.Linear(input_size, hidden_size)

    def initial_state(self, batch: int):
        return (self.value.weight.new_zeros(batch, self.hidden_size),)

    def step(self, inputs, state):
        (h,) = state
        keep = torch.sigmoid(self.gate(torch.cat([inputs, h], 1)))
        return (keep * h + (1 - keep) * torch.tanh(self.value(inputs)),)


class LearnedStart(nn.Module):
    """Starts from a learned state, and has a second part that is not the hidden state."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(input_size + hidden_size, hidden_size)
        self.start = nn.Parameter(torch.linspace(-0.5, 0.5, hidden_size))

    def initial_state(self, batch: int):
        return self.start.expand(batch, -1), self.start.new_zeros(batch, 2, 2)

    def step(self, inputs, state):
        h, trace = state
        h = torch.tanh(self.linear(torch.cat([inputs, h], 1)) + trace.sum((1, 2))[:, None])
        return h, 0.5 * trace + h.mean(1)[:, None, None] * torch.eye(2, dtype=h.dtype)
