"""The objective, the same for every method: the task's loss, and beta times each level's local loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from hrnn import checks
from hrnn.forward import Ended
from hrnn.gradients.window import Loss, Result, Window
from hrnn.state import State


class Gathered:
    """Gradients of any leaf tensors, private until the window has succeeded."""

    def __init__(self) -> None:
        self.sums: dict[Tensor, Tensor] = {}

    def add(self, leaf: Tensor, gradient: Tensor | None, owned: bool = False) -> None:
        """Add to a leaf's gradient. `owned`: the tensor is nobody else's and may be kept as it is."""
        if gradient is None:
            return
        if leaf in self.sums:
            self.sums[leaf].add_(gradient)
        else:
            mine = laid_out_as(leaf, gradient)
            self.sums[leaf] = mine.clone() if mine is gradient and not owned else mine

    def only(self, leaves: Iterable[Tensor]) -> dict[Tensor, Tensor]:
        """Those of some leaves."""
        return {leaf: self.sums[leaf] for leaf in leaves}

    def take(self, leaves: Iterable[Tensor]) -> dict[Tensor, Tensor]:
        """Those of some leaves, which start again from nothing."""
        return {leaf: self.sums.pop(leaf) for leaf in leaves if leaf in self.sums}

    def commit(self) -> None:
        """Add them to `.grad`, as loss.backward() does."""
        for leaf, gradient in self.sums.items():
            if not leaf.requires_grad:
                continue
            if leaf.grad is None:
                leaf.grad = gradient
            else:
                leaf.grad.add_(gradient)


def laid_out_as(leaf: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the strides of its leaf: fused optimizers go through both in the order of memory."""
    return gradient if gradient.stride() == leaf.stride() else torch.empty_like(leaf).copy_(gradient)


class Objective:
    """Sums of losses and metrics over a window, and where its gradients are gathered."""

    def __init__(self, window: Window, loss: Loss):
        self.window, self.loss = window, loss
        self.gathered = Gathered()
        self.total = torch.zeros((), dtype=window.model.dtype, device=window.model.device)
        self.local = [self.total if beta else self.total + float("nan") for beta in window.betas]
        self.metrics: dict[str, Tensor] = {}
        self.targets = 0

    def task(self, output: Tensor, y: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """The weighted sum of the loss over the targets among output (steps, rows, hidden), with its graph; None if there
        are none. Only positions with a target are shown to the loss: whole steps where all rows of a step have one, else
        packed into a single step."""
        if mask is not None:
            if not bool(mask.any()):
                return None
            if not bool(mask.all()):
                assert y is not None
                whole = mask.all(1)
                if bool((mask == whole[:, None]).all()):
                    output, y = output[whole], y[whole]
                else:
                    output, y = output[mask][None], y[mask][None]
        assert y is not None
        result = self.loss(output, y)
        values, metrics = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not isinstance(metrics, Mapping):
            raise TypeError(f"loss returned a {type(metrics).__name__} beside its values; expected a dict of metrics")
        shape = tuple(output.shape[:2])
        if not isinstance(values, Tensor) or tuple(values.shape) != shape:
            got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"loss returned {got}; expected one value per step and row, {shape}, as reduction='none' gives: "
                f"the library takes the mean over the whole window"
            )
        for name, value in metrics.items():
            summed = checks.metric(name, value)
            self.metrics[name] = self.metrics[name] + summed if name in self.metrics else summed
        weighted = values.sum() * self.window.weight
        self.total = self.total + weighted.detach()
        self.targets += shape[0] * shape[1]
        return weighted

    def local_loss(self, ended: Ended) -> Tensor | None:
        """beta times the weighted local loss of segments that ended, with its graph; None where beta is 0."""
        if not self.window.betas[ended.level]:
            return None
        index = self._index(ended)
        values = self.window.model.decoder(ended.level).loss(ended.summary, index, ended.recent(index), ended.ticks)
        return self._weigh_local(ended, values) * self.window.betas[ended.level]

    def local_gradient(self, ended: Ended) -> Tensor:
        """Gather the gradients of `local_loss` and return that of the summaries; beta is not 0."""
        index, level = self._index(ended), ended.level
        span = ended.span.to(ended.summary.dtype) if isinstance(ended.span, Tensor) else ended.span
        weight = span * (self.window.local_weight * self.window.betas[level])
        values, d_summary, gradients = self.window.model.decoder(level).differentiate(
            ended.summary, index, ended.recent(index), ended.ticks, weight
        )
        self._weigh_local(ended, values)
        for parameter, gradient in gradients.items():
            self.gathered.add(parameter, gradient, owned=True)
        return d_summary

    def _index(self, ended: Ended) -> Tensor:
        if ended.index is not None:
            return ended.index
        decoder = self.window.model.decoder(ended.level)
        return decoder.draw(self.window.seed, ended.level, ended.row, ended.ordinal, ended.ticks)

    def _weigh_local(self, ended: Ended, values: Tensor) -> Tensor:
        weighted = (values * ended.span).sum() * self.window.local_weight
        self.local[ended.level] = self.local[ended.level] + weighted.detach()
        return weighted

    def differentiate(self, loss: Tensor | None, leaf: Tensor) -> Tensor | None:
        """Gather the gradients of every leaf that `loss` depends on, and return that of `leaf`."""
        if loss is None or not loss.requires_grad:
            return None
        others = [other for other in leaves([loss]) if other is not leaf]
        gradients = torch.autograd.grad(loss, [leaf, *others], allow_unused=True)
        for other, gradient in zip(others, gradients[1:], strict=True):
            self.gathered.add(other, gradient)
        return gradients[0]

    def result(self, state: State) -> Result:
        local = torch.stack(self.local) if self.local else self.total.new_zeros(0)
        return Result(state, self.total, local, self.metrics, self.targets)


def leaves(tensors: Iterable[Tensor], stop: Tensor | None = None) -> list[Tensor]:
    """The tensors that a graph would accumulate gradients in, without looking behind `stop`."""
    found: dict[Tensor, None] = {}
    seen = {stop.grad_fn if stop is not None else None, None}
    stack = [tensor.grad_fn for tensor in tensors]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        assert node is not None
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[variable] = None
        stack.extend(following for following, _ in node.next_functions)
    return list(found)
