"""Where gradients are gathered until they are complete, and how they then reach `.grad`, past the hooks of their leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from hrnn.precision import wide


class Gathered:
    """Gradients of any leaf tensors, private until the window has succeeded."""

    def __init__(self) -> None:
        self.sums: dict[Tensor, Tensor] = {}

    def add(self, leaf: Tensor, gradient: Tensor | None, owned: bool = False) -> None:
        """Add to a leaf's gradient. `owned`: the tensor is nobody else's and may be kept as it is."""
        if gradient is None:
            return
        if (total := self.sums.get(leaf)) is not None:
            total.add_(gradient)
        else:
            mine = laid_out_as(leaf, wide(gradient))
            self.sums[leaf] = mine.clone() if mine is gradient and not owned else mine

    def only(self, leaves: Iterable[Tensor]) -> dict[Tensor, Tensor]:
        """Those of some leaves."""
        return {leaf: self.sums[leaf] for leaf in leaves}

    def take(self, leaves: Iterable[Tensor]) -> dict[Tensor, Tensor]:
        """Those of some leaves, which start again from nothing."""
        return {leaf: self.sums.pop(leaf) for leaf in leaves if leaf in self.sums}

    def commit(self) -> None:
        """Add them to `.grad`, as loss.backward() does."""
        accumulate(self.sums)


def accumulate(gradients: dict[Tensor, Tensor]) -> None:
    """Add complete gradients to `.grad`: first all hooks, one of which may fail, then the sums, then the hooks for those."""
    changed = [(leaf, _hooked(leaf, gradient)) for leaf, gradient in gradients.items() if leaf.requires_grad]
    for leaf, gradient in changed:
        if leaf.grad is None:
            leaf.grad = gradient
        else:
            leaf.grad.add_(gradient)
        if hooks := _hooks(leaf, "_post_accumulate_grad_hooks"):
            for hook in hooks.values():
                hook(leaf)


def _hooks(leaf: Tensor, kind: str) -> dict[int, Any] | None:
    return getattr(leaf, kind, None)


def _hooked(leaf: Tensor, gradient: Tensor) -> Tensor:
    """What the leaf's hooks (`register_hook`) make of its gradient, in its dtype."""
    if gradient.dtype is not leaf.dtype:
        gradient = gradient.to(leaf.dtype)
    for hook in (_hooks(leaf, "_backward_hooks") or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


def muted(leaves: Iterable[Tensor]) -> AbstractContextManager[None]:
    """Differentiate without the leaves' hooks: they are for the complete gradient, not for the shares it is gathered from."""
    held = [hooks for leaf in leaves if (hooks := leaf._backward_hooks)]
    return _without(held) if held else nullcontext()


@contextmanager
def _without(found: list[Any]) -> Iterator[None]:
    held = [(hooks, dict(hooks)) for hooks in found]
    for hooks, _ in held:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, entries in held:
            hooks.update(entries)


def laid_out_as(leaf: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the strides of its leaf: fused optimizers go through both in the order of memory."""
    if gradient.stride() == leaf.stride():
        return gradient
    return torch.empty_like(leaf, dtype=gradient.dtype).copy_(gradient)


def leaves(tensors: Iterable[Tensor], stop: Tensor | None = None, since: int = 0) -> tuple[list[Tensor], bool]:
    """The tensors that a graph would accumulate gradients in, without looking behind `stop`; and whether a part of the graph
    is older than autograd's number `since`."""
    found: dict[Tensor, None] = {}
    seen = {stop.grad_fn if stop is not None else None, None}
    stack = [tensor.grad_fn for tensor in tensors]
    older = False
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        assert node is not None
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[variable] = None
        else:
            older = older or node._sequence_nr() < since
        stack.extend(following for following, _ in node.next_functions)
    return list(found), older
