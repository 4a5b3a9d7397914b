"""A run's network as it was learned, for evaluating, sampling and whatever a user does with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hrnn.training.folder as folders
from hrnn.errors import UserError, shortened, words_of
from hrnn.training.checkpoint import Checkpoint, CheckpointFolder, DamagedError
from hrnn.training.config import Config
from hrnn.training.identity import Identity
from hrnn.training.network import Network, build
from hrnn.training.trust import Trust


@dataclass(frozen=True)
class Trained:
    """A run's configuration, its network with the weights of a checkpoint, and that checkpoint's update and facts.

    network.levels is the hierarchy, an `hrnn.HRNN`; network.head reads the output of its lowest level.
    """

    config: Config[Any]
    network: Network
    update: int
    facts: dict[str, Any]
    identity: Identity


def load(
    folder: str | Path,
    checkpoint: str | int = "best",
    *,
    task: str | None = None,
    cell: str | None = None,
    trust: bool = False,
) -> Trained:
    """A trained run: its network, in evaluation mode, with the weights of a checkpoint.

    checkpoint: "best" on validation (the last where nothing was validated), "last", or the number of an update
    task, cell: the run's own task or cell, "module:Name", which is imported then
    trust:      import whatever the run names; otherwise opening it runs no code of its own
    """
    return load_trusting(Path(folder), str(checkpoint), Trust(task, cell, trust))


def load_trusting(folder: Path, which: str, trust: Trust) -> Trained:
    """The same, as the commands have it."""
    stored = folders.read_run(folder)
    config, identity = stored.config(trust), stored.identity
    checkpoints = CheckpointFolder(folder / folders.CHECKPOINTS, config.upkeep.checkpoints, identity.id, stored.options)
    update, chosen = _chosen(folder, checkpoints, which)
    network = build(config)
    try:
        network.load_state_dict(chosen.section("network"))
    except (RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{checkpoints.path(update)} does not fit the configuration of {folder} ({words_of(error)})") from None
    return Trained(config, network.eval(), update, chosen.facts, identity)


def _chosen(folder: Path, checkpoints: CheckpointFolder, which: str) -> tuple[int, Checkpoint]:
    updates = checkpoints.updates()
    if not updates:
        raise UserError(f"{folder} has no checkpoint yet; let it run a little: {folders.resume_command(folder)}")
    try:
        update = updates[-1] if which in ("best", "last") else int(which)
        if update not in updates:
            raise ValueError
    except ValueError:
        raise UserError(f"--checkpoint is {shortened(which)!r}; give best, last, or one of {updates}") from None
    try:
        chosen = checkpoints.get(update)
        best_at = chosen.facts["position"].get("best_at")
        if which == "best" and best_at is not None:
            if type(best_at) is not int:
                raise DamagedError(f"{checkpoints.path(update)} names {shortened(best_at)!r} as the best update")
            update, chosen = best_at, checkpoints.get(best_at)
    except DamagedError as error:
        raise UserError(f"{error}; give another --checkpoint of {updates}") from None
    return update, chosen
