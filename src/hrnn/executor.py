"""The literal executor: goes through the tree of batches that `hrnn.schedule` has made, and lets autograd remember the ticks.

    batch(level, context):
        for each tick:
            s = hidden state of the level below, as it was before the tick
            h = cell(h, [s, context, if it is the first tick])
            batch(level - 1, h)

That is all of a forward pass. A level that reads raw inputs in place of `s` has all that it reads beforehand, so all ticks of
its batch run first, in one operation, and then the batches below, each of many segments side by side.

`hrnn.gradients.literal` says what else happens where upward edges are cut: there every batch has a graph of its own, which is
differentiated as soon as the batch is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from hrnn import raw
from hrnn.cells import BuiltinCell, Cell, CellState
from hrnn.cells.ticks import grown, run_ticks, shrunk
from hrnn.precision import Wide
from hrnn.schedule import Batch, Plan
from hrnn.segments import Clock
from hrnn.state import State
from hrnn.wiring import Wiring


@dataclass
class Ended:
    """Segments of one level that have just ended: what their local loss is computed from. n of them."""

    level: int
    summary: Tensor  # (n, hidden)
    row: Tensor  # (n,) row numbers
    ordinal: Tensor  # (n,)
    ticks: Tensor | int  # (n,)
    span: Tensor | int  # (n,) in steps
    recent: Callable[[Tensor], Tensor]  # index (m, n) to the index-th most recent inputs (m, n, ...)
    index: Tensor | None = None  # (m, n) what to decode, where that has been drawn already


Listener = Callable[[Ended], None]


@dataclass
class Ran:
    """A batch of the lowest level that has run."""

    batch: Batch
    output: Tensor  # (ticks, hidden)
    summary: Tensor  # (n, hidden) after each row's last tick
    inputs: Tensor
    context: Tensor | None
    above: list[Tensor]  # (n, hidden) each: the hidden states of the other levels meanwhile, if the output has them

    def shown(self) -> list[Tensor]:
        """Of every level that the output has, (ticks, hidden)."""
        if not self.above:
            return [self.output]
        sizes = self.batch.sizes
        if sizes and sizes[0] == sizes[-1]:
            return [self.output, *(part.repeat(len(sizes), 1) for part in self.above)]
        return [self.output, *(torch.cat([part[:size] for size in sizes]) for part in self.above)]

    def in_time(self) -> list[Tensor]:
        """The same as (columns, ticks, rows, hidden), views all of them, where the batch has `columns`: the order of time."""
        columns, length = self.batch.columns, len(self.batch.sizes)
        return [
            self.output.unflatten(0, (length, columns, -1)).transpose(0, 1),
            *(part.unflatten(0, (columns, 1, -1)).expand(-1, length, -1, -1) for part in self.above),
        ]


class Run:
    """A forward pass from a state on. `run` goes through some steps, and may be called again with those behind them.

    readers: of each level above the lowest, what makes something of the raw inputs that it reads. listener: told of every
    segment below the top that ends. seed: of the random numbers of users' cells, which then belong to a tick, whenever and
    however often it is run; None: torch's own go on
    """

    cut = False  # is every batch differentiated by itself?

    def __init__(
        self, cells: Sequence[Cell], state: State, wiring: Wiring, readers: Sequence[torch.nn.Module] = (), *,
        shows_all: bool = False, listener: Listener | None = None, seed: int | None = None,
    ):  # fmt: skip
        self.cells, self.shows_all, self.listener, self.seed = list(cells), shows_all, listener, seed
        self.wiring = wiring
        self.readers: list[Callable[..., Tensor]] = list(readers)
        self.top, self.begun = len(self.cells) - 1, state
        if any(p.is_meta for cell in self.cells for p in cell.parameters()):  # torch would compute with whatever is in memory
            raise ValueError("a parameter of the model is on meta, where nothing has a value; give it one")
        self.state: list[CellState] = [tuple(p.clone() if p.is_inference() else p for p in cell) for cell in state.cells]
        self.carried = list(self.state)  # of the segments that go on when these steps begin
        self.history = list(state.history)
        self.inputs_before, self.recent = state.inputs, state.recent  # raw inputs that may still be read
        self.calls: list[Callable[..., Any]] = [self._call(level) for level in range(len(self.cells))]
        self.shown = len(self.cells) if shows_all else 1  # levels that the output has
        self.everyone = torch.arange(state.batch, device=state.row.device)
        self.plan: Plan | None = None
        self.x = state.row  # (steps * rows, ...) of the steps that run now
        self.ran: list[Ran] = []

    def _call(self, level: int) -> Callable[..., Any]:
        """What runs a level's ticks."""
        wide = Wide(self.cells[level])
        return wide if wide.parameters else self.cells[level]

    def run(self, plan: Plan, x: Tensor) -> None:
        """Steps x (steps, rows, ...)."""
        self.plan, self.x, self.ran, self.carried = plan, x.flatten(0, 1), [], list(self.state)
        if self.cells[0].tokens:
            self.x = self.x.long()
        self.batch(self.top, plan.top, None, [])
        if plan.places is not None:
            self.remember(*raw.behind(plan.places, self.wiring, plan.top, self.everyone))

    def output(self, steps: int) -> Tensor:
        """The output (steps, rows, hidden) of the steps that have just run; zero where a row had none."""
        rows = self.begun.batch
        if not any(one.batch.sizes for one in self.ran):
            return self.state[0][0].new_zeros(steps, rows, sum(part[0].shape[1] for part in self.state[: self.shown]))
        plain = all(one.batch.columns for one in self.ran if one.batch.sizes)  # batches are in the order of time
        shown = [one.in_time() if plain else one.shown() for one in self.ran if one.batch.sizes]
        values = torch.cat([(of[0] if len(of) == 1 else torch.cat(of, -1)).flatten(0, -2) for of in shown])
        if plain and len(values) == steps * rows:
            return values.view(steps, rows, -1)
        at = [one.batch.numbers() for one in self.ran]
        return values.new_zeros(steps * rows, values.shape[1]).index_copy(0, torch.cat(at), values).view(steps, rows, -1)

    def after(self) -> State:
        """The state behind all steps so far: a copy, since what was returned must neither change nor be kept alive by it."""
        assert self.plan is not None
        clock = self.plan.clock
        cells = tuple(tuple(part.clone() for part in cell) for cell in self.state)
        return State.of(cells, clock, self.begun.row, self._histories(clock), self.inputs_before, self.recent)

    def _histories(self, clock: Clock) -> tuple[Tensor, ...]:
        return tuple(cleared(h, clock.position[:, i]) if len(h) else h for i, h in enumerate(self.history))

    # ------------------------------------------------------------------------------------------------------- the traversal

    def batch(self, level: int, b: Batch, context: Tensor | None, above: list[Tensor]) -> None:
        """One segment of some rows of a level, and all that lies below it. above: hidden states of the levels above."""
        state = None if b.fresh else picked(self.state[level], b.rows)
        if level == 0:
            self.lowest(b, state, context, above)
            return
        self.open(level)
        if self.wiring.leads(level):
            self._first(level, b, state, context, above)
            return
        if 0 in b.below:
            self._descend(level, b.below[0], None, above)
        inputs: list[Tensor] = []
        of_reader = self.read_inputs(level, b) if b.sizes and self.wiring.takes(level) else None
        ends: list[CellState] = []
        firsts = self.firsts(level, b)
        done, rows, unborn, reset = 0, b.rows, b.flags(b.table.unborn), b.flags(b.table.reset)
        for j, size in enumerate(b.sizes):
            state = None if state is None else shrunk(state, size, ends)
            below = self.state[level - 1][0]
            u = (
                below
                if rows is None and size == len(below)
                else below[:size]
                if rows is None
                else below.index_select(0, rows[:size])
            )
            if unborn is not None:
                u = u.masked_fill(unborn[done : done + size, None], 0.0)
            u = self.read(level, b, j, u)
            u = u if of_reader is None else torch.cat([u, of_reader[done : done + size]], 1)
            inputs.append(u.detach())
            starts = None if reset is None or not bool(reset[done : done + size].any()) else reset[done : done + size]
            _, state = self.ticks(level, firsts[j:], u, [size], state, context if j == 0 else None, starts)
            done += size
            self._descend(level, b.below[j + 1], state[0], above)
        for j in range(len(b.sizes), b.length):  # only other processes have rows there
            self._descend(level, b.below[j + 1], None, above)
        if state is not None:
            state = grown(state, ends)
            self.keep(level, b, state)
        self.close(level, b, state, inputs, context)

    def _first(self, level: int, b: Batch, state: CellState | None, context: Tensor | None, above: list[Tensor]) -> None:
        """A batch of a level that needs nothing of the levels below: all of its ticks, and then what they begin."""
        parts: Sequence[Tensor] = ()
        inputs: list[Tensor] = []
        if b.sizes:
            u = self.read_inputs(level, b)
            inputs = [u.detach()]
            hidden, state = self.ticks(level, self.firsts(level, b), u, b.sizes, state, context, b.flags(b.table.reset))
            self.keep(level, b, state)
            order, sizes = b.order_below()
            parts = (hidden if order is None else hidden.index_select(0, order)).split(sizes)
        if 0 in b.below:
            self._descend(level, b.below[0], None, above)
        done = 0
        for _, below in b.begun():
            if below.n:
                done += 1
                self._descend(level, below, parts[done - 1], above)
            else:
                self._descend(level, below, None, above)  # only other processes have rows there
        self.close(level, b, state, inputs, context)

    def lowest(self, b: Batch, state: CellState | None, context: Tensor | None, above: list[Tensor]) -> None:
        """A batch of the lowest level: all of its ticks at once."""
        inputs = self.inputs(b)
        output, after = self.of_lowest(b, inputs, state, context)
        self.keep(0, b, after)
        self.ran.append(Ran(b, output, after[0], inputs, context, above))
        self.ended(0, b, after[0], inputs)

    def of_lowest(self, b: Batch, inputs: Tensor, state: CellState | None, context: Tensor | None) -> tuple[Tensor, CellState]:
        """The ticks of a batch of the lowest level; before segments that start, those of the inputs before them."""
        before = self.inputs_before_segments(b) if self.wiring.burn_in and b.fresh and b.n else None
        firsts, reset = self.firsts(0, b), b.flags(b.table.reset)
        if before is None:
            return self.ticks(0, firsts, inputs, b.sizes, state, context, reset)
        more = self.wiring.burn_in
        if firsts:  # random numbers of their own
            firsts = [*((*firsts[0], j) for j in range(more)), *firsts]
        output, after = self.ticks(0, firsts, torch.cat([before, inputs]), [b.n] * more + b.sizes, state, context, None)
        return output[more * b.n :], after

    def inputs(self, b: Batch) -> Tensor:
        """What a batch of the lowest level reads, (ticks, ...)."""
        return b.taken(self.x)

    def _descend(self, level: int, b: Batch, hidden: Tensor | None, above: list[Tensor]) -> None:
        """The batch below a tick of a level, which has just made `hidden`; or, without one, what was unfinished there."""
        context = None
        if hidden is not None:
            together = b.place is not None or (b.column is None and b.n == len(hidden))
            context = self.send(level, hidden if together else placed(hidden, b))
        if self.shows_all:
            own = picked(self.carried[level][:1], b.rows)[0] if context is None else context
            own = own.detach() if self.cut and context is None else own
            above = [own, *(part if b.column is None and b.n == len(part) else placed(part, b) for part in above)]
        self.batch(level - 1, b, context, above)

    def ticks(
        self, level: int, firsts: list[tuple[int, ...]], inputs: Tensor, sizes: list[int], state: CellState | None,
        context: Tensor | None, reset: Tensor | None,
    ) -> tuple[Tensor, CellState]:  # fmt: skip
        """Consecutive ticks of a level, see `run_ticks` and `firsts`."""
        call = self._seeded(level, self.calls[level], firsts) if firsts else self.calls[level]
        return run_ticks(self.cells[level], call, inputs, sizes, state, context, reset)

    def firsts(self, level: int, b: Batch) -> list[tuple[int, ...]]:
        """Where a tick needs random numbers of its own, step * rows + row of the first row of each tick of a batch."""
        if self.seed is None or isinstance(self.cells[level], BuiltinCell) or not b.sizes:
            return []
        at, each = b.table.at[b.ticks], self.begun.batch if b.alike else 1
        firsts: list[int] = at[[first // each for first in (0, *accumulate(b.sizes[:-1]))]].tolist()
        return [(first,) for first in firsts]

    def _seeded(self, level: int, call: Callable[..., Any], firsts: list[tuple[int, ...]]) -> Callable[..., Any]:
        """A user's cell, each of whose ticks has random numbers of its own: those of its first row and step. Torch's own go on
        as if nothing had been."""
        numbers = iter(firsts)

        def seeded(*arguments: Any) -> Any:
            at, *burnt_in = next(numbers)
            with self.drawn(level, *self.number(at), *burnt_in):
                return call(*arguments)

        return seeded

    @contextmanager
    def drawn(self, *numbers: int) -> Iterator[None]:
        """Random numbers follow from the window's seed and these; torch's own go on as if nothing had been."""
        device, seed = self.begun.row.device, hash((self.seed, *numbers)) & (2**63 - 1)
        module = None if device.type == "cpu" else torch.get_device_module(device)
        before, on_device = torch.get_rng_state(), None if module is None else module.get_rng_state(device)
        torch.default_generator.manual_seed(seed)
        if module is not None:
            module.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(before)
            if module is not None:
                module.set_rng_state(on_device, device)

    def number(self, at: int) -> tuple[int, int]:
        """The step, counted from the window's first one, and the row of step * rows + row."""
        return divmod(at, self.begun.batch)

    def keep(self, level: int, b: Batch, state: CellState) -> None:
        """The state of a batch's rows, for those who read it and for what comes behind."""
        if (kept := b.kept()) is not None and level < self.top and not self.wiring.sends(level):
            state = tuple(part[kept] for part in state)
            if b.alike and len(state[0]):  # of all rows, in their order
                self.state[level] = state
            elif len(state[0]):
                rows = self.everyone[kept] if b.rows is None else b.rows[kept]
                self.state[level] = tuple(
                    old.index_copy(0, rows, new) for old, new in zip(self.state[level], state, strict=True)
                )
            return
        if b.rows is not None:
            state = tuple(old.index_copy(0, b.rows, new) for old, new in zip(self.state[level], state, strict=True))
        self.state[level] = state

    # -------------------------------------------------------------------------------------- raw inputs that levels read

    def read_inputs(self, level: int, b: Batch) -> Tensor:
        """What a level makes, for all ticks of a batch, of the raw inputs of the segments that ended before."""
        return self.readers[level - 1](raw.take(self.x, self.inputs_before, self.where(level, b)))

    def where(self, level: int, b: Batch) -> raw.Where:
        """Where they are."""
        assert self.plan is not None
        assert self.plan.places is not None
        return raw.of_ticks(self.plan.places, level, b, self.everyone)

    def inputs_before_segments(self, b: Batch) -> Tensor:
        """The inputs before the segments of a batch of the lowest level, the oldest first, (ticks, ...)."""
        return raw.take(self.x, self.recent, self.where_before(b)).squeeze(1)

    def where_before(self, b: Batch) -> raw.Where:
        """Where they are."""
        assert self.plan is not None
        assert self.plan.places is not None
        return raw.before_segments(self.plan.places, self.wiring.burn_in, b, self.everyone)

    def remember(self, latest: raw.Where, recent: raw.Where | None) -> None:
        """The raw inputs that steps behind these may read, and where they are."""
        if self.inputs_before is not None:
            self.inputs_before = raw.remembered(self.x, self.inputs_before, latest)
        if self.recent is not None and recent is not None:
            self.recent = raw.remembered(self.x, self.recent, recent)

    # ------------------------------------------------------------------------------------- what a gradient method changes

    def open(self, level: int) -> None:
        """A batch of a level above the lowest begins."""

    def read(self, level: int, b: Batch, j: int, u: Tensor) -> Tensor:
        """What a batch reads from the level below at its tick j."""
        return u

    def send(self, level: int, hidden: Tensor) -> Tensor:
        """The context that a tick sends down."""
        return hidden

    def close(self, level: int, b: Batch, state: CellState | None, inputs: list[Tensor], context: Tensor | None) -> None:
        """A batch of a level above the lowest is over."""
        if state is not None and level < self.top and self.wiring.sends(level):
            self.ended(level, b, state[0], torch.cat(inputs) if inputs else None)

    # ------------------------------------------------------------------------------------------------ segments that end

    def ended(self, level: int, b: Batch, summary: Tensor, inputs: Tensor | None) -> None:
        """A batch is over: some of its segments have ended, others go on in the next window."""
        if level == self.top or not self.wiring.sends(level):
            return
        if b.open and self.history and len(self.history[level]) and inputs is not None:
            self._remember(level, b, inputs.detach())
        if b.ends and self.listener is not None:
            self.listener(self.facts(level, b, summary, inputs))

    def facts(self, level: int, b: Batch, summary: Tensor, inputs: Tensor | None) -> Ended:
        """What the local loss of a batch's complete segments is computed from."""
        which, counts = b.which("complete"), b.counts
        at = self.everyone[: len(summary)] if b.rows is None else b.rows
        columns, counts, rows = self.everyone[: b.n][which], counts[which], at[which]
        firsts = torch.tensor([0, *accumulate(b.sizes)], device=counts.device)
        before = None if b.before is None else b.before[which]
        data = None if inputs is None else inputs.detach()

        def recent(index: Tensor) -> Tensor:
            place = counts - index
            here = None if data is None else data[(firsts[place.clamp(min=0)] + columns).clamp(max=len(data) - 1)]
            if before is None or not bool((place < 0).any()):
                assert here is not None
                return here
            history = self.begun.history[level]
            there = history[(before + place) % history.shape[0], rows]
            return there if here is None else torch.where((place >= 0).view(*place.shape, *[1] * (here.dim() - 2)), here, there)

        ticks, span = b.fact("ticks"), b.fact("span")
        if b.alike:  # numbers, with which there is less to do
            return Ended(
                level, summary, self.begun.row[rows], self.ordinal(level, b)[which], int(ticks[0]), int(span[0]), recent
            )
        return Ended(
            level, summary[which], self.begun.row[rows], self.ordinal(level, b)[which], ticks[which], span[which], recent
        )

    def ordinal(self, level: int, b: Batch) -> Tensor:
        """(n,) of its segments in the rows' sequences."""
        assert self.plan is not None
        shift, ordinal = self.plan.shift, b.fact("ordinal")
        return ordinal if shift is None else ordinal + shift[:, level]

    def _remember(self, level: int, b: Batch, inputs: Tensor) -> None:
        """The inputs of unfinished segments that later local losses may decode."""
        which, history = b.which("open"), self.history[level].clone()
        columns, counts = self.everyone[: b.n][which], b.counts[which]
        rows = columns if b.rows is None else b.rows[which]
        before = torch.zeros_like(counts) if b.before is None else b.before[which]
        firsts = torch.tensor([0, *accumulate(b.sizes)], device=counts.device)
        place = counts - 1 - torch.arange(len(history), device=counts.device)[:, None]  # ticks from the last one backward
        there = place >= 0
        slot, row = (before + place) % len(history), rows.expand(place.shape)
        history[slot[there], row[there]] = inputs[(firsts[place.clamp(min=0)] + columns)[there]]
        self.history[level] = history


def picked(state: CellState, rows: Tensor | None) -> CellState:
    """Of some rows; None: of all."""
    return state if rows is None else tuple(part.index_select(0, rows) for part in state)


def placed(values: Tensor, b: Batch) -> Tensor:
    """What the rows of a batch have among the values of the batch above."""
    return values[: b.n] if b.column is None else values.index_select(0, b.column)


def cleared(history: Tensor, position: Tensor) -> Tensor:
    """Without the inputs of segments that are over, so that equal situations have equal states."""
    live = torch.arange(history.shape[0], device=history.device)[:, None] < position
    return history.masked_fill(~live.view(*live.shape, *[1] * (history.dim() - 2)), 0)


def learned_starts(cells: Sequence[Cell]) -> list[bool]:
    """Of each level: may its cell start from anything but zero?"""
    return [not isinstance(cell, BuiltinCell) for cell in cells]
