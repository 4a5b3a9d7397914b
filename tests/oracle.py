"""The semantics, transcribed literally. `Row` says *when*: which level ticks at which step, and which segments there are, by
the rules of the periods and without a tensor. `Oracle` says *what*: these ticks, one row, one step, one level at a time, as one
graph that autograd goes through. Nothing of the library is used but the parameters, the configuration and a user's cell.

A level reads the summary of the segment below. What goes back along that edge is the method:

- nothing is cut: true gradients. With `every`, the window is several, whose states are constants: truncated ones;
- `restricted`: nothing goes back;
- `replay`, a probability: the gradient of a summary that is drawn goes back, divided by the probability;
- `synthetic`, a network for each level below the top: what the network says goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from hrnn.cells import GRU, LSTM, RNN
from hrnn.segments import Given, reach_of

# ----------------------------------------------------------------------------------------------------------------- when


@dataclass(eq=False)
class Segment:
    """Some consecutive ticks of a row's level. The top's is the row's whole past."""

    level: int
    row: int
    ordinal: int  # how many the level has had before, since the sequence began
    above: Segment | None  # that of the level above in which it lies
    ticks: list[Tick] = field(default_factory=list)  # in this window
    length: int = 0  # ticks, in all windows
    span: int = 0  # steps since the first, in all windows
    over: bool = False  # will the next tick start another?
    complete: int = 0  # it has ended as a whole, which was known in time: its local loss counts for so many steps
    inputs: list[Tensor] = field(default_factory=list)
    summary: Tensor | None = None  # after its last tick


@dataclass(eq=False)
class Tick:
    segment: Segment
    step: int
    first: bool  # it starts the segment
    read: Segment | None  # whose summary it reads; None: of none, at a sequence's first step
    began: Segment | None  # the segment of the level below that it begins
    reset: bool  # a sequence starts in the middle of the window


class Row:
    """Where one row is in its periods, and its ticks in a window."""

    def __init__(self, number: int, periods: list):
        self.number, self.periods = number, periods
        self.skipped = [0] * len(periods)
        self.whole = Segment(len(periods), number, 0, None)
        self.start()

    def start(self) -> None:
        """Before the first step of a sequence."""
        self.begun = False
        self.count = [0] * len(self.periods)  # segments begun
        self.latest: list[Segment | None] = [None] * len(self.periods)

    def known(self, level: int) -> bool:
        """Is a segment's end known with its last tick? With given boundaries only the next one tells."""
        return all(isinstance(period, int) for period in self.periods[: level + 1])

    def position(self, level: int) -> int:
        """Ticks so far in the segment that the next tick goes on with; 0: it starts one."""
        latest = self.latest[level]
        return 0 if latest is None or latest.over else latest.length

    def window(self, steps: int, flags: list[dict[int, bool]], resets: list[bool], every: int | None = None) -> Iterator[Tick]:
        """Its ticks in so many steps, from the first step to the last, in each from the top down. flags: of each step, and of
        the one behind the last if that is known, for the levels that have given boundaries: does the level above tick?"""
        self.carried = list(self.latest)
        self.opens()
        for t in range(steps):
            if every and t and t % every == 0:
                self.closes(flags[t])
                self.opens()
            yield from self.step(t, flags[t], resets[t])
        self.closes(flags[steps] if steps < len(flags) else {})

    def step(self, t: int, flags: dict[int, bool], reset: bool) -> Iterator[Tick]:
        if reset:
            over = True  # the data may say that the old sequence's last segments are complete
            for i, period in enumerate(self.periods):
                over = over and flags.get(i, self.position(i) % reach_of(period) == 0)
                if over:
                    self._ends(i)
            self.start()
        begins, ticks = [], True
        for i, period in enumerate(self.periods):
            ticks = ticks and (self.position(i) == 0 or flags.get(i, self.position(i) == period))
            begins.append(ticks)
        before, above = list(self.latest), self.whole
        for level in range(len(self.periods), -1, -1):
            if level < len(self.periods):
                if begins[level]:
                    self._ends(level)
                    self.latest[level] = Segment(level, self.number, self.count[level], above)
                    self.count[level] += 1
                above = self.latest[level]
        for segment in filter(None, self.latest):
            segment.span += 1
        for level, segment in reversed(list(enumerate([*self.latest, self.whole]))):
            if level and not begins[level - 1]:
                continue
            below = level - 1 if level else None
            tick = Tick(segment, t, level < len(begins) and begins[level],
                        None if below is None or not self.begun else before[below],
                        None if below is None else self.latest[below], reset)  # fmt: skip
            segment.ticks.append(tick)
            segment.length += 1
            if level < len(begins) and self.known(level) and segment.length == self.periods[level]:
                segment.complete = prod(self.periods[: level + 1])
            yield tick
        self.begun = True

    def _ends(self, level: int) -> None:
        """A segment whose end only the next boundary tells is complete; too late, if its ticks were all in earlier windows."""
        latest = self.latest[level]
        if not self.known(level) and self.position(level):
            latest.complete = latest.span if latest.ticks else 0
            self.skipped[level] += not latest.ticks

    def opens(self) -> None:
        for segment in (*filter(None, self.latest), self.whole):
            segment.ticks = []

    def closes(self, behind: dict[int, bool]) -> None:
        """A window ends: segments that have had all their ticks are over, and given ones if a boundary is known to follow."""
        ends = True
        for i, period in enumerate(self.periods):
            ends = ends and behind.get(i, not isinstance(period, Given) and self.position(i) % period == 0)
            if self.latest[i] is not None and (self.position(i) == period if self.known(i) else ends):
                self._ends(i)
                self.latest[i].over = True


