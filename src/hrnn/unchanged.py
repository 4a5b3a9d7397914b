"""Is a module as it was made? What is differentiated by hand must be just what it was written for."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def unchanged(modules: Sequence[nn.Module], kinds: Sequence[type], parameters: int) -> bool:
    """Are these of just these types, without hooks or a forward of their own, and with `parameters` parameters in all? A
    parametrised module has another type, a pruned one has hooks, a shared parameter counts once."""
    own = {id(p) for module in modules for p in module._parameters.values() if p is not None}
    return len(own) == parameters and all(
        type(module) is kind and "forward" not in vars(module) and not any(getattr(module, name) for name in _HOOKS)
        for module, kind in zip(modules, kinds, strict=True)
    )
