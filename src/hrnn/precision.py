"""Sums run in at least float32: many small terms, added one by one in half precision, soon change nothing any more."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

_HALF = (torch.float16, torch.bfloat16)


def summed_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which numbers of this one are added up."""
    return torch.float32 if dtype in _HALF else dtype


def autocasts(device: torch.device) -> bool:
    """Has the user turned autocast on?"""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A hierarchy runs in its own dtype: what is differentiated by hand, and the states that cells carry, would be mixed up."""
    return torch.autocast(device.type, enabled=False) if autocasts(device) else nullcontext()


def wide(tensor: Tensor) -> Tensor:
    """The tensor in that dtype; mostly the tensor itself."""
    return tensor.float() if tensor.dtype in _HALF else tensor


class Wide:
    """A module that is called many times under autograd: the gradients of its parameters are added up by `wide`."""

    def __init__(self, module: nn.Module):
        self.module = module
        half = torch.is_grad_enabled() and any(p.dtype in _HALF for p in module.parameters())
        self.parameters = {name: wide(p) for name, p in module.named_parameters()} if half else {}

    def __call__(self, *arguments: Any) -> Any:
        if not self.parameters:
            return self.module(*arguments)
        named = dict(self.module.named_parameters())
        values = {name: value.to(named[name].dtype) for name, value in self.parameters.items()}
        return functional_call(self.module, values, arguments)
