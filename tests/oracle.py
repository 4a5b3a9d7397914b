"""The semantics, transcribed literally: one row, one step, one level at a time, differentiated by autograd.

With `restricted`, what goes up is detached, which gives the restricted gradient (and saves nothing). With `replay`, a
probability, a gradient goes down the edges that are drawn, and counts for one over it. With `synthetic`, a network for each
level below the top, the gradient of a summary is what the network says. Nothing of the library is used but the parameters, the
configuration and a user's cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from hrnn.cells import GRU, LSTM, RNN
from hrnn.segments import Given, reach_of

MASK = 2**64 - 1


def splitmix(*parts: int) -> int:
    """Sebastiano Vigna's splitmix64, chained over the parts, on Python integers."""
    x = 0
    for part in parts:
        x = (x + part + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
    return x & (2**63 - 1)


def cell_step(cell, u: Tensor, context: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """h' = f(h, [u, context]) for one row, by the textbook."""
    if isinstance(cell, LSTM | GRU | RNN):
        weight = torch.cat([cell.weight_input] + ([] if cell.weight_context is None else [cell.weight_context]), 1)
        entered = weight @ torch.cat([u, context]) + cell.bias
        recurrent = cell.weight_hidden @ state[0]
    if isinstance(cell, LSTM):
        i, f, g, o = (entered + recurrent).chunk(4)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if isinstance(cell, GRU):
        x_r, x_z, x_n = entered.chunk(3)
        h_n, h_r, h_z = recurrent.chunk(3)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * (h_n + cell.bias_hidden))
        return ((1 - z) * n + z * state[0],)
    if isinstance(cell, RNN):
        return (torch.tanh(entered + recurrent),)
    after = cell.module.step(torch.cat([u, context])[None], tuple(part[None] for part in state))
    return tuple(part[0] for part in after)


def cell_start(cell, hidden: int, like: Tensor) -> tuple[Tensor, ...]:
    if isinstance(cell, LSTM):
        return like.new_zeros(hidden), like.new_zeros(hidden)
    if isinstance(cell, GRU | RNN):
        return (like.new_zeros(hidden),)
    return tuple(part[0] for part in cell.module.initial_state(1))


@dataclass
class Segment:
    ticks: int = 0
    span: int = 0
    ordinal: int = 0  # segments started
    inputs: list = field(default_factory=list)
    in_window: bool = False  # has its level ticked in this window?
    skipped: int = 0


@dataclass
class Row:
    number: int
    cells: list
    segments: list[Segment]
    begun: bool = False


class Oracle:
    """A batch of rows and the state they carry; `window` runs them over one window."""

    def __init__(self, model, batch: int, restricted: bool, replay: float | None = None, synthetic=None):
        self.model, self.restricted, self.replay, self.synthetic = model, restricted, replay, synthetic
        self.levels, self.windows = len(model.cells), 0
        self.known = [[] for _ in model.periods]  # of each level: for every window so far, pairs of weight and target
        self.rows = [Row(b, [], [Segment() for _ in model.periods]) for b in range(batch)]
        for row in self.rows:
            self._start(row)

    def _start(self, row: Row) -> None:
        like = next(self.model.parameters())
        row.cells = [cell_start(c, n, like) for c, n in zip(self.model.cells, self.model.hidden_sizes, strict=True)]
        row.begun = False
        for segment in row.segments:
            segment.ticks = segment.span = segment.ordinal = 0
            segment.inputs = []

    def _known(self, i: int) -> bool:
        return all(isinstance(p, int) for p in self.model.periods[: i + 1])

    def window(self, x, y, *, loss, betas, seed, weight, local_weight, mask, boundaries=None, lengths=None, reset=None):
        """Outputs (T, B, H), the task's loss, the local losses (sums, weighted), all with graph; states are carried."""
        steps, batch = x.shape[:2]
        self.seed, self.local = seed, [0.0] * len(self.model.periods)
        self.asked = [[] for _ in self.model.periods]
        self.unit, self.predicted, self.read = weight, 0.0, []  # read: level, summary, span
        given = [i for i, p in enumerate(self.model.periods) if isinstance(p, Given)]
        hidden = sum(self.model.hidden_sizes[: len(self._shown)])
        outputs = [[next(self.model.parameters()).new_zeros(hidden)] * batch for _ in range(steps)]
        task = 0.0
        for b, row in enumerate(self.rows):
            for segment in row.segments:
                segment.in_window = False
            if self.windows == 0:
                self._start(row)  # a learned initial state gets gradients where a sequence starts with the window
            else:
                row.cells = [tuple(part.detach() for part in state) for state in row.cells]
            length = steps if lengths is None else int(lengths[b])
            for t in range(length):
                flags = {i: bool(boundaries[t, b, j]) for j, i in enumerate(given)}
                outputs[t][b] = self._step(row, x[t, b], flags, reset is not None and bool(reset[t, b]))
                if mask is None or bool(mask[t, b]):
                    task = task + loss(outputs[t][b][None, None], y[t : t + 1, b : b + 1]).sum() * weight
            behind = {i: length < len(boundaries) and bool(boundaries[length, b, j]) for j, i in enumerate(given)}
            self._close(row, behind)
        self.windows += 1
        local = [value * local_weight * self._factor(i) if betas[i] else 0.0 for i, value in enumerate(self.local)]
        for level, asked in enumerate(self.asked):
            if betas[level] and asked:
                self.known[level].append(asked)
        total = task + self.predicted + sum(beta * value for beta, value in zip(betas, local, strict=True))
        return torch.stack([torch.stack(step) for step in outputs]), total, task, local

    def _step(self, row: Row, x: Tensor, flags: dict[int, bool], reset: bool) -> Tensor:
        model, top = self.model, self.levels - 1
        if reset:
            over = True  # the data may say that the old sequence's last segments are complete
            for i, period in enumerate(model.periods):
                over = over and flags.get(i, row.segments[i].ticks % reach_of(period) == 0)
                if over:
                    self._end(row, i)
            self._start(row)
        ticks, boundary = [True], []
        for i, period in enumerate(model.periods):
            segment = row.segments[i]
            starts = ticks[i] and (segment.ticks == 0 or flags.get(i, segment.ticks == period))
            boundary.append(starts)
            ticks.append(starts)
        spans = [segment.span for segment in row.segments]
        for i, segment in enumerate(row.segments):
            if boundary[i]:
                self._end(row, i)
            segment.span = 1 if boundary[i] else segment.span + 1
            if boundary[i]:
                segment.ticks, segment.inputs, segment.ordinal = 0, [], segment.ordinal + 1
        for i in range(top, -1, -1):
            if not ticks[i]:
                continue
            if i == 0:
                u = x if not model.tokens else F.one_hot(x, model.input_size).to(model.dtype)
            else:
                u = row.cells[i - 1][0] if row.begun else torch.zeros_like(row.cells[i - 1][0])
                if self.replay is not None:
                    u = u.detach() + self._edge(row, i - 1) * (u - u.detach())
                u = u.detach() if self.restricted else u
                if self.synthetic is not None and row.begun:
                    self.read.append((i - 1, u.requires_grad_(), spans[i - 1]))
            starts = i < top and boundary[i]
            context = u.new_zeros(model.hidden_sizes[i + 1] if i < top else 0)
            state = row.cells[i]
            if starts:
                context = row.cells[i + 1][0]
                state = cell_start(model.cells[i], model.hidden_sizes[i], u)
            row.cells[i] = cell_step(model.cells[i], u, context, state)
            if i < top:
                segment = row.segments[i]
                segment.ticks += 1
                segment.inputs.append((x if i == 0 else u).detach())
                segment.in_window = True
        # A fixed segment ends with its last tick, wherever the window is cut after that.
        for i, segment in enumerate(row.segments):
            if ticks[i] and self._known(i) and segment.ticks == model.periods[i]:
                span = 1
                for period in model.periods[: i + 1]:
                    span *= period
                self._local_loss(row, i, span)
        row.begun = True
        return torch.cat([row.cells[i][0] for i in self._shown])

    @property
    def _shown(self) -> range:
        """The levels whose hidden states are the output."""
        return range(self.levels if self.model.config["output"] == "all" else 1)

    def _edge(self, row: Row, level: int) -> float:
        """What the gradient of the summary of the segment that has just ended counts for; the next has begun."""
        drawn = splitmix(self.seed ^ 0x5EED0FED6E5, level, row.number, row.segments[level].ordinal - 2) >> 10
        return 1 / self.replay if drawn < self.replay * 2**53 else 0.0

    def _close(self, row: Row, behind: dict[int, bool]) -> None:
        ends = True
        for i, period in enumerate(self.model.periods):
            segment = row.segments[i]
            ends = ends and (behind[i] if i in behind else segment.ticks % period == 0)
            if self._known(i):
                segment.ticks %= period
            elif ends:
                self._end(row, i)
                segment.ticks = 0

    def _end(self, row: Row, i: int) -> None:
        """A segment whose end only the next boundary tells is complete: its local loss, unless its ticks were all earlier."""
        segment = row.segments[i]
        if not self._known(i) and segment.ticks > 0:
            if segment.in_window:
                self._local_loss(row, i, segment.span)
            else:
                segment.skipped += 1

    def _local_loss(self, row: Row, level: int, span: int) -> None:
        model, segment = self.model, row.segments[level]
        if self.synthetic is not None:
            summary = row.cells[level][0]
            self.predicted = self.predicted + (self.synthetic[level](summary).detach() * summary).sum() * self.unit
        if model.decoders is None:
            return
        decoder = model.decoders[level]
        period = model.periods[level]
        reach = min(period.reach if isinstance(period, Given) else period, segment.ticks)
        if decoder.indices == "all":
            indices = list(range(1, reach + 1))
        else:
            indices = [splitmix(self.seed, level, row.number, segment.ordinal - 1) % reach + 1]
        losses = []
        for j in indices:
            one_hot = F.one_hot(torch.tensor(j - 1), decoder.reach).to(model.dtype)
            first = torch.cat([decoder.layers[0].weight, decoder.index.t()], 1)
            z = first @ torch.cat([row.cells[level][0], one_hot]) + decoder.layers[0].bias
            for layer in decoder.layers[1:]:
                z = layer.weight @ torch.relu(z) + layer.bias
            target = segment.inputs[-j]
            self.asked[level].append((span / len(indices), target))
            if decoder.tokens:
                losses.append(-torch.log_softmax(z, 0)[target] * self._symbol_weights()[target])
            else:
                losses.append(((z - target) ** 2).mean())
        self.local[level] = self.local[level] + span * sum(losses) / len(losses)

    def learned(self, total: Tensor | float, share: float) -> Tensor:
        """What the networks are to make small, given all that is differentiated: the squared errors of what they say."""
        found, errors = [None] * len(self.read), 0.0
        if isinstance(total, Tensor) and total.requires_grad:
            found = torch.autograd.grad(total, [u for _, u, _ in self.read], retain_graph=True, allow_unused=True)
        for (level, u, span), gradient in zip(self.read, found, strict=True):
            gradient = torch.zeros_like(u) if gradient is None else gradient
            errors = errors + span * (self.synthetic[level](u.detach()) - gradient / self.unit).square().mean() * share
        return errors

    def statistics(self, level: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of all that the level's decoder was asked in earlier windows, each window 0.99 of the next: the weight, the mean
        and the variance of the targets, one-hot for tokens; the variance is pooled over features."""
        decoder, pairs = self.model.decoders[level], []
        for age, asked in enumerate(reversed(self.known[level])):
            pairs += [(weight * 0.99**age, target) for weight, target in asked]
        size = decoder.layers[-1].out_features
        targets = [F.one_hot(t, size).double() if decoder.tokens else t.double() for _, t in pairs]
        total = torch.tensor(sum(weight for weight, _ in pairs), dtype=torch.float64)
        if not pairs:
            return total, torch.zeros(size, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        mean = sum(weight * t for (weight, _), t in zip(pairs, targets, strict=True)) / total
        apart = sum(weight * ((t - mean) ** 2).mean() for (weight, _), t in zip(pairs, targets, strict=True))
        return total, mean, apart / total

    def _symbol_weights(self) -> Tensor:
        total, share, _ = self.statistics(0)
        if self.model.config["symbol_weights"] == "equal" or not total:
            return torch.ones_like(share)
        least = 1 / (100 * int((share > 0).sum()))
        weights = torch.tensor([1 / max(float(p), least) for p in share], dtype=torch.float64)
        return weights / sum(p * w for p, w in zip(share, weights, strict=True))

    def _factor(self, level: int) -> float:
        total, mean, variance = self.statistics(level)
        if not self.model.config["normalized"][level] or not total:
            return 1.0
        if not self.model.decoders[level].tokens:
            return 1 / max(float(variance), 1e-6)
        shares = mean * self._symbol_weights()
        return 1 / max(sum(float(-p * p.log()) for p in shares if p > 0), 0.1)
