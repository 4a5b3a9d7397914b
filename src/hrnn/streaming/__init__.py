"""One input at a time, without autograd: what `HRNN.step` does for a model and a state in which nothing is out of the ordinary.

A step is a few microseconds of arithmetic, so the rest must be no more than that. `step` looks whether all is well, by the
cheapest questions that can tell, and otherwise computes nothing: the caller then goes the long way, which serves everything and
says what is wrong. What a step leaves as it was, the new state shares with the old one; nothing in a state is ever modified.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as modules

from hrnn.state import State
from hrnn.streaming import in_c, in_torch
from hrnn.streaming.plan import Plan, Streamed, hooked, plain
from hrnn.tensors import INTEGERS

__all__ = ["Plan", "called_by", "step"]

_GLOBAL_HOOKS = [getattr(modules, f"_global_{kind}_hooks") for kind in ("forward", "forward_pre", "backward", "backward_pre")]


def called_by(kind: type[nn.Module], model: nn.Module) -> bool:
    """Would a call of the model run the forward of `kind` and nothing else: no hook, no subclass's, none that was compiled?"""
    if torch.compiler.is_compiling():
        return False
    own, facts = type(model), vars(model)
    if own is not kind and (own.forward is not kind.forward or own.__call__ is not nn.Module.__call__):
        return False
    watched = hooked(facts) or any(_GLOBAL_HOOKS)
    return not watched and "forward" not in facts and facts.get("_compiled_call_impl") is None


def step(model: Streamed, x: Any, state: Any) -> tuple[Tensor, State] | None:
    """One input (batch,) or (batch, input_size) to the output (batch, hidden) and the state after; None where something is out
    of the ordinary, be it wrong or not. For use without autograd."""
    if type(x) is not Tensor or type(state) is not State:
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
        if not _fits(plan, x) or not plan.fits(state, x.shape[0]):
            return None
        native = in_c.function(plan.dtype) if x.shape[0] <= in_c.MOST_ROWS else None
        if native is not None:
            done = in_c.step(plan, native, x, state, model.check_finite)
        else:
            done = in_torch.step(plan, x, state, model.check_finite)
        if done is None or not model.shows_all:
            return done
        return torch.cat([cell[0] for cell in done[1].cells], -1), done[1]
    except (ValueError, RuntimeError):  # a tensor of a kind that has no such question: nested, sparse, under vmap
        return None


def _fits(plan: Plan, x: Tensor) -> bool:
    """Are these inputs of the kind and shape that the model reads?"""
    if x.is_nested or not x.shape or not (batch := x.shape[0]):
        return False
    x.data_ptr()  # raises where there is none
    if plan.tokens:
        return x.dtype in INTEGERS and plain(x, x.dtype, (batch,))
    return plain(x, plan.dtype, (batch, plan.inputs))
