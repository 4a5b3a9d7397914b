"""One input at a time, without autograd: what `HRNN.step` does for a model and a state in which nothing is out of the ordinary.

A step is a few microseconds of arithmetic, so the rest must be no more than that. `step` looks whether all is well, by the
cheapest questions that can tell, and otherwise computes nothing: the caller then goes the long way, which serves everything and
says what is wrong. What a step leaves as it was, the new state shares with the old one; nothing in a state is ever modified.
"""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.modules import module as modules

from hrnn.arguments import LARGEST
from hrnn.cells import GRU, LSTM, BuiltinCell, CellState, by_hand
from hrnn.checks import Hierarchy
from hrnn.segments import Clock, Given
from hrnn.state import State
from hrnn.tensors import INTEGERS

_DTYPES = (torch.float32, torch.float64)
_NAMED = hasattr(Tensor, "names")  # torch no longer has named dimensions
_COUNTS = ("position", "span", "ordinal", "skipped")
_GLOBAL_HOOKS = [getattr(modules, f"_global_{kind}_hooks") for kind in ("forward", "forward_pre", "backward", "backward_pre")]


class Level(NamedTuple):
    """A cell and its parameters: an attribute of a module takes long to be found."""

    cell: BuiltinCell
    parameters: list[nn.Parameter | None]
    weight_input: Tensor
    weight_context: Tensor | None
    weight_hidden: Tensor
    bias: Tensor
    bias_hidden: Tensor | None  # a GRU's


class Plan:
    """What stays the same from step to step while nobody touches the model; `holds` sees whether somebody has.

    model: of built-in cells as they were made, with fixed periods, in float32 or float64 on the CPU; ValueError otherwise
    """

    def __init__(self, model: Streamed):
        self.cells = [cell for cell in model.cells if isinstance(cell, BuiltinCell) and by_hand(cell)]
        self.periods = [period for period in model.periods if not isinstance(period, Given)]
        self.dtype = model.dtype
        if len(self.cells) != len(model.cells) or self.periods != model.periods or self.dtype not in _DTYPES:
            raise ValueError("the model is of another kind")
        self.levels = [
            Level(
                cell,
                [*cell._parameters.values()],
                cell.weight_input,
                cell.weight_context,
                cell.weight_hidden,
                cell.bias,
                cell.bias_hidden if isinstance(cell, GRU) else None,
            )
            for cell in self.cells
        ]
        self.shapes = [(p, p.shape) for level in self.levels for p in level.parameters if type(p) is nn.Parameter]
        if len(self.shapes) != sum(len(level.parameters) for level in self.levels):
            raise ValueError("the model has parameters of another kind")
        self.inputs, self.tokens, self.decoders = model.input_size, model.tokens, model.decoders is not None
        self.parts = [cell.state_parts for cell in self.cells]
        self._kinds: tuple[int, list[tuple[torch.dtype, tuple[int, ...]]]] = 0, []
        self._constants: dict[tuple[int, ...], Tensor] = {}

    def __reduce__(self) -> Any:
        return type(None), ()  # a copy of a model makes its own

    def holds(self, model: Streamed) -> bool:
        """Is the model what it was?"""
        cells = [*model.cells._modules.values()]
        if cells != self.cells or model.periods != self.periods or (model.decoders is not None) != self.decoders:
            return False
        for level in self.levels:
            facts, own = vars(level.cell), level.cell._parameters
            if len(own) != len(level.parameters) or not all(map(is_, own.values(), level.parameters)):
                return False
            if _hooked(facts) or "forward" in facts:
                return False
        dtype = self.dtype
        for p, shape in self.shapes:  # which a parameter changes when the model moves
            if p.dtype is not dtype or not p.is_cpu or p.shape != shape or not p.is_contiguous():
                return False
        return True

    def constant(self, *numbers: int) -> Tensor:
        """These numbers, to be read only. A plan meets few: a place in a segment, what is added to the clock."""
        if numbers not in self._constants:
            self._constants[numbers] = torch.tensor(numbers, device="cpu")
        return self._constants[numbers]

    def kinds(self, batch: int) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        """dtype and shape of each tensor of a state, in the order in which `_parts_of` lists them."""
        known, kinds = self._kinds
        if known != batch:
            below = len(self.periods)
            kinds = [(self.dtype, (batch, cell.hidden_size)) for cell in self.cells for _ in range(cell.state_parts)]
            kinds += [(torch.int64, (batch, below))] * len(_COUNTS) + [(torch.bool, (batch, below)), (torch.int64, (batch,))]
            for i, period in enumerate(self.periods if self.decoders else []):
                tokens = self.tokens and i == 0
                shape = (period, batch) if tokens else (period, batch, self.cells[i].input_size)
                kinds.append((torch.int64 if tokens else self.dtype, shape))
            self._kinds = batch, kinds
        return kinds


