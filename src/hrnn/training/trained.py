"""A run's network as it was learned, for evaluating, sampling and whatever a user does with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import hrnn.training.folder as folders
from hrnn.errors import UserError
from hrnn.training.checkpoint import DamagedError, Shelf, read
from hrnn.training.config import Config
from hrnn.training.network import Network, build


@dataclass(frozen=True)
class Trained:
    """The configuration of a run, its network with the weights of a checkpoint, and that checkpoint's facts."""

    config: Config[Any]
    network: Network
    update: int
    facts: dict[str, Any]


def load(folder: Path, which: str = "best") -> Trained:
    """The weights of the best validation ("best", the last ones where there was none), the "last", or of an update."""
    config = folders.read_config(folder)
    shelf = Shelf(folder / folders.CHECKPOINTS, config.upkeep.checkpoints)
    updates = shelf.updates()
    if not updates:
        raise UserError(f"{folder} has no checkpoint yet; let it run a little: hrnn resume {folder}")
    try:
        update = updates[-1] if which in ("best", "last") else int(which)
        if update not in updates:
            raise ValueError
    except ValueError:
        raise UserError(f"--checkpoint is {which!r}; give best, last, or one of {updates}") from None
    try:
        checkpoint = read(shelf.path(update))
        best_at = checkpoint.facts["position"]["best_at"]
        if which == "best" and best_at is not None:
            update, checkpoint = best_at, read(shelf.path(best_at))
    except DamagedError as error:
        raise UserError(f"{error}; give another --checkpoint of {updates}") from None
    torch.set_num_threads(config.upkeep.threads)
    network = build(config)
    network.load_state_dict(checkpoint.section("network"))
    return Trained(config, network.eval(), update, checkpoint.facts)