# ----------------------------------------------------------------------------------------------------------------- what


def splitmix(*parts: int) -> int:
    """Sebastiano Vigna's splitmix64, chained over the parts, on Python integers."""
    x = 0
    for part in parts:
        x = (x + part + 0x9E3779B97F4A7C15) % 2**64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        x ^= x >> 31
    return x % 2**63


def cell_step(cell, u: Tensor, context: Tensor | None, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """h' = f(h, [u, context]) for one row, by the textbook."""
    if not isinstance(cell, LSTM | GRU | RNN):
        context = u.new_zeros(cell.context_size) if context is None else context
        return tuple(p[0] for p in cell.module.step(torch.cat([u, context])[None], tuple(p[None] for p in state)))
    entered, recurrent = cell.weight_input @ u + cell.bias, cell.weight_hidden @ state[0]
    if context is not None:
        entered = entered + cell.weight_context @ context
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
    return (torch.tanh(entered + recurrent),)


def cell_start(cell, like: Tensor) -> tuple[Tensor, ...]:
    if isinstance(cell, LSTM | GRU | RNN):
        return tuple(like.new_zeros(cell.hidden_size) for _ in range(1 + isinstance(cell, LSTM)))
    return tuple(part[0].clone() for part in cell.module.initial_state(1))


class Oracle:
    """A batch of rows and the state they carry; `window` runs them over one window."""

    def __init__(self, model, rows, restricted: bool, replay: float | None = None, synthetic=None, every: int | None = None):
        self.model, self.restricted, self.replay, self.synthetic, self.every = model, restricted, replay, synthetic, every
        self.like = next(model.parameters())
        self.shown = range(len(model.cells) if model.config["output"] == "all" else 1)  # levels that the output has
        self.known: list[list] = [[] for _ in model.periods]  # for every window so far, pairs of weight and target
        self.rows = [Row(number, model.periods) for number in (range(rows) if isinstance(rows, int) else rows)]
        self.cells: list[list[tuple[Tensor, ...]]] = []  # of each row, of each level

    def start(self) -> list[tuple[Tensor, ...]]:
        return [cell_start(cell, self.like) for cell in self.model.cells]

    def begin(self, steps, *, betas, seed, weight, local_weight, mask, boundaries, lengths, reset) -> list[Iterator[Tick]]:
        """A window's arguments; for each row its ticks. The states that it begins with are leaves, if there are any."""
        self.seed, self.weight, self.local_weight, self.betas = seed, weight, local_weight, betas
        self.cells = [[tuple(part.detach().requires_grad_() for part in cell) for cell in row] for row in self.cells]
        self.begun = [list(row) for row in self.cells]
        self.cells = self.cells or [self.start() for _ in self.rows]  # a learned start has its gradient in its first window
        self.read: list[tuple[int, Tensor, int]] = []  # level, summary, span, for networks to learn from
        self.asked: list[list] = [[] for _ in self.model.periods]
        self.sums = [0.0] * len(betas)
        given = [i for i, period in enumerate(self.model.periods) if isinstance(period, Given)]
        ticks, self.targets = [], []
        for b, row in enumerate(self.rows):
            length = steps if lengths is None else int(lengths[b])
            told = [{} for _ in range(length)] if boundaries is None else boundaries[: length + 1, b].tolist()
            flags = [dict(zip(given, one, strict=True)) if given else {} for one in told]
            self.targets += [(t, b) for t in range(length) if mask is None or bool(mask[t, b])]
            ticks.append(
                row.window(length, flags, [reset is not None and bool(reset[t, b]) for t in range(length)], self.every)
            )
        return ticks

    def window(self, x, y, *, loss, **arguments):
        """Outputs (T, B, H), what is differentiated, the task's loss, the local losses (sums, weighted), all with graph."""
        ticks = self.begin(len(x), **arguments)
        outputs = [[self.like.new_zeros(sum(self.model.hidden_sizes[i] for i in self.shown)) for _ in self.rows] for _ in x]
        segments: dict[Segment, None] = {}
        for b, cells in enumerate(self.cells):
            step = -1
            for tick in ticks[b]:
                level, begins = tick.segment.level, tick.step != step
                if begins and self.every and tick.step and tick.step % self.every == 0:
                    cells[:] = [tuple(part.detach() for part in cell) for cell in cells]
                if begins and tick.reset:
                    cells[:] = self.start()
                step, context = tick.step, cells[level + 1][0] if tick.first else None
                cells[level] = self.tick(tick, x[tick.step, b], cells[level], cells[level - 1][0], context)
                if level == 0:
                    outputs[step][b] = torch.cat([cells[i][0] for i in self.shown])
                segments[tick.segment] = None
        predicted, task = 0.0, self.task(loss, [outputs[t][b] for t, b in self.targets], y, self.targets)
        for segment in (segment for segment in segments if segment.complete):
            self.sums[segment.level] = self.sums[segment.level] + self.local_loss(segment)
            if self.synthetic is not None:
                says = self.synthetic[segment.level](segment.summary).detach()
                predicted = predicted + self.weight * (says * segment.summary).sum()
        local = [
            beta and value * self.local_weight * self.factor(i)
            for i, (beta, value) in enumerate(zip(self.betas, self.sums, strict=True))
        ]
        total = task + predicted + sum(beta * value for beta, value in zip(self.betas, local, strict=True))
        self.learn()
        return torch.stack([torch.stack(step) for step in outputs]), total, task, local

    def tick(self, tick: Tick, x: Tensor, state, summary: Tensor, context: Tensor | None) -> tuple[Tensor, ...]:
        """The state after it. x: of its step; state: of the level before; summary: the hidden state of the level below;
        context: that of the level above, where the tick starts a segment."""
        segment, model = tick.segment, self.model
        if segment.level == 0:
            u = F.one_hot(x, model.input_size).to(model.dtype) if model.tokens else x
        else:
            u = torch.zeros_like(summary) if tick.read is None else self.edge(tick.read, summary)
        if tick.first:
            state = cell_start(model.cells[segment.level], self.like)
        after = cell_step(model.cells[segment.level], u, context, state)
        segment.inputs.append((x if segment.level == 0 else u).detach())
        segment.summary = after[0]
        return after

    def edge(self, read: Segment, summary: Tensor) -> Tensor:
        """A summary as the level above reads it."""
        if self.replay is not None:
            drawn = splitmix(self.seed ^ 0x5EED0FED6E5, read.level, read.row, read.ordinal) >> 10 < self.replay * 2**53
            return summary.detach() + (summary - summary.detach()) * (1 / self.replay if drawn else 0.0)
        if self.restricted or self.synthetic is not None:
            summary = summary.detach()
        if self.synthetic is not None:
            self.read.append((read.level, summary.requires_grad_(), read.span))
        return summary

    def task(self, loss, outputs: list[Tensor], y: Tensor, targets: list[tuple[int, int]]) -> Tensor | float:
        """The weighted loss of outputs at some steps and rows."""
        if not targets:
            return 0.0
        return loss(torch.stack(outputs)[None], torch.stack([y[t, b] for t, b in targets])[None]).sum() * self.weight

    def local_loss(self, segment: Segment) -> Tensor | float:
        """A complete segment's, times the steps that it spans."""
        if not self.betas[segment.level]:
            return 0.0
        decoder, losses = self.model.decoders[segment.level], []
        reach = min(decoder.reach, segment.length)
        drawn = splitmix(self.seed, segment.level, segment.row, segment.ordinal) % reach + 1
        indices = range(1, reach + 1) if decoder.indices == "all" else [drawn]
        for j in indices:
            z = decoder.layers[0](segment.summary) + decoder.index[j - 1]  # the product of a one-hot index
            for layer in decoder.layers[1:]:
                z = layer(torch.relu(z))
            target = segment.inputs[-j]
            self.asked[segment.level].append((segment.complete / len(indices), target))
            if decoder.tokens:
                losses.append(-torch.log_softmax(z, 0)[target] * self.symbol_weights()[target])
            else:
                losses.append(((z - target) ** 2).mean())
        return segment.complete * sum(losses) / len(losses)

    def learned(self, total: Tensor | float, share: float) -> Tensor | float:
        """What the networks are to make small, given all that is differentiated: the squared errors of what they say."""
        found, errors = [None] * len(self.read), 0.0
        if isinstance(total, Tensor) and total.requires_grad and self.read:
            found = torch.autograd.grad(total, [u for _, u, _ in self.read], retain_graph=True, allow_unused=True)
        for (level, u, span), gradient in zip(self.read, found, strict=True):
            gradient = torch.zeros_like(u) if gradient is None else gradient
            errors = errors + span * (self.synthetic[level](u.detach()) - gradient / self.weight).square().mean() * share
        return errors

    def learn(self) -> None:
        """The window is over: what its decoders were asked is known from now on."""
        for level, asked in enumerate(self.asked):
            if asked:
                self.known[level].append(asked)

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

    def symbol_weights(self) -> Tensor:
        total, share, _ = self.statistics(0)
        if self.model.config["symbol_weights"] == "equal" or not total:
            return torch.ones_like(share)
        least = 1 / (100 * int((share > 0).sum()))
        weights = torch.tensor([1 / max(float(p), least) for p in share], dtype=torch.float64)
        return weights / sum(p * w for p, w in zip(share, weights, strict=True))

    def factor(self, level: int) -> float:
        """What a level's local losses are multiplied by."""
        if not self.model.config["normalized"][level]:
            return 1.0
        total, mean, variance = self.statistics(level)
        if not total:
            return 1.0
        if not self.model.decoders[level].tokens:
            return 1 / max(float(variance), 1e-6)
        shares = mean * self.symbol_weights()
        return 1 / max(sum(float(-p * p.log()) for p in shares if p > 0), 0.1)