class Streamed(Hierarchy, Protocol):
    """A hierarchy that can be stepped."""

    cells: nn.ModuleList
    stream_plan: Plan | None


def called_by(kind: type[nn.Module], model: nn.Module) -> bool:
    """Would a call of the model run the forward of `kind` and nothing else: no hook, no subclass's, none that was compiled?"""
    own, facts = type(model), vars(model)
    if own is not kind and (own.forward is not kind.forward or own.__call__ is not nn.Module.__call__):
        return False
    hooked = _hooked(facts) or any(_GLOBAL_HOOKS)
    return not hooked and "forward" not in facts and facts.get("_compiled_call_impl") is None


def _hooked(facts: dict[str, Any]) -> Any:
    return facts["_forward_hooks"] or facts["_forward_pre_hooks"] or facts["_backward_hooks"] or facts["_backward_pre_hooks"]


def step(model: Streamed, x: Any, state: Any) -> tuple[Tensor, State] | None:
    """One input (batch,) or (batch, input_size) to the output (batch, hidden) and the state after; None where something is out
    of the ordinary, be it wrong or not. For use without autograd."""
    if torch.compiler.is_compiling() or type(x) is not Tensor or type(state) is not State:
        return None
    if torch.is_autocast_enabled("cpu") or torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0:
        return None
    if torch._C._get_tracing_state() is not None:
        return None
    try:
        plan = model.stream_plan
        if plan is None or not plan.holds(model):
            plan = model.stream_plan = Plan(model)
            if not plan.holds(model):
                return None
        inputs = _checked_inputs(plan, x, model.check_finite)
        if inputs is None or (position := _position(plan, state, x.shape[0])) is None:
            return None
        return _in_torch(plan, inputs, state, position)
    except (ValueError, RuntimeError):  # a tensor of a kind that has no such question: nested, sparse, under vmap
        return None


