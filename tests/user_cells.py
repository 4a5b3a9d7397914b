"""Cells and a reader of a user's, for tests."""

from math import prod

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


class Opened(nn.Module):
    """Makes a context of any size into both parts of its initial state, or takes it among its inputs."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(input_size + 2 * hidden_size, hidden_size)
        self.opening = nn.Linear(hidden_size, 2 * hidden_size)

    def initial_state(self, batch: int):
        zeros = self.linear.weight.new_zeros(batch, self.linear.out_features)
        return zeros, zeros

    def from_context(self, context):
        places = torch.arange(context.shape[1])[:, None] + 2 * torch.arange(self.linear.out_features)
        return tuple(torch.tanh(self.opening(context @ places.to(context.dtype).cos())).chunk(2, 1))

    def step(self, inputs, state):
        h, slow = state
        h = torch.tanh(self.linear(torch.cat([inputs, h, slow], 1)))
        return h, 0.7 * slow + 0.3 * h


class TanhReader(nn.Module):
    """All places at once."""

    def __init__(self, parts, input_size: int, size: int):
        super().__init__()
        self.linear = nn.Linear(prod(parts) * input_size, size)

    def forward(self, places):
        return torch.tanh(self.linear(places.flatten(1)))
