"""The literal executor, differentiated: by autograd alone, for any cell, dtype and device, whether rows tick together or not.

Where upward edges are cut, every batch has a graph of its own, and a `Tape`:

    batch(level, context):                                      # `hrnn.executor`
        for each tick:
            s = hidden state of the level below, detached       # what goes up: no gradient comes back
            h = cell(h, [s, context at the first tick])
            g = h.detach().requires_grad_()                     # what goes down: a leaf
            batch(level - 1, g)
        E = task losses of h + sum of h * dE/dg + beta * local losses of the last h
        dE/dw, dE/dcontext = autograd.grad(E, [w, context])     # one graph a batch, and then it is forgotten
        w may move: all ticks of the batch ran with it, and nothing of them is unfinished

Otherwise all steps are one graph with a single tape, which is differentiated at their end: true gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hrnn import raw
from hrnn.cells import CellState, by_hand
from hrnn.cells.ticks import run_ticks
from hrnn.executor import Ended, Ran, Run, picked
from hrnn.gradients.edges import Edges
from hrnn.gradients.gathered import muted
from hrnn.gradients.objective import Objective
from hrnn.gradients.predictions import Predictions
from hrnn.gradients.steps import Piece
from hrnn.gradients.updates import Mover
from hrnn.gradients.window import Differentiated, InputGradient, Window
from hrnn.precision import Wide, wide
from hrnn.readers import UserReader
from hrnn.room import batches_at_once, shown_at_once, ticks_at_once
from hrnn.schedule import Batch, Plan
from hrnn.state import State

Receiver = Callable[[Tensor], Any]


@dataclass
class Tape:
    """Ticks that are differentiated together."""

    reached: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # tensors, and gradients that have reached them
    leaves: list[tuple[Tensor, Receiver]] = field(default_factory=list)  # and who gets the gradients of these
    read: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  # for `Predictions.learn`
    sums: dict[int, int] = field(default_factory=dict)  # of a tensor's id: where among those reached its own gradients are

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        """A gradient has reached a tensor that others may reach, too: many batches below may show the same context."""
        if (at := self.sums.get(id(tensor))) is None:
            self.sums[id(tensor)] = len(self.reached)
            self.reached.append((tensor, gradient))
        else:
            self.reached[at] = tensor, self.reached[at][1] + gradient


class Literal(Run):
    """Some steps of a window, from a state on.

    cut: no gradient goes back along the upward edges, and each batch is differentiated as soon as it is over. Without it `tape`
    is what is left, to be differentiated by `differentiate`.
    losses: are there any, or is only the state behind wanted? edges: what the gradients of summaries count for; many: steps of
    the output that the loss is shown at once
    """

    def __init__(
        self, window: Window, objective: Objective, state: State, mover: Mover | None = None, *, cut: bool, losses: bool = True,
        d_x: InputGradient | None = None, edges: Edges | None = None, predictions: Predictions | None = None,
        many: int | None = None, numbers: dict[str, Tensor] | None = None,
    ):  # fmt: skip
        self.window, self.objective, self.cut, self.losses, self.many = window, objective, cut, losses, many
        self.mover = mover or Mover(None, len(window.model.levels), None, state.batch)
        self.edges, self.predictions, self.d_x = edges, predictions, d_x or InputGradient(window)
        self.own: list[list[tuple[Tensor, Tensor]]] = [[] for _ in window.model.levels]
        with torch.enable_grad():
            super().__init__(
                window.model.levels, state, window.wiring, list(window.model.readers), shows_all=window.model.shows_all,
                seed=window.seed,
            )  # fmt: skip
        one = Tape()
        self.tape = [Tape() if cut else one for _ in self.cells]
        self.sent: list[tuple[Tensor, Receiver] | None] = [None] * len(self.cells)  # the last context of each level
        self.waiting: list[Ran] = []
        self.numbers = numbers or {}  # the window's steps of the raw inputs that are remembered, where x wants a gradient
        self.taken_from: tuple[Tensor, raw.Where] | None = None  # earlier steps with all the raw inputs that are remembered
        self.tells = window.on_segment
        self.at_once, self.again, self.ticked, self.in_rounds, self.steps = 1, False, False, False, 0

    def _call(self, level: int) -> Callable[..., Any]:
        """Parameters in half precision are leaves in single precision, in which gradients are added up."""
        self.own[level] = []
        if self.wiring.takes(level):
            self.readers[level - 1] = self._with_leaves(level, self.window.model.readers[level - 1])
        return self._with_leaves(level, self.cells[level])

    def _with_leaves(self, level: int, module: torch.nn.Module) -> Callable[..., Any]:
        parameters = list(module.parameters())
        self.own[level] += [(p, p) for p in parameters if p.requires_grad]
        if all(wide(p) is p for p in parameters) or not (call := Wide(module)).parameters:
            return module
        call.parameters = {name: p.detach().requires_grad_(p.requires_grad) for name, p in call.parameters.items()}
        self.own[level] += [(p, call.parameters[name]) for name, p in module.named_parameters() if p.requires_grad]
        return call

    def go(self, plan: Plan, piece: Piece, goes_on: bool = False) -> None:
        """Steps of the window, and all but what belongs to its end; further ones may follow if it goes on."""
        self.piece, self.in_rounds = piece, self.in_rounds or goes_on
        self.mover.begin(plan, goes_on)
        self.ticked = self.ticked or plan.top.length > 0
        if self.cut and self.top and self.wiring.sends(0):
            width = self.window.model.dtype.itemsize
            self.at_once = batches_at_once(self.cells[0].hidden_size, plan.steps, plan.count[0], width)
            self.at_once = self.mover.segments_left(0, self.at_once)
            self.again = self.at_once > 1 and by_hand(self.cells[0])
        with torch.set_grad_enabled(self.losses):
            self.run(plan, piece.x.detach())
            self._differentiate_lowest()
            if self.losses and self.ran:
                if self.cut:
                    self._task(self.ran)
                else:
                    self._task_of_all()

    def finish(self) -> State:
        """The window is over, and its edges are cut; the state behind it."""
        with torch.enable_grad():
            self._differentiate(self.top, [])
        self.mover.closed[self.top] = int(self.ticked)
        self.mover.finish(self._gradients)
        self.d_x.gather(self.objective.gathered)
        return self.after_detached()

    def finish_block(self, d_after: list[Tensor]) -> tuple[State, list[Tensor]]:
        """The steps are a block of a window, whose top goes on with `d_after`, the gradient of its state there, nothing: zero.
        The state behind, and the gradient of the top's state before."""
        tape, before, after = self.tape[self.top], self.carried[self.top], self.state[self.top]
        found = [torch.zeros_like(part) for part in before]
        tape.reached += zip(after, d_after, strict=False)
        tape.leaves += [(leaf, one.copy_) for leaf, one in zip(before, found, strict=True) if leaf.requires_grad]
        with torch.enable_grad():
            self._differentiate(self.top, [])
        return self.after_detached(), found

    def after_detached(self) -> State:
        """The state behind the steps so far, without a graph."""
        assert self.plan is not None
        clock = self.plan.clock
        cells = tuple(tuple(part.detach().clone() for part in cell) for cell in self.state)
        return State.of(cells, clock, self.begun.row, self._histories(clock), self.inputs_before, self.recent)

    def differentiate(self, d_after: Sequence[Tensor | None] = ()) -> list[Tensor | None]:
        """All steps are one graph: gather everything, given the gradient of the state behind it; that of the state before."""
        tape, before = self.tape[0], [part for cell in self.begun.cells for part in cell]
        after = [part for cell in self.state for part in cell]
        tape.reached += [(part, d) for part, d in zip(after, d_after, strict=False) if d is not None]
        found: list[Tensor | None] = [None] * len(before)
        tape.leaves += [(leaf, partial(found.__setitem__, i)) for i, leaf in enumerate(before) if leaf.requires_grad]
        self._backward(tape, [pair for own in self.own for pair in own])
        return found

    # --------------------------------------------------------------------------------------------- levels above the lowest

    def open(self, level: int) -> None:
        if self.cut and level < self.top:
            self.tape[level] = Tape()

    def read(self, level: int, b: Batch, j: int, u: Tensor) -> Tensor:
        if self.predictions is not None:  # the gradient of the summary is to be learned
            leaf, known = u.detach().requires_grad_(), torch.zeros_like(u)
            below = b.below[j + 1]
            span = below.fact("read") * (self.ordinal(level - 1, below) > 0)
            self.tape[level].leaves.append((leaf, known.copy_))
            self.tape[level].read.append((leaf.detach(), known, _placed_back(span, below)))
            return leaf
        if self.cut:
            return u.detach()
        if self.edges is None or not self.edges.probability:
            return u if self.edges is None else u.detach()
        below = b.below[j + 1]
        row = picked((self.begun.row,), below.rows)[0]
        weights = _placed_back(self.edges.weights(level - 1, row, self.ordinal(level - 1, below) - 1), below)
        return u.detach() + (u - u.detach()) * weights[:, None]  # the value to the last bit, the gradient weighted

    def send(self, level: int, hidden: Tensor) -> Tensor:
        if not self.cut:
            return hidden
        leaf = hidden.detach().requires_grad_()
        self.sent[level] = leaf, partial(self.tape[level].add, hidden)
        return leaf

    def _descend(self, level: int, b: Batch, hidden: Tensor | None, above: list[Tensor]) -> None:
        self.sent[level] = None
        super()._descend(level, b, hidden, above)

    def keep(self, level: int, b: Batch, state: CellState) -> None:
        if self.cut and level < self.top:
            state = tuple(part.detach() for part in state)
        super().keep(level, b, state)

    def close(self, level: int, b: Batch, state: CellState | None, inputs: list[Tensor], context: Tensor | None) -> None:
        self._differentiate_lowest()
        super().close(level, b, state, inputs, context)
        if self.cut and context is not None and (sent := self.sent[level + 1]) is not None:
            self.tape[level].leaves.append(sent)
        if self.cut and level < self.top:
            self._differentiate(level, [b])

    # ------------------------------------------------------------------------------------------------- the lowest level

    def lowest(self, b: Batch, state: CellState | None, context: Tensor | None, above: list[Tensor]) -> None:
        if not self.cut:
            super().lowest(b, state, context, above)
            if not self.losses:
                self.ran.clear()
            return
        if self.waiting and not self._together(b):
            self._differentiate_lowest()
        if not b.n:  # only other processes have rows there
            self.mover.over(0, b)
            self._maybe_move(0)
            return
        inputs = self.inputs(b)
        with torch.set_grad_enabled(not self.again):
            output, after = self.of_lowest(b, inputs, state, context)
        self.keep(0, b, after)
        known = {id(leaf) for leaf, _ in self.tape[0].leaves}
        shown = self.sent[1:] if self.shows_all else self.sent[1:2] if context is not None else []
        self.tape[0].leaves += [one for one in shown if one is not None and id(one[0]) not in known]
        ran = Ran(b, output, after[0], inputs, context, above)
        if not self.top:  # the window is one segment
            self.ran.append(ran)
            return
        if b.open and self.history and len(self.history[0]):
            self._remember(0, b, inputs.detach())
        self.waiting.append(ran)
        if len(self.waiting) >= self.mover.segments_left(0, self.at_once):
            self._differentiate_lowest()

    def inputs(self, b: Batch) -> Tensor:
        inputs = super().inputs(b)
        if self.d_x.total is not None and self.losses:
            inputs = inputs.detach().requires_grad_()
            self.tape[0].leaves.append((inputs, partial(self._of_inputs, b, self.piece)))
        return inputs

    def inputs_before_segments(self, b: Batch) -> Tensor:
        inputs = super().inputs_before_segments(b)
        if self.d_x.total is not None and self.losses:
            inputs = inputs.detach().requires_grad_()
            self.tape[0].leaves.append((inputs, partial(self._of_places, self._steps_of(self.where_before(b), "recent"))))
        return inputs

    def read_inputs(self, level: int, b: Batch) -> Tensor:
        """Where all of it is large, as that of the top may become from round to round, it is made without a graph, and again,
        some ticks at a time, when its gradient is known."""
        read = Read(self.readers[level - 1], self.x, self.inputs_before, self.where(level, b))
        if isinstance(self.window.model.readers[level - 1], UserReader):  # it may draw random numbers, which are the batch's
            first = self.number(int(b.table.at[b.ticks.start]))
            read.drawn = lambda start: self.drawn(-1 - level, *first, start)
        if not self.losses:
            return read.made(slice(0, read.count))
        if self.d_x.total is not None:
            read.steps = self._steps_of(read.where, "inputs")
        at_once = ticks_at_once(self.wiring.parts(level), self.x[0].numel(), self.cells[level].hidden_size, read.rows)
        parts = [slice(start, min(start + at_once, read.count)) for start in range(0, read.count, at_once)]
        if not self.cut or (len(parts) == 1 and not (self.in_rounds and level == self.top)):
            leaf, made = read.with_leaf(slice(0, read.count))
            if leaf is not None:
                assert read.steps is not None
                self.tape[level].leaves.append((leaf, partial(self._of_places, read.steps)))
            return made
        with torch.no_grad():
            values = torch.cat([read.made(part) for part in parts])
        if self.taken_from is not None:  # they are there anyway
            read = replace(read, remembered=None, taken_from=self.taken_from)
        values.requires_grad_()
        self.tape[level].leaves.append((values, partial(self._read_again, level, read, parts)))
        return values

    def _read_again(self, level: int, read: Read, parts: list[slice], gradient: Tensor) -> None:
        own, rows = self.own[level], max(1, read.rows)
        for part in parts:
            with torch.enable_grad():
                leaf, made = read.with_leaf(part)
            d, leaves = gradient[part.start * rows : part.stop * rows], [one for _, one in own]
            leaves += [] if leaf is None else [leaf]
            if not leaves:
                return
            with muted([p for p, _ in own]):
                found = torch.autograd.grad(made, leaves, d, allow_unused=True)
            for (parameter, _), one in zip(own, found, strict=False):
                self.objective.gathered.add(parameter, one)
            if leaf is not None and read.steps is not None and found[-1] is not None:
                self._of_places(read.steps[part.start * rows : part.stop * rows], found[-1])

    def _steps_of(self, where: raw.Where, name: str) -> Tensor:
        return raw.steps_of(where, self.piece.origin, self.numbers.get(name), self.begun.batch)

    def _of_places(self, steps: Tensor, gradient: Tensor) -> None:
        """The gradient of x where it has been read as a raw input."""
        assert self.d_x.total is not None
        flat, there = self.d_x.total.flatten(0, 1), steps.flatten() >= 0
        size = self.d_x.total.shape[-1]
        if bool(there.any()):
            flat.index_add_(0, steps.flatten()[there], gradient.reshape(-1, size)[there])

    def remember(self, latest: raw.Where, recent: raw.Where | None) -> None:
        numbers, rows = {}, max(1, self.begun.batch)
        for name, where in (("inputs", latest), ("recent", recent)) if self.d_x.total is not None else ():
            if where is not None:
                numbers[name] = self._steps_of(where, name).t().div(rows, rounding_mode="floor")
        self.taken_from = (self.x, latest) if latest.before is None else None
        super().remember(latest, recent)
        self.numbers = numbers

    def number(self, at: int) -> tuple[int, int]:
        (step, row), origin = super().number(at), self.piece.origin
        return origin + step if isinstance(origin, int) else int(origin[step, row]), int(self.begun.row[row])

    def _of_inputs(self, b: Batch, piece: Piece, gradient: Tensor) -> None:
        """The gradient of x where a batch has read it."""
        total, rows, origin = self.d_x.total, self.begun.batch, piece.origin
        assert total is not None
        if isinstance(b.at, slice) and isinstance(origin, int):
            at = slice(origin + b.at.start, origin + b.at.stop)
            total[at] += gradient.view(total[at].shape)
            return
        read = b.numbers()
        step = origin + read // rows if isinstance(origin, int) else origin.flatten()[read]
        total[step, read % rows] += gradient

    def _together(self, b: Batch) -> bool:
        """Can it be differentiated together with the batches that wait?"""
        last = self.waiting[-1].batch
        return b.n > 0 and b.fresh and last.fresh and (not b.alike or (b.ends and last.ends))

    def _differentiate_lowest(self) -> None:
        """The losses of the batches that wait, and their gradients."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        if self.again:
            self._run_again(waiting)
        self._task(waiting)
        self._local(0, [(one.batch, one.summary, one.inputs) for one in waiting])
        self._differentiate(0, [one.batch for one in waiting])

    def _run_again(self, waiting: list[Ran]) -> None:
        """Batches have run one by one, without a graph, as the level above had to read their summaries. They run again side by
        side, with one: in small networks fewer and larger operations are quicker although there are twice as many ticks."""
        cell, first = self.cells[0], waiting[0]
        if not first.batch.fresh:  # it waits alone
            state = picked(self.carried[0], first.batch.rows)
            first.output, after = run_ticks(cell, cell, first.inputs, first.batch.sizes, state, None)
            first.summary = after[0]
            return
        inputs = torch.cat([one.inputs for one in waiting])
        context = torch.cat([one.context for one in waiting if one.context is not None])
        count, length, n = len(waiting), len(first.batch.sizes), first.batch.n
        if all(one.batch.sizes == [n] * length for one in waiting):  # side by side they need no order
            inputs = inputs.view(count, length, n, *inputs.shape[1:]).transpose(0, 1).flatten(0, 2)
            output, after = run_ticks(cell, cell, inputs, [count * n] * length, None, context)
            outputs: Sequence[Tensor] = output.view(length, count, n, -1).transpose(0, 1).flatten(1, 2).unbind(0)
            summaries: Sequence[Tensor] = after[0].view(count, n, -1).unbind(0)
        else:
            sizes, ticks, rows = side_by_side([one.batch for one in waiting], inputs.device)
            output, after = run_ticks(cell, cell, inputs[ticks], sizes, None, context.index_select(0, rows))
            outputs = output.index_select(0, ticks.argsort()).split([len(one.output) for one in waiting])
            summaries = after[0].index_select(0, rows.argsort()).split([one.batch.n for one in waiting])
        for one, own, summary in zip(waiting, outputs, summaries, strict=True):
            one.output, one.summary = own, summary

    # ------------------------------------------------------------------------------------------------------------ losses

    def _task(self, ran: list[Ran]) -> None:
        """The task's loss on the output of some batches; all that is left is the gradient of the output."""
        if all(one.batch.columns for one in ran):
            self._task_in_time(ran)
            return
        parts, piece = [one.shown() for one in ran], self.piece
        leaf = torch.cat([(part[0] if len(part) == 1 else torch.cat(part, -1)).detach() for part in parts])
        order = None
        if all(one.batch.alike for one in ran):
            order = ran[0].batch.in_order() if len(ran) == 1 else None
            leaf = (leaf if order is None else leaf.index_select(0, order)).view(-1, self.begun.batch, leaf.shape[1])
            y, mask = self._asked_from(ran[0].batch.start, len(leaf))
        else:  # one packed step
            which = torch.cat([one.batch.table.at[one.batch.ticks] for one in ran])
            leaf = leaf[None]
            y, mask = (None if v is None else v.flatten(0, 1)[which][None] for v in (piece.y, piece.mask))
        gradient = self._of_loss(leaf, y, mask)
        if gradient is not None:
            gradient = gradient.flatten(0, 1)
            gradient = gradient if order is None else torch.empty_like(gradient).index_copy(0, order, gradient)
            split = gradient.split([len(one.output) for one in ran])
            for part, own in zip(parts, split, strict=True):
                self.tape[0].reached += zip(part, own.split([one.shape[-1] for one in part], -1), strict=True)

    def _task_in_time(self, ran: list[Ran]) -> None:
        """The same, where nothing but views is between what has run and the order of time."""
        parts = [[part.detach() for part in one.in_time()] for one in ran]
        blocks = [(part[0] if len(part) == 1 else torch.cat(part, -1)).flatten(0, 1) for part in parts]
        leaf = torch.cat(blocks) if len(blocks) > 1 or len(parts[0]) == 1 else blocks[0]  # a copy: the loss may keep it
        gradient = self._of_loss(leaf, *self._asked_from(ran[0].batch.start, len(leaf)))
        if gradient is None:
            return
        for one, part, own in zip(ran, parts, gradient.split([len(block) for block in blocks]), strict=True):
            own = own.unflatten(0, part[0].shape[:2])
            output, *above = own.split([some.shape[-1] for some in part], -1)
            self.tape[0].reached.append((one.output, output.transpose(0, 1).reshape(one.output.shape)))
            self.tape[0].reached += [(to, d.sum(1).flatten(0, 1)) for to, d in zip(one.above, above, strict=True)]

    def _asked_from(self, first: int, steps: int) -> tuple[Tensor | None, Tensor | None]:
        """Targets and mask of some steps of the piece."""
        y, mask = (None if v is None else v[first : first + steps] for v in (self.piece.y, self.piece.mask))
        return y, mask

    def _task_of_all(self) -> None:
        """The same where all steps are one graph: as steps and rows, so many steps at a time."""
        output, gradient = self.output(len(self.piece.x)), None
        self.ran = []  # their outputs are in it
        many = self.many or shown_at_once(*output.shape[1:])
        for start in range(0, len(output), many):
            at = slice(start, start + many)
            y, mask = (None if v is None else v[at] for v in (self.piece.y, self.piece.mask))
            found = self._of_loss(output[at].detach().clone(), y, mask)
            if found is not None:
                gradient = torch.zeros_like(output) if gradient is None else gradient
                gradient[at] = found
        if gradient is not None:
            self.tape[0].reached.append((output, gradient))

    def _of_loss(self, leaf: Tensor, y: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """The gradient of the output."""
        loss = self.objective.task(leaf.requires_grad_(), y, mask)
        with torch.no_grad():
            return self.objective.differentiate(loss, leaf)

    def ended(self, level: int, b: Batch, summary: Tensor, inputs: Tensor | None) -> None:
        super().ended(level, b, summary, inputs)
        self._local(level, [(b, summary, inputs)])

    def _local(self, level: int, parts: Iterable[tuple[Batch, Tensor, Tensor | None]]) -> None:
        """The local losses of batches, and what is predicted for their summaries."""
        some = [part for part in parts if part[0].ends]
        if (
            level == self.top
            or not some
            or not self.losses
            or not self.wiring.sends(level)
            or not (self.window.betas[level] or self.predictions)
        ):
            return
        if len(some) > 1 and self._equal([part[0] for part in some]):
            ended = [self._facts_of_equal(level, some)]
        else:
            ended = [self.facts(level, *part) for part in some]
        reached = self.tape[level].reached
        if self.predictions is not None:
            reached += [(one.summary, self.predictions.gradient(level, one.summary.detach())) for one in ended]
        if self.window.betas[level]:
            together = ended[0] if len(ended) == 1 else joined(ended)
            with torch.no_grad():
                gradient = self.objective.local_gradient(replace(together, summary=together.summary.detach()))
            summaries = [one.summary for one in ended]
            reached += zip(summaries, gradient.split([len(one) for one in summaries]), strict=True)

    @staticmethod
    def _equal(batches: list[Batch]) -> bool:
        """Have they the same rows and as many ticks, all of them here?"""
        first = batches[0]
        return first.alike and all(b.fresh and b.ends and len(b.sizes) == len(first.sizes) for b in batches)

    def _facts_of_equal(self, level: int, some: list[tuple[Batch, Tensor, Tensor | None]]) -> Ended:
        """As `facts`, of equal batches at once."""
        assert self.plan is not None
        assert self.plan.shift is not None
        batches, count, n = [b for b, _, _ in some], len(some), some[0][0].n
        data = torch.stack([inputs.detach() for _, _, inputs in some if inputs is not None]).unflatten(1, (-1, n))
        of, column = (
            part.flatten() for part in torch.meshgrid(self.everyone.new_tensor(range(count)), self.everyone, indexing="ij")
        )
        ordinal = torch.cat([b.table.facts["ordinal"][b.segments] for b in batches])[:, None] + self.plan.shift[:, level]
        ticks, span = (int(batches[0].table.facts[name][batches[0].segments.start]) for name in ("ticks", "span"))
        return Ended(
            level, torch.cat([summary for _, summary, _ in some]), self.begun.row.repeat(count), ordinal.flatten(), ticks, span,
            lambda index: data[of, ticks - index, column],
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- gradients

    def _differentiate(self, level: int, batches: list[Batch]) -> None:
        """Batches of a level are over: their gradients, what these mean for the level above, and a move."""
        tape, self.tape[level] = self.tape[level], Tape()
        if self._backward(tape, self.own[level]):
            self.mover.touched[level] = True
        if tape.read and self.predictions is not None:
            self.predictions.learn(level - 1, *(torch.cat(parts) for parts in zip(*tape.read, strict=True)))
        if not level:
            self.steps = max([self.steps, *(self.piece.last(b.stop) for b in batches if b.sizes)])
        if self.tells is not None and (level == self.top or any(b.sizes for b in batches)):
            self.tells(Differentiated(level, self.steps, partial(self._gradients, level)))
        for b in batches:
            self.mover.over(level, b)
        if level < self.top:
            self._maybe_move(level)

    def _maybe_move(self, level: int) -> None:
        if self.mover.due_now(level):
            with torch.no_grad():
                self.mover.move_now(level, self._gradients, final=False)
            if isinstance(self.calls[level], Wide):
                self.calls[level] = self._call(level)

    def _gradients(self, level: int, take: bool = False) -> dict[Tensor, Tensor]:
        """What has been gathered for a level's cell, zeros where nothing has come; and, taken, for all that moves with it."""
        gathered, own = self.objective.gathered, list(self.cells[level].parameters())
        found = gathered.take(self.mover.parameters(level)) if take else gathered.only(p for p in own if p in gathered.sums)
        return {p: torch.zeros_like(wide(p)) for p in own if p not in found and p.requires_grad} | found

    def _backward(self, tape: Tape, own: list[tuple[Tensor, Tensor]]) -> bool:
        """Gather the parameters' gradients, and hand on those of the leaves. False: no gradient has come."""
        reached = [(tensor, d) for tensor, d in tape.reached if tensor.requires_grad]
        if not reached:
            return False
        tensors, gradients = zip(*reached, strict=True)
        wanted = [leaf for _, leaf in own] + [leaf for leaf, _ in tape.leaves]
        with torch.no_grad(), muted([p for p, _ in own]):
            # Where the output has all levels, tapes share the graph that takes a context's rows apart.
            found = torch.autograd.grad(tensors, wanted, gradients, allow_unused=True, retain_graph=self.cut and self.shows_all)
        for (parameter, _), gradient in zip(own, found, strict=False):
            self.objective.gathered.add(parameter, gradient)
        for (_, receive), gradient in zip(tape.leaves, found[len(own) :], strict=True):
            if gradient is not None:
                receive(gradient)
        return True


@dataclass
class Read:
    """What a level reads of raw inputs at the ticks of a batch. taken_from: where what is remembered can be found again, if it
    is not kept. steps: where they are in the window, if x wants a gradient."""

    reader: Callable[[Tensor], Tensor]
    x: Tensor
    remembered: Tensor | None
    where: raw.Where
    taken_from: tuple[Tensor, raw.Where] | None = None
    steps: Tensor | None = None
    drawn: Callable[[int], AbstractContextManager[object]] = nullcontext  # random numbers from the tick of this number on

    @property
    def count(self) -> int:
        """Ticks, of one row if rows are alike."""
        return len(self.where.now)

    @property
    def rows(self) -> int:
        """How many there are, if they are alike."""
        return self.where.rows

    def taken(self, some: slice) -> Tensor:
        where, remembered = self.where if some.stop - some.start == self.count else self.where[some], self.remembered
        if where.before is not None and remembered is None and self.taken_from is not None:
            remembered = raw.remembered(self.taken_from[0], None, self.taken_from[1])
        return raw.take(self.x, remembered, where)

    def made(self, some: slice) -> Tensor:
        """What the reader makes of it, (ticks, size)."""
        return self._made(some.start, self.taken(some))

    def _made(self, start: int, places: Tensor) -> Tensor:
        with self.drawn(start):
            return self.reader(places)

    def with_leaf(self, some: slice) -> tuple[Tensor | None, Tensor]:
        """The same, and the inputs as a leaf, if they want a gradient."""
        leaf = self.taken(some).requires_grad_() if self.steps is not None else None
        return leaf, self.made(some) if leaf is None else self._made(some.start, leaf)


def _placed_back(values: Tensor, below: Batch) -> Tensor:
    """Values of the rows of a batch, in the order of the batch above."""
    return values if below.column is None else torch.empty_like(values).index_copy(0, below.column, values)


def side_by_side(some: list[Batch], device: torch.device) -> tuple[list[int], Tensor, Tensor]:
    """Batches as one: its sizes; where each of its ticks is among theirs, one batch behind the other; and so for rows."""
    counts = np.concatenate([b.counts.numpy(force=True) for b in some])
    owner, place = np.repeat(np.arange(len(some)), [b.n for b in some]), np.concatenate([np.arange(b.n) for b in some])
    firsts, begun = np.zeros((len(some), counts.max() + 1), np.int64), 0
    for i, b in enumerate(some):
        firsts[i, : len(b.sizes) + 1] = np.cumsum([begun, *b.sizes])
        begun = firsts[i, len(b.sizes)]
    order = np.argsort(-counts, kind="stable")
    there = np.arange(counts.max())[:, None] < counts[order]
    ticks = (firsts[owner[order], :-1].T + place[order])[there]
    return there.sum(1).tolist(), torch.from_numpy(ticks).to(device), torch.from_numpy(order).to(device)


def joined(parts: list[Ended]) -> Ended:
    """Segments of several batches as one."""
    sizes = [len(part.row) for part in parts]

    def together(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return values[0] if isinstance(values[0], int) else torch.cat(values)

    names = ("summary", "row", "ordinal", "ticks", "span")

    def recent(index: Tensor) -> Tensor:
        return torch.cat([part.recent(one) for part, one in zip(parts, index.split(sizes, 1), strict=True)], 1)

    return Ended(parts[0].level, recent=recent, **{name: together(name) for name in names})
