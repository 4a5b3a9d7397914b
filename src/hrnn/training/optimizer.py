"""Optimizers of torch by name, and the learning rate as a function of how far the run is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from hrnn.gradients import Updates
from hrnn.parallel import Group
from hrnn.training.config import Learning
from hrnn.training.network import Network

KINDS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
}
FUSED = ("adam", "adamw", "sgd", "adagrad")  # have an implementation in one kernel, several times faster on the CPU


def make_optimizer(learning: Learning, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": learning.learning_rate, "weight_decay": learning.weight_decay}
    if learning.optimizer in ("sgd", "rmsprop"):
        options["momentum"] = learning.momentum
    if learning.optimizer in FUSED:
        options["fused"] = True
    return KINDS[learning.optimizer](parameters, **options)


def make_updates(learning: Learning, network: Network, group: Group) -> Updates:
    """An optimizer for each level, which moves as soon as its segments have been differentiated."""
    every = [n or None for n in learning.update_every or (1,)]
    return Updates(
        network.levels,
        lambda parameters: make_optimizer(learning, parameters),
        heads=network.head.parameters(),
        every=every,
        clip=learning.clip,
        group=group,
    )


def learning_rate(learning: Learning, update: int, done: float) -> float:
    """The rate of update number `update` (from 0), when the share `done` of the budget is used up.

    A function, not a scheduler with a state: a resumed run needs nothing but the numbers it has anyway.
    """
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[learning.schedule]
    rise = min(1.0, (update + 1) / learning.warmup) if learning.warmup else 1.0
    return learning.learning_rate * max(fall, 0.0) * rise
