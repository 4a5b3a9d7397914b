"""The semantics, transcribed literally. `Row` says *when*: which level ticks at which step, and which segments there are, by
the rules of the periods and without a tensor. `Oracle` says *what*: these ticks, one row, one step, one level at a time, as one
graph that autograd goes through. Nothing of the library is used but the parameters, the configuration and a user's cell.

A level reads of the segment below that has ended the summary, the raw inputs, or both. Raw inputs lead to no other level. What
goes back along the edge of a summary is the method:

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
    parts: list = field(default_factory=list)  # in all windows: segments of the level below, or, of the lowest, the row's steps
    inputs: list[Tensor] = field(default_factory=list)
    summary: Tensor | None = None  # after its last tick


@dataclass(eq=False)
class Tick:
    segment: Segment
    step: int
    first: bool  # it starts the segment
    read: Segment | None  # which it reads; None: none, at a sequence's first step
    began: Segment | None  # the segment of the level below that it begins
    reset: bool  # a sequence starts in the middle of the window
    time: int  # steps of the row before it, in all windows
    since: int  # of these, in its sequence


class Row:
    """Where one row is in its periods, and its ticks in a window."""

    def __init__(self, number: int, periods: list):
        self.number, self.periods = number, periods
        self.skipped = [0] * len(periods)
        self.whole = Segment(len(periods), number, 0, None)
        self.time = 0  # steps in all windows
        self.start()

    def start(self) -> None:
        """Before the first step of a sequence."""
        self.begun, self.sequence = False, self.time
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
                    above.parts.append(self.latest[level])
                    self.count[level] += 1
                above = self.latest[level]
        for segment in filter(None, self.latest):
            segment.span += 1
        above.parts.append(self.time)
        for level, segment in reversed(list(enumerate([*self.latest, self.whole]))):
            if level and not begins[level - 1]:
                continue
            below = level - 1 if level else None
            tick = Tick(segment, t, level < len(begins) and begins[level],
                        None if below is None or not self.begun else before[below],
                        None if below is None else self.latest[below], reset, self.time, self.time - self.sequence)  # fmt: skip
            segment.ticks.append(tick)
            segment.length += 1
            if level < len(begins) and self.known(level) and segment.length == self.periods[level]:
                segment.complete = prod(self.periods[: level + 1])
            yield tick
        self.begun, self.time = True, self.time + 1

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
    """h' = f(h, [u, context]) for one row, by the textbook; None: there is no context among the inputs."""
    if not isinstance(cell, LSTM | GRU | RNN):
        u = u if context is None else torch.cat([u, context])
        return tuple(p[0] for p in cell.module.step(u[None], tuple(p[None] for p in state)))
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


def cell_from(cell, context: Tensor) -> tuple[Tensor, ...]:
    """The initial state that a context is made into."""
    if not isinstance(cell, LSTM | GRU | RNN):
        return tuple(part[0] for part in cell.module.from_context(context[None]))
    parts = (cell.weight_context @ context + cell.bias_context).split(cell.hidden_size)
    return (torch.tanh(parts[0]), *parts[1:])


def project(reader, kind: str, stage: int, parts: list[Tensor]) -> Tensor:
    """What a built-in reader makes of the parts of a segment, the latest first."""
    v = torch.relu(reader.weights[stage] @ torch.cat(parts) + reader.biases[stage])
    if kind == "linear":
        return v
    each = [reader.maxima[stage] @ part + reader.maximum_biases[stage] for part in parts]
    return torch.cat([v, torch.stack(each).amax(0)])


