"""The objective, the same for every method: the task's loss, and beta times each level's local loss."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from hrnn import checks
from hrnn.decoders import counted
from hrnn.decoding import Decoded
from hrnn.executor import Ended
from hrnn.gradients.gathered import Gathered, leaves, muted
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Differentiated, Loss, Result, Window
from hrnn.parallel import Group
from hrnn.precision import Wide, autocasts, summed_in, wide
from hrnn.state import State
from hrnn.statistics import Scale
from hrnn.tensors import in_memory


class Objective:
    """Sums of losses and metrics over a window, and where its gradients are gathered."""

    def __init__(self, window: Window, loss: Loss, updates: Updates | None = None):
        self.window, self.loss, self.updates = window, loss, updates
        self.local_weight = window.local_weight or 0.0  # None: there are no local losses
        self.gathered = Gathered()
        self.loss_sum = torch.zeros((), dtype=summed_in(window.model.dtype), device=window.model.device)
        self.local_sums = [self.loss_sum if beta else self.loss_sum + float("nan") for beta in window.betas]
        self.metrics: dict[str, Tensor] = {}
        self.targets = 0
        self.engine = "literal: only Restricted has compiled code"
        self._casts = autocasts(window.model.device)
        self._depends: bool | None = None  # has a value that the loss returned depended on its output, or a parameter?
        self._begun = 0  # autograd's number when the loss was last called
        self._given: WeakValueDictionary[int, Tensor] = WeakValueDictionary()  # by id: outputs of before that the loss has kept
        self._by_hand: dict[int, Decoded | None] = {}
        self._statistics = {
            i: known for i, beta in enumerate(window.betas) if beta and (known := window.model.decoder(i).statistics)
        }
        self._scales = [known.scale() if (known := self._statistics.get(i)) else Scale() for i in range(len(window.betas))]
        self._seen = {level: one.gathered() for level, one in self._statistics.items()}

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
        self._begun = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        # The user's autocast is for the user's loss. It keeps no casts: parameters may move between two calls.
        casts = torch.autocast(output.device.type, cache_enabled=False) if self._casts else nullcontext()
        with casts:
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
        if problem := in_memory(values):
            raise ValueError(f"loss returned a tensor that is {problem}")
        if not values.is_floating_point():
            raise TypeError(f"loss returned values of {values.dtype}, which have no gradient; return floating-point numbers")
        if values.requires_grad:
            self._depends = True
        elif self._depends is None and output.requires_grad and bool(values.detach().any()):  # zeros are no loss at all
            self._depends = False
        for name, value in metrics.items():
            summed = checks.metric(name, value)
            self.metrics[name] = self.metrics[name] + summed if name in self.metrics else summed
        total = wide(values).sum()
        self.loss_sum = self.loss_sum + total.detach()
        self.targets += shape[0] * shape[1]
        return total * self.window.weight

    def _local_by_autograd(self, ended: Ended) -> Tensor:
        index, targets = self._asked(ended)
        decoder, scale = self.window.model.decoder(ended.level), self._scales[ended.level]
        values = decoder.loss(ended.summary, index, targets, ended.ticks, Wide(decoder), scale)
        total = self._sum_local(ended, values)
        return total * self.local_weight * self.window.betas[ended.level]

    def local_gradient(self, ended: Ended) -> Tensor:
        """Gather the gradients of beta times the weighted local loss of segments that ended, and return that of the summaries;
        beta is not 0."""
        if ended.level not in self._by_hand:
            decoder = self.window.model.decoder(ended.level)
            plain = decoder.plain and self._scales[ended.level].features is None
            self._by_hand[ended.level] = Decoded(decoder) if plain else None
        by_hand = self._by_hand[ended.level]
        if by_hand is None:
            with torch.enable_grad():
                leaf = ended.summary.detach().requires_grad_()
                gradient = self.differentiate(self._local_by_autograd(replace(ended, summary=leaf)), leaf)
            return torch.zeros_like(leaf) if gradient is None else gradient
        (index, targets), scale = self._asked(ended), self._scales[ended.level]
        span = ended.span.to(self.loss_sum.dtype) if isinstance(ended.span, Tensor) else ended.span
        weight = span * (self.local_weight * self.window.betas[ended.level] * scale.factor)
        values, d_summary = by_hand.differentiate(
            ended.summary, index, targets, ended.ticks, weight, self.gathered.sums, scale.weights
        )
        self._sum_local(ended, values)
        return d_summary

    def _asked(self, ended: Ended) -> tuple[Tensor, Tensor]:
        """The indices that are to be decoded, and the inputs there, which enter the statistics."""
        level, index = ended.level, ended.index
        decoder = self.window.model.decoder(level)
        if index is None:
            index = decoder.draw(self.window.seed, level, ended.row, ended.ordinal, ended.ticks)
        targets = ended.recent(index)
        if index.shape[0] > 1:
            targets = counted(targets, index, ended.ticks, decoder.reach)
        if level in self._statistics:
            shares = decoder.shares(index, ended.ticks) * ended.span
            weight = shares.expand(index.shape) if isinstance(shares, Tensor) else shares
            self._statistics[level].add(self._seen[level], targets, weight)
        return index, targets

    def _sum_local(self, ended: Ended, values: Tensor) -> Tensor:
        total = (wide(values) * ended.span).sum() * self._scales[ended.level].factor
        self.local_sums[ended.level] = self.local_sums[ended.level] + total.detach()
        return total

    def differentiate(self, loss: Tensor | None, leaf: Tensor) -> Tensor | None:
        """Gather the gradients of every leaf that `loss` depends on, and return that of `leaf`."""
        if loss is None or not loss.requires_grad:
            return None
        others, older = leaves([loss], since=self._begun)
        others = [other for other in others if other is not leaf]
        if any(self._given.get(id(other)) is other for other in others):
            raise ValueError(
                "loss uses the output of an earlier call with its graph, and what that came from has been differentiated; keep "
                "output.detach(), or use hrnn.Full, which sees the whole window at once"
            )
        if self.updates is not None:
            self.updates.check_leaves(others)
        self._given[id(leaf)] = leaf
        try:
            with muted(others):  # what was computed before the loss was called is needed again for the next segment
                gradients = torch.autograd.grad(loss, [leaf, *others], allow_unused=True, retain_graph=older)
        except RuntimeError as error:
            if not older:
                raise
            raise ValueError(
                "loss uses a tensor that was computed with its graph before loss was called, and autograd cannot go through "
                f"that graph once for every segment; compute the tensor inside loss, or detach it ({error})"
            ) from error
        for other, gradient in zip(others, gradients[1:], strict=True):
            self.gathered.add(other, gradient)
        return gradients[0]

    def tell(self, step: int) -> None:
        """Say what has been gathered for every level by a step, where all are differentiated together."""
        if self.window.on_segment is not None:
            for level, cell in enumerate(self.window.model.levels):
                own = [p for p in cell.parameters() if p in self.gathered.sums]
                self.window.on_segment(Differentiated(level, step, partial(self.gathered.only, own)))

    def succeed(self, group: Group) -> None:
        """The window is over: its gradients are added to `.grad`, and what its decoders were asked, in all processes, is known
        from now on."""
        meant = self.window.betas_given and any(self.window.betas)  # only local losses are to be trained
        if self._depends is False and not meant:
            raise ValueError(
                "loss returned numbers that depend neither on the output nor on a parameter, and train nothing; compute them "
                "without detach(), item() or no_grad(), or return zeros where there is no loss"
            )
        seen = [group.all_reduce(sums) for sums in self._seen.values()]
        self.gathered.commit()
        for known, sums in zip(self._statistics.values(), seen, strict=True):
            known.commit(sums)

    def result(self, state: State) -> Result:
        window, loss = self.window, self.loss_sum
        local = torch.stack(self.local_sums) if self.local_sums else loss.new_zeros(0)
        return Result(
            state,
            loss * window.weight,
            local * self.local_weight,
            self.metrics,
            loss,
            local,
            self.targets,
            window.row_steps,
            self.engine,
        )
