"""A run's network as it was learned, for evaluating and whatever a user does with it; and text from it, one character at a
time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hrnn.training.folder as folders
from hrnn.errors import UserError, shortened, words_of
from hrnn.tasks import Text
from hrnn.tasks.streams import compiled
from hrnn.training.checkpoint import Checkpoint, CheckpointFolder, DamagedError
from hrnn.training.config import Config
from hrnn.training.evaluation import task_gives_boundaries
from hrnn.training.identity import Identity, Trust
from hrnn.training.network import Network, build


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
    folder = Path(folder)
    stored = folders.read_run(folder)
    config, identity = stored.config(Trust(task, cell, trust)), stored.identity
    checkpoints = CheckpointFolder(folder / folders.CHECKPOINTS, config.upkeep.checkpoints, identity.id, stored.options)
    update, chosen = _chosen(folder, checkpoints, str(checkpoint))
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


class Boundaries:
    """The boundaries of a text that is still being written. A boundary before a character is known with it."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]):
        self._patterns = patterns
        self._searched = [0] * len(patterns)  # matches do not overlap: each search begins where the last match ended
        self._text = ""

    def read(self, character: str) -> list[bool]:
        """For each level, lowest first: does a segment begin with this character?"""
        place, self._text = len(self._text), self._text + character
        begins = []
        for level, pattern in enumerate(self._patterns):
            ends = [match.end() for match in pattern.finditer(self._text, self._searched[level]) if match.end() <= place]
            self._searched[level] = max([self._searched[level], *ends])
            begins.append(place in ends)
        return [any(begins[level:]) for level in range(len(begins))]


@torch.no_grad()
def sample(trained: Trained, prompt: str, length: int, temperature: float = 1.0, seed: int = 0) -> Iterator[str]:
    """`length` characters that continue the prompt; temperature 0 takes the likeliest each time.

    For a run on bytes, prompt and characters are bytes written as the characters 0..255.
    """
    task = trained.config.task
    if not isinstance(task, Text):
        raise UserError("only runs on text can be sampled")
    if not prompt:
        raise UserError("--prompt is empty; give at least one character")
    if not 0 <= temperature < math.inf:
        raise UserError(f"--temperature is {temperature}; give 0 or more")
    levels = trained.network.levels
    boundaries = Boundaries(compiled(task.boundaries))
    given = task_gives_boundaries(trained.network)
    generator = torch.Generator().manual_seed(seed)
    state, output = None, torch.empty(0)
    codes, text = task.encode(prompt, "the prompt"), prompt
    for written in range(len(codes) + length - 1):
        begins = torch.tensor([boundaries.read(text[written])])  # (1, levels)
        begins = begins[:, 0] if begins.shape[1] == 1 else begins
        output, state = levels.step(torch.tensor([codes[written]]), state, boundaries=begins if given else None)
        if written >= len(prompt) - 1:
            logits = trained.network(output[None])[0, 0, : len(task.vocabulary)]  # the unknown symbol is none to write
            codes.append(_draw(logits, temperature, generator))
            text += task.vocabulary[codes[-1]]
            yield text[-1]


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    """One of logits (n,)."""
    if temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial((logits / temperature).softmax(0), 1, generator=generator))
