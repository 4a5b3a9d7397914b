"""What a level makes of the raw inputs that it reads: those of the segment of the level below that has just ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.cells.contract import one_hot

READERS = ("linear", "maximum")
ReaderChoice = str | Callable[[tuple[int, ...], int, int], nn.Module]


class Reader(nn.Module):
    """relu(W · inputs), stage by stage: first the inputs of each segment of the lowest level, then what that gave for the parts
    of the segment above, and so on; one matrix a stage, shared by all parts. The latest comes first everywhere, and what is
    absent is a zero vector.

    parts: how many a segment has, from the highest stage to the lowest
    maximum: half of what a stage gives is the largest over its parts of V · part, without ReLU: a rare event stays whole among
    many parts, of which a sum would keep little
    """

    bags = True  # tokens by torch's operation for sums of rows, which ONNX has in single precision

    def __init__(self, parts: Sequence[int], input_size: int, size: int, *, tokens: bool, maximum: bool):
        super().__init__()
        self.parts, self.tokens, self.size = tuple(parts), tokens, size
        self.width = size // 2 if maximum else size  # of a stage, without the maxima
        sizes = [input_size, *[size] * (len(parts) - 1)]
        each = list(zip(reversed(self.parts), sizes, strict=True))
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(self.width, count * inputs)) for count, inputs in each)
        self.biases = nn.ParameterList(nn.Parameter(torch.empty(self.width)) for _ in each)
        more = each if maximum else []
        self.maxima = nn.ParameterList(nn.Parameter(torch.empty(size - self.width, inputs)) for _, inputs in more)
        self.maximum_biases = nn.ParameterList(nn.Parameter(torch.empty(size - self.width)) for _ in more)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As in torch's linear layers: uniform in plus or minus one over the root of how many numbers are read."""
        for weights, biases in ((self.weights, self.biases), (self.maxima, self.maximum_biases)):
            for weight, bias in zip(weights, biases, strict=True):
                bound = max(1, weight.shape[1]) ** -0.5
                nn.init.uniform_(weight, -bound, bound)
                nn.init.uniform_(bias, -bound, bound)

    def forward(self, places: Tensor) -> Tensor:
        """(n, places, features), or tokens (n, places) of which absent ones are -1, to (n, size)."""
        n, values = places.shape[0], self._first(places)
        for stage in range(1, len(self.parts)):
            parts = values.view(n, -1, self.parts[-1 - stage], self.size)
            v = F.linear(parts.flatten(2), self.weights[stage], self.biases[stage]).relu()
            if len(self.maxima):
                v = torch.cat([v, F.linear(parts, self.maxima[stage], self.maximum_biases[stage]).amax(2)], -1)
            values = v
        return values.view(n, self.size)

    def _first(self, places: Tensor) -> Tensor:
        """The inputs of each segment of the lowest level: (n, segments, size)."""
        n, count = places.shape[0], self.parts[-1]
        weight, bias = self.weights[0], self.biases[0]
        if not self.tokens:
            parts = places.reshape(n, -1, count, places.shape[-1])
            values = F.linear(parts.flatten(2), weight, bias).relu()
            if len(self.maxima):
                values = torch.cat([values, F.linear(parts, self.maxima[0], self.maximum_biases[0]).amax(2)], -1)
            return values
        places = places.reshape(-1, count)
        there = (places >= 0).to(weight.dtype)
        symbols = places.clamp(min=0)
        table = weight.shape[1] // count
        rows = symbols + torch.arange(0, weight.shape[1], table, device=places.device)
        if self.bags:
            summed = F.embedding_bag(rows, weight.t(), mode="sum", per_sample_weights=there)
        else:
            summed = (F.embedding(rows, weight.t()) * there[..., None]).sum(1)
        values = (summed + bias).relu()
        if len(self.maxima):
            largest = F.embedding(symbols, self.maxima[0].t()) * there[..., None] + self.maximum_biases[0]
            values = torch.cat([values, largest.amax(1)], -1)
        return values.view(n, -1, self.size)


class UserReader(nn.Module):
    """A user's module behind the same interface."""

    like: Tensor  # of the model's dtype: a module may have no parameters

    def __init__(self, module: nn.Module, parts: Sequence[int], input_size: int, size: int, *, tokens: bool):
        super().__init__()
        self.module, self.parts, self.tokens, self.input_size, self.size = module, tuple(parts), tokens, input_size, size
        self.register_buffer("like", torch.empty(0), persistent=False)

    def forward(self, places: Tensor) -> Tensor:
        """As `Reader.forward`."""
        n = places.shape[0]
        if self.tokens:
            places = one_hot(places, self.input_size, self.like.dtype)
        found: Any = self.module(places.reshape(n, *self.parts, self.input_size))
        if not isinstance(found, Tensor) or found.shape != (n, self.size):
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"reader {type(self.module).__name__} returned {got}; expected ({n}, {self.size}), that is (n, the "
                f"level's hidden size)"
            )
        return found


def make_reader(choice: ReaderChoice, parts: Sequence[int], input_size: int, size: int, tokens: bool) -> nn.Module:
    """parts: as in `Reader`."""
    if isinstance(choice, str):
        return Reader(parts, input_size, size, tokens=tokens, maximum=choice == "maximum")
    module: Any = choice(tuple(parts), input_size, size)
    if not isinstance(module, nn.Module):
        raise TypeError(f"reader returned a {type(module).__name__}; expected an nn.Module: (n, *parts, inputs) to (n, size)")
    return UserReader(module, parts, input_size, size, tokens=tokens)
