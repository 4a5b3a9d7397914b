"""Averaged weights: what a run is validated, tested and used with, while it learns with its own."""

from __future__ import annotations

import torch

from hrnn.training.network import Network


class Average:
    """An exponential moving average of a network's weights: after every update, average += (weights - average) / constant.

    It begins as the weights after the first update, because the initial ones say nothing. Buffers are copied. It is a pure
    function of the weights, so that every process of a run has the same one.

    network:  one of its own, built like the one that learns
    constant: in updates, at least 1
    """

    def __init__(self, network: Network, constant: float):
        self.network = network
        self.constant = constant

    @torch.no_grad()
    def add(self, network: Network, update: int) -> None:
        """The weights after update number `update`, from 1."""
        mine, learned = (tuple(one.parameters()) for one in (self.network, network))
        if update == 1:
            torch._foreach_copy_(mine, learned)
        else:
            torch._foreach_lerp_(mine, learned, 1 / self.constant)
        for buffer, value in zip(self.network.buffers(), network.buffers(), strict=True):
            buffer.copy_(value)