def _plain(t: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> bool:
    """Ordinary numbers in ordinary memory, of this kind?"""
    return (
        type(t) is Tensor
        and t.dtype is dtype
        and t.shape == shape  # a nested tensor has none, and raises
        and t.is_cpu
        and t.layout is torch.strided
        and not t.is_neg()
        and not (_NAMED and any(getattr(t, "names", ())))
    )


def _checked_inputs(plan: Plan, x: Tensor, finite: bool) -> Tensor | None:
    """x as the cells read it, or None if it is no proper input."""
    if x.is_nested or not x.shape or not (batch := x.shape[0]):
        return None
    x.data_ptr()  # raises where there is none
    if plan.tokens:
        if x.dtype not in INTEGERS or not _plain(x, x.dtype, (batch,)):
            return None
        x = x.long()
        numbers = x.tolist()
        return x if min(numbers) >= 0 and max(numbers) < plan.inputs else None
    if not _plain(x, plan.dtype, (batch, plan.inputs)) or (finite and not bool(torch.isfinite(x).all())):
        return None
    return x


def _position(plan: Plan, state: State, batch: int) -> list[int] | None:
    """Where all rows are in their segments; None if they are at different places, or this is no proper state of the model."""
    cells, clock, row, history = state.cells, state.clock, state.row, state.history
    if type(clock) is not Clock or type(cells) is not tuple or type(history) is not tuple:
        return None
    if [len(cell) for cell in cells if type(cell) is tuple] != plan.parts or len(history) != len(plan.periods) * plan.decoders:
        return None
    counts = clock.position, clock.span, clock.ordinal, clock.skipped
    for t, (dtype, shape) in zip(
        (*(part for cell in cells for part in cell), *counts, clock.ticked, row, *history), plan.kinds(batch), strict=True
    ):
        if not _plain(t, dtype, shape):
            return None
    numbers = row.tolist()
    if min(numbers) < 0 or max(numbers) > LARGEST // 2:
        return None
    if not plan.periods:
        return []
    position, *others = (t.tolist() for t in counts)
    first: list[int] = position[0]
    if position.count(first) != batch or min(first) < 0 or any(p > q for p, q in zip(first, plan.periods, strict=True)):
        return None
    for rows in others:
        for numbers in rows:
            if min(numbers) < 0 or max(numbers) > LARGEST // 2:
                return None
    if any(map(any, clock.ticked.tolist())):
        return None
    if plan.tokens and history:
        slots = history[0].tolist()
        if min(map(min, slots)) < 0 or max(map(max, slots)) >= plan.inputs:
            return None
    return first


def _ticking(plan: Plan, position: list[int]) -> int:
    """The highest level that ticks: every segment below it starts."""
    for i, (at, period) in enumerate(zip(position, plan.periods, strict=True)):
        if at not in (0, period):
            return i
    return len(position)


def _in_torch(plan: Plan, x: Tensor, state: State, position: list[int]) -> tuple[Tensor, State]:
    """The step, from the top down."""
    ticking = _ticking(plan, position)
    cells, history = [*state.cells[: ticking + 1]], [*state.history]
    context = None
    for i in range(ticking, -1, -1):
        inputs = state.cells[i - 1][0] if i else x
        cells[i] = after = _tick(plan, i, inputs, state.cells[i], i < ticking, context)
        context = after[0]
        if i < len(history):
            history[i] = _remembered(plan, history[i], inputs, 0 if i < ticking else position[i])
    for i in range(ticking + 1, len(history)):
        history[i] = _kept(history[i])
    for cell in state.cells[ticking + 1 :]:
        cells.append(tuple([_kept(part) for part in cell]))
    clock = _clock(plan, state.clock, position, ticking)
    return cells[0][0].clone(), State.of(tuple(cells), clock, state.row, tuple(history))


def _tick(plan: Plan, level: int, inputs: Tensor, before: CellState, fresh: bool, context: Tensor | None) -> CellState:
    """A tick by the cell's literal equations. `fresh`: from zero, with a context if there is one."""
    cell, _, weight, weight_context, recurrent, bias, _ = plan.levels[level]
    if type(cell) is LSTM and not fresh and not cell.tokens:  # the same numbers in one call
        return torch.lstm_cell(inputs, before, weight, recurrent, bias, None)
    entered = F.embedding(inputs, weight.t()) + bias if cell.tokens else F.linear(inputs, weight, bias)
    if not fresh:
        return cell.literal(entered, F.linear(before[0], recurrent), before)
    if context is not None and weight_context is not None:
        entered = entered + F.linear(context, weight_context)
    zero = torch.zeros_like(before[0])  # with which nothing is multiplied
    return cell.literal(entered, entered.new_zeros(zero.shape[0], recurrent.shape[0]), (zero,) * len(before))


def _remembered(plan: Plan, history: Tensor, inputs: Tensor, place: int) -> Tensor:
    """With the inputs at this place of the segment; nothing, if they are the last: see `hrnn.forward.cleared`."""
    if place + 1 == history.shape[0]:
        return torch.zeros_like(history)
    return (history if place else torch.zeros_like(history)).index_copy(0, plan.constant(place), inputs[None])


def _kept(part: Tensor) -> Tensor:
    """A tensor that the new state shares with the old one, without a graph, and one that training can go on from."""
    return part.clone() if part.requires_grad or part.is_inference() else part


def _clock(plan: Plan, clock: Clock, position: list[int], ticking: int) -> Clock:
    """After a step, if the window closes behind it."""
    if not position:
        return clock
    moves = []
    for i, (at, period) in enumerate(zip(position, plan.periods, strict=True)):
        moves.append((1 if i < ticking else at + (i == ticking)) % period - at)
    span, ordinal = clock.span + 1, clock.ordinal
    if ticking:
        span[:, :ticking] = 1
        ordinal = ordinal + plan.constant(*[int(i < ticking) for i in range(len(position))])
    return Clock(clock.position + plan.constant(*moves), span, ordinal, clock.ticked, clock.skipped)