class Oracle:
    """A batch of rows and the state they carry; `window` runs them over one window."""

    def __init__(self, model, rows, restricted: bool, replay: float | None = None, synthetic=None, every: int | None = None):
        self.model, self.restricted, self.replay, self.synthetic, self.every = model, restricted, replay, synthetic, every
        self.like = next(model.parameters())
        self.reads = ["", *model.config["reads"]]  # of each level
        self.reader = ["", *model.config["reader"]]
        self.context = [*model.config["context"], ""]
        self.burn_in = model.config["burn_in"]
        self.sends = [reads != "inputs" for reads in self.reads[1:]]  # does a level's summary go up?
        self.shown = range(len(model.cells) if model.config["output"] == "all" else 1)  # levels that the output has
        self.known: list[list] = [[] for _ in model.periods]  # for every window so far, pairs of weight and target
        self.rows = [Row(number, model.periods) for number in (range(rows) if isinstance(rows, int) else rows)]
        self.cells: list[list[tuple[Tensor, ...]]] = []  # of each row, of each level
        self.raw: dict[int, list[Tensor]] = {row.number: [] for row in self.rows}  # all inputs so far

    def start(self) -> list[tuple[Tensor, ...]]:
        return [cell_start(cell, self.like) for cell in self.model.cells]

    def begin(self, x, *, betas, seed, weight, local_weight, mask, boundaries, lengths, reset) -> list[Iterator[Tick]]:
        """A window's arguments; for each row its ticks. The states that it begins with are leaves, if there are any."""
        self.seed, self.weight, self.local_weight, self.betas = seed, weight, local_weight, betas
        self.cells = [[tuple(part.detach().requires_grad_() for part in cell) for cell in row] for row in self.cells]
        self.begun = [list(row) for row in self.cells]
        self.cells = self.cells or [self.start() for _ in self.rows]  # a learned start has its gradient in its first window
        self.read: list[tuple[int, Tensor, int]] = []  # level, summary, span, for networks to learn from
        self.asked: list[list] = [[] for _ in self.model.periods]
        self.sums, steps = [0.0] * len(betas), len(x)
        self.symbols = self.symbol_weights() if self.model.tokens and any(self.sends[:1]) else None
        self.scales = [self.factors(level) if read else [] for level, read in enumerate(self.sends)]
        given = [i for i, period in enumerate(self.model.periods) if isinstance(period, Given)]
        ticks, self.targets = [], []
        for b, row in enumerate(self.rows):
            length = steps if lengths is None else int(lengths[b])
            self.raw[row.number] = [*(old.detach() for old in self.raw[row.number]), *(x[t, b] for t in range(length))]
            told = [{} for _ in range(length)] if boundaries is None else boundaries[: length + 1, b].tolist()
            flags = [dict(zip(given, one, strict=True)) if given else {} for one in told]
            self.targets += [(t, b) for t in range(length) if mask is None or bool(mask[t, b])]
            ticks.append(
                row.window(length, flags, [reset is not None and bool(reset[t, b]) for t in range(length)], self.every)
            )
        return ticks

    def window(self, x, y, *, loss, **arguments):
        """Outputs (T, B, H), what is differentiated, the task's loss, the local losses (sums, weighted), all with graph."""
        ticks = self.begin(x, **arguments)
        outputs = [[self.like.new_zeros(sum(self.model.hidden_sizes[i] for i in self.shown)) for _ in self.rows] for _ in x]
        segments: dict[Segment, None] = {}
        for b, cells in enumerate(self.cells):
            step = -1
            for tick in ticks[b]:
                level, begins = tick.segment.level, tick.step != step
                if begins and self.every and tick.step and tick.step % self.every == 0:
                    cells[:] = [tuple(part.detach() for part in cell) for cell in cells]
                    own = self.raw[tick.segment.row]
                    own[: tick.time] = [old.detach() for old in own[: tick.time]]
                if begins and tick.reset:
                    cells[:] = self.start()
                step, context = tick.step, cells[level + 1][0] if tick.first else None
                cells[level] = self.tick(tick, cells[level], cells[level - 1][0], context)
                if level == 0:
                    outputs[step][b] = torch.cat([cells[i][0] for i in self.shown])
                segments[tick.segment] = None
        predicted, task = 0.0, self.task(loss, [outputs[t][b] for t, b in self.targets], y, self.targets)
        for segment in (segment for segment in segments if segment.complete):
            self.sums[segment.level] = self.sums[segment.level] + self.local_loss(segment)
            if self.synthetic is not None and self.sends[segment.level]:
                says = self.synthetic[segment.level](segment.summary).detach()
                predicted = predicted + self.weight * (says * segment.summary).sum()
        local = [beta and value * self.local_weight for beta, value in zip(self.betas, self.sums, strict=True)]
        total = task + predicted + sum(beta * value for beta, value in zip(self.betas, local, strict=True))
        self.learn()
        return torch.stack([torch.stack(step) for step in outputs]), total, task, local

    def tick(self, tick: Tick, state, summary: Tensor, context: Tensor | None) -> tuple[Tensor, ...]:
        """The state after it. state: of the level before; summary: the hidden state of the level below; context: that of the
        level above, where the tick starts a segment."""
        segment, level, inputs = tick.segment, tick.segment.level, [self.input(tick, summary)]
        cell, by_input = self.model.cells[level], self.context[level] == "input"
        nothing = self.like.new_zeros(self.model.hidden_sizes[level + 1]) if by_input else None
        target = inputs[0] if level else self.raw[segment.row][tick.time]
        if tick.first:
            state = cell_start(cell, self.like) if by_input else cell_from(cell, context)
            inputs = inputs if level else [*self.early(tick), *inputs]
        context = context if tick.first and by_input else nothing
        for u in inputs:
            state, context = cell_step(cell, u, context, state), nothing
        segment.inputs.append(target.detach())
        segment.summary = state[0]
        return state

    def input(self, tick: Tick, summary: Tensor) -> Tensor:
        """A tick's: of the lowest level the row's own, above it the summary, what the reader gives, or one behind the other."""
        level, parts = tick.segment.level, []
        if level == 0:
            return self.vector(self.raw[tick.segment.row][tick.time])
        if self.reads[level] != "inputs":
            parts.append(torch.zeros_like(summary) if tick.read is None else self.edge(tick.read, summary))
        if self.reads[level] != "summary":
            parts.append(self.seen(level, tick.read))
        return torch.cat(parts)

    def vector(self, x: Tensor | None) -> Tensor:
        """An input, or where there is none zeros."""
        if x is None:
            return self.like.new_zeros(self.model.input_size)
        return F.one_hot(x, self.model.input_size).to(self.like.dtype) if self.model.tokens else x

    def early(self, tick: Tick) -> list[Tensor]:
        """The inputs before a segment's own that it is run over first."""
        before = self.raw[tick.segment.row][tick.time - min(self.burn_in, tick.since) : tick.time]
        return [self.vector(None)] * (self.burn_in - len(before)) + [self.vector(x) for x in before]

    def places(self, level: int, segment: Segment | None) -> list[Tensor | None]:
        """The inputs of a segment, by part, the latest first, as many as the reach says; None where there are not so many."""
        reach = reach_of(self.model.periods[level])
        parts = [] if segment is None else segment.parts[::-1][:reach]
        parts += [None] * (reach - len(parts))
        if level == 0:
            return [None if part is None else self.raw[segment.row][part] for part in parts]
        return [x for part in parts for x in self.places(level - 1, part)]

    def seen(self, level: int, segment: Segment | None) -> Tensor:
        """What a level's reader gives of a segment of the level below."""
        reader, kind = self.model.readers[level - 1], self.reader[level]
        reaches = [reach_of(period) for period in self.model.periods[:level]]
        parts = [self.vector(x) for x in self.places(level - 1, segment)]
        if kind is None:
            return reader.module(torch.stack(parts).view(1, *reversed(reaches), -1))[0]
        for stage, reach in enumerate(reaches):
            parts = [project(reader, kind, stage, parts[i : i + reach]) for i in range(0, len(parts), reach)]
        return parts[0]

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
        """A complete segment's, scaled, times the steps that it spans."""
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
                losses.append(-torch.log_softmax(z, 0)[target] * self.symbols[target] * self.scales[segment.level][0])
            else:
                errors = ((z - target) ** 2).split(self.halves(segment.level))
                losses.append(torch.cat([e * f for e, f in zip(errors, self.scales[segment.level], strict=True)]).mean())
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

    def halves(self, level: int) -> list[int]:
        """Numbers of what a level's input consists of: of an input, a summary, what a reader gave."""
        if level == 0:
            return [self.model.input_size]
        below, own = self.model.hidden_sizes[level - 1 : level + 1]
        return {"summary": [below], "inputs": [own], "both": [below, own]}[self.reads[level]]

    def statistics(self, level: int) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Of all that the level's decoder was asked in earlier windows, each window 0.99 of the next: the weight, the mean
        and the variances of the targets, one-hot for tokens; the variance is pooled over the features of each half."""
        tokens, sizes, pairs = self.model.decoders[level].tokens, self.halves(level), []
        for age, asked in enumerate(reversed(self.known[level])):
            pairs += [(weight * 0.99**age, target) for weight, target in asked]
        targets = [F.one_hot(t, sizes[0]).double() if tokens else t.double() for _, t in pairs]
        total = torch.tensor(sum(weight for weight, _ in pairs), dtype=torch.float64)
        if not pairs:
            return total, torch.zeros(sum(sizes), dtype=torch.float64), [torch.zeros_like(total) for _ in sizes]
        mean = sum(weight * t for (weight, _), t in zip(pairs, targets, strict=True)) / total
        squares = sum(weight * (t - mean) ** 2 for (weight, _), t in zip(pairs, targets, strict=True)) / total
        return total, mean, [half.mean() for half in squares.split(sizes)]

    def symbol_weights(self) -> Tensor:
        total, share, _ = self.statistics(0)
        if self.model.config["symbol_weights"] == "equal" or not total:
            return torch.ones_like(share)
        least = 1 / (100 * int((share > 0).sum()))
        weights = torch.tensor([1 / max(float(p), least) for p in share], dtype=torch.float64)
        return weights / sum(p * w for p, w in zip(share, weights, strict=True))

    def factors(self, level: int) -> list[float]:
        """What the halves of a level's local losses are multiplied by."""
        total, mean, variances = self.statistics(level)
        if not self.model.config["normalized"][level] or not total:
            return [1.0 for _ in variances]
        if not self.model.decoders[level].tokens:
            return [1 / max(float(variance), 1e-6) for variance in variances]
        shares = mean * self.symbols
        return [1 / max(sum(float(-p * p.log()) for p in shares if p > 0), 0.1)]
