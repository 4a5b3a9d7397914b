"""`Updates`: parameters that move as soon as their own level's segments have been differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from hrnn.arguments import each, entries, number, shown, whole
from hrnn.gradients.gathered import Gathered, accumulate, laid_out_as
from hrnn.hierarchy import HRNN
from hrnn.parallel import ALONE, Group
from hrnn.schedule import Batch, Plan, nobody

Factory = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class NotFiniteError(ValueError):
    """A level would have moved by a gradient that is not finite."""


class Updates:
    """Which optimizer moves which level, and how often. Given to `Restricted.backward`, which then calls them itself.

    optimizers: a function of a list of parameters for all levels, e.g. `lambda p: torch.optim.Adam(p, lr=1e-3)`, or a list with
                one for each level, the lowest first: functions or ready optimizers
    heads:      all parameters of the loss function; they move with the lowest level, whose losses they serve. Each decoder
                moves with the level that it decodes. (): an optimizer of yours moves them; the window leaves their gradient in
                `.grad`. None: the loss has none, and it is an error if there are some
    every:      after how many of its segments a level moves; None: once per window. For all levels, or a list. The top level's
                segment is the window. Where rows tick at different times it counts rounds (`Restricted(round_steps=...)`)
    clip:       the largest norm of a level's gradient, for all levels or a list; None: no clipping
    after:      called with (level, optimizer) after each move: learning-rate schedules, weight averaging
    group:      `hrnn.parallel.Group`: the processes that share the batch. Gradients are added up over them at every move,
                levels move at the same steps in all; `weight` and `local_weight` must be those of the whole batch
    rows:       rows of the whole batch; by default those that the processes of the group have in the window, together

    A loss counts for the mean over the steps since its level's last move. A parameter that got no gradient since then is not
    moved. At the end of a window everything moves that has not. A failure in mid-window leaves what has moved by then.
    """

    def __init__(
        self,
        model: HRNN,
        optimizers: Factory | Sequence[Factory | torch.optim.Optimizer],
        *,
        heads: Iterable[nn.Parameter] | None = None,
        every: int | Sequence[int | None] | None = 1,
        clip: float | Sequence[float | None] | None = None,
        after: Callable[[int, torch.optim.Optimizer], None] | None = None,
        group: Group = ALONE,
        rows: int | None = None,
    ):
        if not isinstance(model, HRNN):
            raise TypeError(f"model is a {type(model).__name__}; give an hrnn.HRNN")
        levels = len(model.cells)
        self.every: list[int | None] = [
            None if n is None else whole("every", n, remedy="at least 1 segment, or None: the level moves once per window")
            for n in each("every", every, levels)
        ]
        self.clip: list[float | None] = [
            None if norm is None else number("clip", norm, positive=True, infinite=True) for norm in each("clip", clip, levels)
        ]
        if after is not None and not callable(after):
            raise TypeError(f"after is {shown(after)}; give a function of (level, optimizer), or None")
        if not isinstance(group, Group):
            raise TypeError(f"group is {shown(group)}; give what hrnn.parallel.join() returns")
        self.after, self.group = after, group
        self.rows = None if rows is None else whole("rows", rows)
        self.parameters = own_parameters(model)
        known = {parameter for level in self.parameters for parameter in level}
        given = [] if heads is None else _heads(heads)
        own = [parameter for parameter in given if parameter not in known]
        self.parameters[0] += own
        self.known = None if heads is not None and not given else known | set(own)  # None: who moves what is the caller's
        makers = [optimizers] * levels if callable(optimizers) else entries("optimizers", optimizers, "[make] * levels")
        if len(makers) != levels:
            raise ValueError(
                f"optimizers has {len(makers)} entries for {levels} levels; give one for each, or one function for all"
            )
        self.optimizers: list[torch.optim.Optimizer] = [
            _optimizer(level, makers[level], parameters) for level, parameters in enumerate(self.parameters)
        ]
        held = {parameter for group in self.optimizers[0].param_groups for parameter in group["params"]}
        if left := [parameter for parameter in own if parameter.requires_grad and parameter not in held]:
            raise ValueError(
                f"optimizers[0] does not hold {len(left)} of the {len(own)} heads, which would never move; add them to it, or "
                f"give heads=() if you step an optimizer of their own"
            )
        self.moves = [0] * levels  # how often each level has moved

    def check_leaves(self, leaves: Iterable[Tensor]) -> None:
        """Refuse what a loss has been computed with and nobody moves."""
        left = [] if self.known is None else [leaf for leaf in leaves if leaf not in self.known]
        if left:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in left[:3]) + (", ..." if len(left) > 3 else "")
            raise ValueError(
                f"loss uses parameters that updates does not move, {len(left)} of shape {shapes}; give all of them to "
                f"hrnn.Updates(..., heads=head.parameters()), or heads=() if you step an optimizer of their own"
            )

    def move(self, level: int, gradients: dict[Tensor, Tensor], scale: float | None) -> None:
        """Move a level by the sum of all processes' gradients, times `scale`; parameters without one stay. The gradients are
        used up."""
        parameters, optimizer = self.parameters[level], self.optimizers[level]
        gradients = self.group.summed_gradients(parameters, gradients)
        values = [gradient for gradient in gradients.values() if gradient.numel()]  # half of one unit is none
        if not bool(torch.stack(torch._foreach_norm(values, math.inf)).isfinite().all()):
            raise NotFiniteError(
                f"the gradient of level {level} is not finite, and the level has not moved by it; look for values that are not "
                f"finite in x, y and the loss, or give a smaller learning rate or a clip"
            )
        if scale is not None:
            torch._foreach_mul_(values, scale)  # they are nobody else's
        accumulate({p: laid_out_as(p, gradients[p]) for p in parameters if p in gradients})
        clip = self.clip[level]
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip)
        with torch.enable_grad():
            optimizer.step()
        for group in optimizer.param_groups:  # zero_grad, without what it says to profilers
            for parameter in group["params"]:
                parameter.grad = None
        self.moves[level] += 1
        if self.after is not None:
            self.after(level, optimizer)


def own_parameters(model: HRNN) -> list[list[nn.Parameter]]:
    """Each level's: those of its cell, of its decoder and of its reader."""
    found: list[list[nn.Parameter]] = [list(cell.parameters()) for cell in model.cells]
    for level, decoder in enumerate(model.decoders or []):
        found[level] += list(decoder.parameters())
    for level, reader in enumerate(model.readers, start=1):
        found[level] += list(reader.parameters())
    return found


