"""Models by name, as the paper has them: a hierarchy with a linear head, and the method of its gradient; optimizers by name,
and the learning rate as a function of how far the run is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn, optim

from hrnn.errors import UserError
from hrnn.gradients import Gradient, Updates
from hrnn.hierarchy import HRNN
from hrnn.memory import paper_count
from hrnn.parallel import ALONE, Group
from hrnn.segments import Given
from hrnn.tasks import Reading, load_object
from hrnn.training import edges
from hrnn.training.config import Config, Learning
from hrnn.training.methods import parsed

OPTIMIZERS = (optim.Adam, optim.AdamW, optim.SGD, optim.RMSprop, optim.Adagrad, optim.NAdam, optim.RAdam, optim.Adamax)
KINDS: dict[str, type[optim.Optimizer]] = {kind.__name__.lower(): kind for kind in OPTIMIZERS}
FUSED = ("adam", "adamw", "sgd", "adagrad")  # have an implementation in one kernel, several times faster on the CPU


class Headed(nn.Module):
    """A hierarchy and a head that reads its output: the hidden state of the lowest level, or those of all."""

    def __init__(self, levels: HRNN, head: nn.Module):
        super().__init__()
        self.levels, self.head = levels, head

    def forward(self, output: Tensor) -> Tensor:
        """Output of the hierarchy (T, B, hidden) -> logits (T, B, outputs)."""
        logits: Tensor = self.head(output)
        return logits


class Network(Headed):
    """That of a configuration, with the method of its gradient."""

    def __init__(self, config: Config[Any]):
        model = config.model
        levels = HRNN(
            config.task.inputs,
            hidden_sizes=config.hidden_sizes,
            periods=[*(Given(reach) for reach in config.reaches), *config.periods],
            cell=_own(model.cell, "--cell"),
            decoder_layers=model.decoder_layers,
            decoder_units=model.decoder_units,
            indices=model.indices,
            normalized=model.normalized,
            symbol_weights=model.symbol_weights,
            output=model.output_levels,
            reads=model.reads,
            reader=[_own(one, "--reader") for one in model.reader],
            context=model.context,
            burn_in=model.burn_in,
            segments=model.segments,
        )
        super().__init__(levels, nn.Linear(levels.output_size, config.task.outputs))
        self.method = gradient(config, levels)  # a module where it has weights of its own


def _own(name: str, option: str) -> Any:
    """What a name of the user's own stands for; others as they are."""
    return load_object(name, option) if ":" in name else name


def build(config: Config[Any]) -> Network:
    """A network with the initial weights of the configuration's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.upkeep.seed)
        try:
            return Network(config)
        except (ValueError, TypeError) as error:
            named = " ".join(one for one in config.model.reader if ":" in one) if str(error).startswith("reader") else ""
            own = f"--reader {named}" if named else f"--cell {config.model.cell}" if ":" in config.model.cell else ""
            raise UserError(f"{own} cannot be used: {error}" if own else str(error)) from None


def gradient(config: Config[Any], levels: HRNN) -> Gradient:
    """How the model's gradient is computed."""
    method, knob = parsed(config.model.method)
    return method.make(levels, knob)


def unrolled(config: Config[Any]) -> int:
    """The window that the model is trained with; mr-hrnn gets as many steps as the others store vectors."""
    if config.model.model != "mr-hrnn":
        return config.window
    return paper_count(config.periods, config.window)


def reading(config: Config[Any], group: Group = ALONE) -> Reading:
    """How the run reads its task: this process's share of the rows."""
    batch, segment = config.batch, config.periods[0] if config.periods and not config.reaches else 1
    return Reading(config.upkeep.seed, batch, unrolled(config), group.rows(batch), segment)


def narrow_levels(config: Config[Any]) -> Iterator[str]:
    """Warnings: a level that is no larger than what it summarises several of."""
    inputs = config.task.inputs
    sizes = (inputs if isinstance(inputs, int) else 0, *config.hidden_sizes)
    segments = (*config.reaches, *config.periods)
    wiring = edges.of(config.model, segments)
    for level, ticks in enumerate(segments):
        if ticks > 1 and sizes[level + 1] <= sizes[level] and wiring.sends(level):
            below = f"vectors of {sizes[level]}" if level == 0 else f"hidden states of {sizes[level]} units"
            yield (
                f"level {level} has {sizes[level + 1]} units to summarise up to {ticks} {below}; "
                "let levels grow, e.g. --hidden-sizes 64 256 1024"
            )


def make_optimizer(learning: Learning, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    options: dict[str, Any] = {"lr": learning.rate, "weight_decay": learning.weight_decay}
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
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[learning.schedule or "constant"]
    rise = min(1.0, (update + 1) / learning.warmup) if learning.warmup else 1.0
    return learning.rate * max(fall, 0.0) * rise
