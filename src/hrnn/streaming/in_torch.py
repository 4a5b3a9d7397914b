"""A short step in torch, where there is no native code."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from hrnn.arguments import LARGEST
from hrnn.cells import LSTM, CellState
from hrnn.segments import Clock
from hrnn.state import State
from hrnn.streaming.plan import Plan, kept, ticking


def step(plan: Plan, x: Tensor, state: State, finite: bool) -> tuple[Tensor, State] | None:
    """The output and the state after; None if numbers are not in order, or rows at different places."""
    if plan.tokens:
        x = x.long()
        numbers = x.tolist()
        if min(numbers) < 0 or max(numbers) >= plan.inputs:
            return None
    elif finite and not bool(torch.isfinite(x).all()):
        return None
    if (position := _position(plan, state)) is None:
        return None
    top = ticking(position)
    cells, history = [*state.cells[: top + 1]], [*state.history]
    context = None
    for i in range(top, -1, -1):
        inputs = state.cells[i - 1][0] if i else x
        cells[i] = after = _tick(plan, i, inputs, state.cells[i], i < top, context)
        context = after[0]
        if i < len(history):
            history[i] = _remembered(plan, history[i], inputs, 0 if i < top else position[i])
    for i in range(top + 1, len(history)):
        history[i] = kept(history[i])
    for cell in state.cells[top + 1 :]:
        cells.append(tuple([kept(part) for part in cell]))
    clock = _clock(plan, state.clock, position, top)
    return cells[0][0].clone(), State.of(tuple(cells), clock, state.row, tuple(history))


def _tick(plan: Plan, level: int, inputs: Tensor, before: CellState, fresh: bool, context: Tensor | None) -> CellState:
    """A tick by the cell's literal equations. `fresh`: from zero, with a context if there is one."""
    cell, kind, _, _, _, _, weight, weight_context, recurrent, bias, _ = plan.levels[level]
    tokens = plan.tokens and level == 0
    if kind is LSTM and not fresh and not tokens:  # the same numbers in one call
        return torch.lstm_cell(inputs, before, weight, recurrent, bias, None)
    entered = F.embedding(inputs, weight.t()) + bias if tokens else F.linear(inputs, weight, bias)
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


def _clock(plan: Plan, clock: Clock, position: list[int], top: int) -> Clock:
    """After a step, if the window closes behind it."""
    if not position:
        return clock
    moves = []
    for i, (at, period) in enumerate(zip(position, plan.periods, strict=True)):
        moves.append((1 if i < top else at + (i == top)) % period - at)
    span, ordinal = clock.span + 1, clock.ordinal
    if top:
        span[:, :top] = 1
        ordinal = ordinal + plan.constant(*[int(i < top) for i in range(len(position))])
    return Clock(clock.position + plan.constant(*moves), span, ordinal, clock.ticked, clock.skipped)


def _position(plan: Plan, state: State) -> list[int] | None:
    """Where all rows are in their segments; None if they are at different places, or numbers are not in order."""
    clock, numbers = state.clock, state.row.tolist()
    if min(numbers) < 0 or max(numbers) > LARGEST // 2:
        return None
    if not plan.periods:
        return []
    position = clock.position.tolist()
    first: list[int] = position[0]
    if position.count(first) != len(position) or min(first) < 0:
        return None
    if any(at >= period for at, period in zip(first, plan.periods, strict=True)) or any(map(any, clock.ticked.tolist())):
        return None
    for counts in (clock.span, clock.ordinal, clock.skipped):
        for numbers in counts.tolist():
            if min(numbers) < 0 or max(numbers) > LARGEST // 2:
                return None
    if plan.tokens and state.history:
        slots = state.history[0].tolist()
        if min(map(min, slots)) < 0 or max(map(max, slots)) >= plan.inputs:
            return None
    return first
