"""What the engine is measured against: the floor that it cannot avoid, and what a user would otherwise write.

Each function takes (inputs, hidden sizes, periods, window, batch), see `CONFIGURATIONS`, and returns a function that runs one
window forward and backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Run = Callable[[], object]


def floor(inputs: int, sizes: Sequence[int], periods: Sequence[int], window: int, batch: int) -> Run:
    """The matrix products and gate activations of the restricted gradient of an LSTM, on ready contiguous tensors, and
    nothing else: no element-wise work, no bookkeeping, no head, no losses."""
    levels = []
    for level, hidden in enumerate(sizes):
        top = level == len(sizes) - 1
        ticks = math.ceil(window / math.prod(periods[:level]))
        segment = min(ticks, 16) if top else periods[level]
        below = inputs if level == 0 else sizes[level - 1]
        above = hidden if top else sizes[level + 1]

        def new(*shape: int) -> Tensor:
            return 0.1 * torch.randn(*shape)

        levels.append(
            {
                "ticks": ticks,
                "segment": segment,
                "lowest": level == 0,
                "h": new(batch, hidden),
                "u": new(batch, below),
                "context": new(batch, above),
                "w_h": new(hidden, 4 * hidden),
                "w_u": new(below, 4 * hidden),
                "w_context": new(above, 4 * hidden),
                "gates": new(batch, 4 * hidden),
                "all_h": new(segment * batch, hidden),
                "all_u": new(segment * batch, below),
                "all_gates": new(segment * batch, 4 * hidden),
                "sigmoids": new(3, batch, hidden),
                "tanh": new(batch, hidden),
            }
        )

    def run() -> None:
        for level in levels:
            gates, w_u, w_h = level["gates"], level["w_u"], level["w_h"]
            for tick in range(level["ticks"]):
                first = tick % level["segment"] == 0
                state, weight = (level["context"], level["w_context"]) if first else (level["h"], w_h)
                torch.mm(state, weight, out=gates)
                if not level["lowest"]:
                    torch.mm(level["u"], w_u, out=gates)
                level["sigmoids"].sigmoid_()
                level["tanh"].tanh_()
                level["tanh"].tanh_()
                gates @ weight.t()
                if first:
                    level["all_h"].t() @ level["all_gates"]
                    level["all_u"].t() @ level["all_gates"]
                    level["context"].t() @ gates
                    if level["lowest"]:
                        level["all_u"] @ w_u

    return run


def flat(inputs: int, sizes: Sequence[int], periods: Sequence[int], window: int, batch: int) -> Run:
    """`nn.LSTM` of the lowest level's size over the same inputs."""
    x, y = torch.randn(window, batch, inputs), torch.randint(3, (window, batch))
    lstm, head = nn.LSTM(inputs, sizes[0]), nn.Linear(sizes[0], 3)

    def run() -> None:
        for parameter in (*lstm.parameters(), *head.parameters()):
            parameter.grad = None
        F.cross_entropy(head(lstm(x)[0]).flatten(0, 1), y.flatten()).backward()

    return run


class NaiveHRNN(nn.Module):
    """The hierarchy as a user would write it: nn.LSTMCell over concatenated inputs, true gradients by autograd."""

    def __init__(self, inputs: int, sizes: Sequence[int], periods: Sequence[int]):
        super().__init__()
        below, above = [inputs, *sizes[:-1]], [*sizes[1:], 0]
        self.cells = nn.ModuleList(nn.LSTMCell(b + a, n) for b, a, n in zip(below, above, sizes, strict=True))
        self.head = nn.Linear(sizes[0], 3)
        self.sizes, self.periods = list(sizes), list(periods)

    def segment(self, x: Tensor, y: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A segment of the lowest level: the summed loss of its steps, and the state after."""
        zeros = context.new_zeros(context.shape)
        h = c = context.new_zeros(context.shape[0], self.sizes[0])
        loss = context.new_zeros(())
        for t in range(x.shape[0]):
            h, c = self.cells[0](torch.cat([x[t], zeros if t else context], 1), (h, c))
            loss = loss + F.cross_entropy(self.head(h), y[t])
        return loss, h, c

    def forward(self, x: Tensor, y: Tensor, checkpointed: bool = False) -> Tensor:
        """The mean loss over a window that starts a sequence."""
        window, batch = x.shape[:2]
        states = [(x.new_zeros(batch, n), x.new_zeros(batch, n)) for n in self.sizes]
        top, total = len(self.sizes) - 1, x.new_zeros(())
        for start in range(0, window, self.periods[0]):
            for level in range(top, 0, -1):
                if start % math.prod(self.periods[:level]):
                    continue
                summary, state = states[level - 1][0], states[level]
                if level < top:
                    starts = start % math.prod(self.periods[: level + 1]) == 0
                    context = states[level + 1][0] if starts else x.new_zeros(batch, self.sizes[level + 1])
                    summary = torch.cat([summary, context], 1)
                    state = (torch.zeros_like(state[0]), torch.zeros_like(state[1])) if starts else state
                states[level] = self.cells[level](summary, state)
            part = slice(start, min(start + self.periods[0], window))
            run = partial(checkpoint, self.segment, use_reentrant=False) if checkpointed else self.segment
            loss, *lowest = run(x[part], y[part], states[1][0])
            states[0] = tuple(lowest)
            total = total + loss
        return total / window


def naive(
    inputs: int, sizes: Sequence[int], periods: Sequence[int], window: int, batch: int, checkpointed: bool = False
) -> Run:
    """`NaiveHRNN`, with torch.utils.checkpoint around each segment of the lowest level where `checkpointed`."""
    x, y = torch.randn(window, batch, inputs), torch.randint(3, (window, batch))
    model = NaiveHRNN(inputs, sizes, periods)

    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(x, y, checkpointed).backward()

    return run


checkpointed = partial(naive, checkpointed=True)


def two_calls(inputs: int, sizes: Sequence[int], periods: Sequence[int], window: int, batch: int) -> Run:
    """Two levels without an upward edge, and one update of Adam: the upper one reads relu(W · inputs of the segment that has
    ended), its state is the initial one of the segment below, h = tanh(W c) and cell = V c, and a linear head on both, squared
    error at every step. All contexts by one `nn.LSTM`, then all segments side by side by another."""
    (lower, upper), (period,) = sizes, periods
    segments = window // period
    x, y = torch.randn(window, batch, inputs), torch.randn(window, batch)
    reader, down, head = nn.Linear(period * inputs, upper), nn.Linear(upper, 2 * lower), nn.Linear(lower + upper, 1)
    above, below = nn.LSTM(upper, upper), nn.LSTM(inputs, lower)
    optimizer = torch.optim.Adam([p for part in (reader, down, head, above, below) for p in part.parameters()], fused=True)

    def run() -> None:
        optimizer.zero_grad()
        parts = x.view(segments, period, batch, inputs)
        read = F.pad(parts[:-1], (0, 0, 0, 0, 0, 0, 1, 0))  # of the segment before; zeros before the first
        contexts, _ = above(reader(read.transpose(1, 2).flatten(2)).relu())
        hidden, cell = down(contexts).view(1, segments * batch, 2 * lower).chunk(2, -1)
        columns = parts.transpose(0, 1).reshape(period, segments * batch, inputs)
        output, _ = below(columns, (hidden.tanh(), cell.contiguous()))
        shown = torch.cat([output, contexts.view(1, -1, upper).expand(period, -1, -1)], -1)
        targets = y.view(segments, period, batch).transpose(0, 1).reshape(period, -1)
        (head(shown)[..., 0] - targets).square().mean().backward()
        optimizer.step()

    return run
