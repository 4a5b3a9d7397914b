"""Models by name, as the paper has them: a hierarchy with a linear head, and the method of its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hrnn.errors import UserError
from hrnn.gradients import Full, Restricted
from hrnn.hierarchy import HRNN
from hrnn.memory import paper_count
from hrnn.segments import Given
from hrnn.tasks import load_object
from hrnn.training.config import Config


class Network(nn.Module):
    """The hierarchy and a head that reads the output of its lowest level."""

    def __init__(self, config: Config[Any]):
        super().__init__()
        model = config.model
        self.levels = HRNN(
            config.task.inputs,
            hidden_sizes=config.hidden_sizes,
            periods=[*(Given(reach) for reach in config.reaches), *config.periods],
            cell=load_object(model.cell, "--cell") if ":" in model.cell else model.cell,  # type: ignore[arg-type]
            decoder_layers=model.decoder_layers,
            decoder_units=model.decoder_units,
            indices=model.indices,
        )
        self.head = nn.Linear(config.hidden_sizes[0], config.task.outputs)

    def forward(self, output: Tensor) -> Tensor:
        """Output of the hierarchy (T, B, hidden) -> logits (T, B, outputs)."""
        logits: Tensor = self.head(output)
        return logits


def build(config: Config[Any]) -> Network:
    """A network with the initial weights of the configuration's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.upkeep.seed)
        try:
            return Network(config)
        except (ValueError, TypeError) as error:
            own = f"--cell {config.model.cell} cannot be used: " if ":" in config.model.cell else ""
            raise UserError(f"{own}{error}") from None


def gradient(config: Config[Any]) -> Full | Restricted:
    """How the model's gradient is computed."""
    if not config.model.restricted:
        return Full()
    return Restricted(config.model.round_steps if config.reaches else None)


def unrolled(config: Config[Any]) -> int:
    """The window that the model is trained with; mr-hrnn gets as many steps as the others store vectors."""
    if config.model.model != "mr-hrnn":
        return config.window
    return paper_count(config.periods, config.window)


def narrow_levels(config: Config[Any]) -> Iterator[str]:
    """Warnings: a level that is no larger than what it summarises several of."""
    inputs = config.task.inputs
    sizes = (inputs if isinstance(inputs, int) else 0, *config.hidden_sizes)
    segments = (*config.reaches, *config.periods)
    for level, ticks in enumerate(segments):
        if ticks > 1 and sizes[level + 1] <= sizes[level]:
            below = f"vectors of {sizes[level]}" if level == 0 else f"hidden states of {sizes[level]} units"
            yield (
                f"level {level} has {sizes[level + 1]} units to summarise up to {ticks} {below}; "
                "let levels grow, e.g. --hidden-sizes 64 256 1024"
            )
