"""The gradient of a decoder's loss by hand: several times quicker than autograd for a network this small."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hrnn.decoders import Decoder
from hrnn.native.functions import Decoding, fits, functions
from hrnn.precision import summed_in, wide


class Decoded:
    """A decoder as it was made (`Decoder.plain`), for many calls: its parameters may move in between, but not be replaced."""

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self.layers = [layer for layer in decoder.layers if isinstance(layer, nn.Linear)]
        first, rest = self.layers[0], self.layers[1:]
        weights = [part for layer in rest for part in (layer.weight, layer.bias)]
        self.parameters = [first.weight, first.bias, decoder.index, *weights]
        self.sizes = [first.in_features, *(layer.out_features for layer in self.layers)]
        self._run: Any = functions(decoder.index) if len(rest) == 1 else None
        if self._run is not None:
            size, units, outputs = self.sizes
            self._shapes = [(units, size), (units,), (decoder.reach, units), (outputs, units), (outputs,)]

    @torch.no_grad()
    def differentiate(
        self,
        summary: Tensor,
        index: Tensor,
        targets: Tensor,
        ticks: Tensor | int,
        weight: Tensor | float,
        sums: dict[Tensor, Tensor],
        symbols: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`Decoder.loss` (n,) of n segments, and the gradient of `weight` (n,) or a number times it: that of the summary is
        returned, those of the parameters are added to `sums`. symbols: what each symbol counts for."""
        for parameter in self.parameters:
            if parameter not in sums:
                sums[parameter] = torch.zeros_like(parameter, dtype=summed_in(parameter.dtype))
        if symbols is not None:
            symbols = symbols.to(self.decoder.index.dtype).contiguous()
        if self._run is not None and self._fits(summary, targets):
            return self._in_c(summary, index, targets, ticks, weight, sums, symbols)
        first, *rest = self.layers
        x = F.linear(summary, first.weight, first.bias) + F.embedding(index - 1, self.decoder.index)
        activations = []
        for layer in rest:
            activations.append(x.relu_())
            x = F.linear(x, layer.weight, layer.bias)
        if self.decoder.tokens:
            log_p = torch.log_softmax(x, -1)
            chosen = targets[..., None]
            values, dx = -log_p.gather(-1, chosen)[..., 0], log_p.exp_()
            dx.scatter_add_(-1, chosen, dx.new_full((), -1.0).expand(chosen.shape))
        else:
            dx = x.sub_(targets)
            values = dx.square().mean(-1)
            dx.mul_(2 / dx.shape[-1])
        share: Tensor | float = 1.0
        if index.shape[0] > 1:
            counts = (index <= ticks).to(dx.dtype)
            share = counts / counts.sum(0)
        if symbols is not None:
            share = share * symbols[targets]
        if isinstance(share, Tensor):
            values = values * share
        weight = torch.as_tensor(weight, dtype=summed_in(dx.dtype), device=dx.device)
        dx.mul_((share * weight).expand(index.shape)[..., None])
        for layer, below in zip(reversed(rest), reversed(activations), strict=True):
            flat = dx.flatten(0, 1)
            sums[layer.weight].addmm_(wide(flat).t(), wide(below.flatten(0, 1)))
            sums[layer.bias].add_(wide(flat).sum(0))
            dx = (dx @ layer.weight).mul_(below > 0)
        sums[self.decoder.index].index_add_(0, (index - 1).flatten(), wide(dx.flatten(0, 1)))
        dx = dx.sum(0)
        sums[first.weight].addmm_(wide(dx).t(), wide(summary))
        sums[first.bias].add_(wide(dx).sum(0))
        return values.sum(0), dx @ first.weight

    def _fits(self, summary: Tensor, targets: Tensor) -> bool:
        """Is all that is to be decoded, and every parameter, what the C expects? Parameters may change within a window."""
        dtype, (size, _, outputs) = self.decoder.index.dtype, self.sizes
        of_targets = (torch.int64, ()) if self.decoder.tokens else (dtype, (outputs,))
        return (
            all(p.is_contiguous() and fits(p, dtype, s) for p, s in zip(self.parameters, self._shapes, strict=True))
            and fits(summary, dtype, (len(summary), size))
            and (targets.dtype, targets.shape[2:]) == of_targets
        )

    def _in_c(
        self,
        summary: Tensor,
        index: Tensor,
        targets: Tensor,
        ticks: Tensor | int,
        weight: Tensor | float,
        sums: dict[Tensor, Tensor],
        symbols: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The same for two layers, compiled."""
        m, n = index.shape
        if isinstance(weight, Tensor):
            weights = weight.to(summary.dtype).expand(n).contiguous()
        else:
            beyond = weight > torch.finfo(summary.dtype).max  # inf then, as autograd has it
            weights = summary.new_full((n,), math.inf if beyond else weight)
        some = m > 1 and not (isinstance(ticks, int) and ticks >= self.decoder.reach)  # or all indices count
        counted = torch.as_tensor(ticks).expand(n).contiguous() if some else None
        summary, index, targets = summary.contiguous(), index.contiguous(), targets.contiguous()
        values, d_summary = summary.new_empty(n), torch.empty_like(summary)
        room = summary.new_empty(self._run.decode_room(n, *self.sizes))
        addresses = [
            *(p.data_ptr() for p in self.parameters), *(sums[p].data_ptr() for p in self.parameters),
            summary.data_ptr(), index.data_ptr(), targets.data_ptr(), None if counted is None else counted.data_ptr(),
            weights.data_ptr(), None if symbols is None else symbols.data_ptr(),
            values.data_ptr(), d_summary.data_ptr(), room.data_ptr(),
        ]  # fmt: skip
        self._run.decode(ctypes.byref(Decoding(n, m, *self.sizes, self.decoder.tokens, *addresses)))
        return values, d_summary