def _heads(heads: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    if isinstance(heads, nn.Module):
        raise TypeError(f"heads is a {type(heads).__name__}; give its parameters: heads=head.parameters()")
    found = entries("heads", heads, "head.parameters()")
    for one in found:
        if isinstance(heads, Tensor) or not isinstance(one, Tensor) or not one.is_leaf:  # a tensor's rows are none
            raise TypeError(f"heads has {shown(one)}; give the parameters of the loss function, e.g. head.parameters()")
    return list(dict.fromkeys(found))


def _optimizer(level: int, maker: Any, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if not isinstance(maker, torch.optim.Optimizer) and not callable(maker):
        raise TypeError(f"optimizers[{level}] is {shown(maker)}; give a function of a list of parameters, or an optimizer")
    made = maker if isinstance(maker, torch.optim.Optimizer) else maker(parameters)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"optimizers[{level}] returned {shown(made)}; expected a torch.optim.Optimizer")
    held = {parameter for group in made.param_groups for parameter in group["params"]}
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    if wanted and held.isdisjoint(wanted):
        raise ValueError(
            f"optimizers[{level}] holds none of the parameters of level {level}, which would never move; give a function that "
            f"is handed them, or an optimizer of those of model.cells[{level}] and its decoder"
        )
    return made


def check_updates(updates: Any, model: HRNN, batch: int, weight: float | None, local_weight: float | None) -> None:
    """Before a window: the updates are such, of this model, and know what a step's loss counts for."""
    if not isinstance(updates, Updates):
        raise TypeError(f"updates is {shown(updates)}; give an hrnn.Updates, or None")
    for own, known in zip(own_parameters(model), updates.parameters, strict=False):
        if not set(own) <= set(known) or len(model.cells) != len(updates.parameters):
            raise ValueError(
                "updates was made for another model, or its weights were replaced since; make hrnn.Updates(model, ...) anew"
            )
    if not local_weight:
        got = "is needed for updates within a window that comes as an iterator" if local_weight is None else "is 0"
        raise ValueError(f"local_weight {got}; give 1/(steps * batch): it says what a step counts for")
    if updates.group.size > 1 and weight is None:
        raise ValueError(
            "weight is needed where several processes update together; give weight=1/targets and "
            "local_weight=1/(steps * batch) of the whole batch"
        )
    if updates.rows is not None and updates.rows < batch:
        raise ValueError(f"rows of updates is {updates.rows} and the window has {batch}; give the rows of the whole batch")


@runtime_checkable
class Gathering(Protocol):
    """A level's tape, as far as moving goes."""

    def gradients(self) -> dict[Tensor, Tensor]:
        """What it has gathered for the parameters of its cell."""


class Mover:
    """When each level of one window moves; without `Updates`, never. batch: rows that this process has in the window."""

    def __init__(self, updates: Updates | None, levels: int, share: float | None, batch: int):
        self.updates, self.share = updates, share
        self.group = ALONE if updates is None else updates.group
        given = None if updates is None else updates.rows
        # In one process fewer rows may be left than in another; all must weigh what they sum alike.
        present = max(1, batch if self.group.size == 1 else int(self.group.all_reduce(torch.tensor(batch))))
        self.rows = given or present
        self.weight = self.rows / present  # of the rows that are here
        self.closed = [0] * levels  # batches since the level's last move
        self.moved_at = [0] * levels
        self.touched = [False] * levels  # has a loss reached the level since then?
        self.done = self.end = 0  # steps of all rows, in all processes: so far, and behind the steps that run now
        self.left: list[int] = [0] * levels  # batches of these steps that are still to come
        self.mean: list[float] = [0.0] * levels  # steps of a batch
        self.apart = self.goes_on = False

    def agreed_phase(self, position: list[int] | None, levels: int) -> list[int] | None:
        """Where the rows of this process are in their periods, if those of all processes are there; they then move together."""
        agreed = self.group.all_equal(position is not None, *(position or [0] * levels))
        return position if agreed else None

    def segments_left(self, level: int, most: int) -> int:
        """How many segments a level may still run before it moves, at most `most`."""
        every = None if self.updates is None else self.updates.every[level]
        return most if every is None else min(most, max(1, every - self.closed[level]))

    def parameters(self, level: int) -> list[nn.Parameter]:
        """What moves with a level."""
        return [] if self.updates is None else self.updates.parameters[level]

    def begin(self, plan: Plan, goes_on: bool) -> None:
        """These batches come. goes_on: and others, as the window does."""
        self.left, self.end, self.apart, self.goes_on = list(plan.count), self.done + plan.steps, plan.apart, goes_on
        self.mean = [plan.steps / max(1, count) for count in plan.count]

    def over(self, level: int, batch: Batch) -> None:
        """A batch has been differentiated."""
        if batch.length:
            self.closed[level] += 1
            self.left[level] -= 1
        if level == 0:
            self.done += batch.steps

    def due_now(self, level: int) -> bool:
        """Does a level move after the batch that is over? What is left at the window's end moves there. Where rows part,
        batches differ in size: a level waits until it has half the steps of a mean one, and a smaller rest joins
        the batch before."""
        every = None if self.updates is None else self.updates.every[level]
        if every is None or self.closed[level] < every or not (self.left[level] or self.goes_on):
            return False
        left = self.end - self.done
        return not self.apart or 2 * min(self.done - self.moved_at[level], left or self.end) >= self.mean[level]

    def move_now(self, level: int, gradients: Callable[[int, bool], dict[Tensor, Tensor]], final: bool) -> None:
        """Move a level by its gradients, if a loss has reached it in any process."""
        assert self.updates is not None
        assert self.share is not None
        if not self.group.any(self.touched[level])[0]:
            return
        steps, once = self.done - self.moved_at[level], final and self.moved_at[level] == 0
        self.closed[level], self.moved_at[level], self.touched[level] = 0, self.done, False
        self.updates.move(level, gradients(level, True), None if once else 1 / (self.share * self.weight * max(1, steps)))

    def finish(self, gradients: Callable[[int, bool], dict[Tensor, Tensor]]) -> None:
        """The window is over: what has not moved moves."""
        for level in range(len(self.closed)) if self.updates is not None else ():
            if self.closed[level]:
                self.move_now(level, gradients, final=True)

    # Where all rows are in phase, compiled code runs segments instead.

    def due(self, level: int, segments: int = 1) -> bool:
        """Called when segments are over: does the level move now?"""
        if self.updates is None:
            return False
        self.closed[level] += segments
        every = self.updates.every[level]
        return every is not None and self.closed[level] >= every

    def move(self, level: int, step: int, tape: Gathering, gathered: Gathered, final: bool) -> bool:
        """Move a level whose gradients, those of its tape and those `gathered` for its parameters, reach up to `step`, if a
        process has any. Has it moved?"""
        assert self.updates is not None
        assert self.share is not None
        if not self.group.any(self.touched[level])[0]:
            return False
        steps = step - self.moved_at[level]
        whole = final and self.moved_at[level] == 0
        self.closed[level], self.moved_at[level], self.touched[level] = 0, step, False
        gradients = tape.gradients()
        for parameter, gradient in gathered.take(self.updates.parameters[level]).items():  # of the decoder, and of the loss
            gradients[parameter] = gradient + gradients[parameter] if parameter in gradients else gradient
        self.updates.move(level, gradients, None if whole else 1 / (self.share * self.rows * max(1, steps)))
        return True

    def gather(self, tapes: Sequence[Gathering], gathered: Gathered) -> None:
        """The window is over: what the tapes have is the window's, unless it has moved them or no loss has reached them: zeros
        are a gradient to an optimizer that remembers others."""
        for tape, touched in zip(tapes, self.touched, strict=True) if self.updates is None else []:
            for parameter, gradient in tape.gradients().items() if touched else []:
                gathered.add(parameter, gradient, owned=True)


def agreed(plan: Plan, mover: Mover) -> Plan:
    """The plan of a process, where levels move and rows are shared out: all processes go through the same tree, with a batch
    for every one that any of them has, and know the steps that all have in it. Level by level from the top they agree on how
    many ticks each batch has in that process that has most."""
    group = mover.group
    if mover.updates is None or group.size == 1:
        return plan
    apart = not group.all_equal(plan.apart, plan.key)
    level = [_copied(plan.top)]
    root = level[0]
    count: list[int] = []
    for _ in plan.count:
        lengths = group.most([batch.length for batch in level])
        for batch, length in zip(level, lengths, strict=True):
            batch.length = length
        count.insert(0, sum(map(bool, lengths)))
        if len(count) == len(plan.count):
            break
        counts = group.most([batch.children for batch in level])
        for batch, children in zip(level, counts, strict=True):
            batch.children = children
        places = [(batch, child) for batch in level for child in range(batch.children)]
        there = group.most([int(child in batch.below) for batch, child in places])
        below: list[Batch] = []
        for (batch, child), some in zip(places, there, strict=True):
            if some:
                batch.below[child] = _copied(batch.below[child]) if child in batch.below else nobody()
                below.append(batch.below[child])
        level = below
    steps = group.all_reduce(torch.tensor([batch.steps for batch in level])).tolist()
    for batch, total in zip(level, steps, strict=True):
        batch.steps = total
    return replace(plan, top=root, count=count, steps=sum(steps), apart=apart or plan.apart)


def _copied(batch: Batch) -> Batch:
    return replace(batch, below=dict(batch.below))
