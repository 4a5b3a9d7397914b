"""A run's network as it was learned, for evaluating and whatever a user does with it; and text from it, one character at a
time."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import hrnn.training.folder as folders
from hrnn.arguments import entries, flag, path_of, shown
from hrnn.errors import UserError, shortened, words_of
from hrnn.tasks import Series, Text, name_of
from hrnn.tasks.streams import compiled
from hrnn.training.answers import Answers
from hrnn.training.checkpoint import Checkpoint, CheckpointFolder, DamagedError
from hrnn.training.config import Config
from hrnn.training.edges import unusual
from hrnn.training.evaluation import task_gives_boundaries
from hrnn.training.identity import Identity, Trust
from hrnn.training.network import Headed, Network, build
from hrnn.training.predicting import Predicted, predictions
from hrnn.training.streaming import Stream


class Predicts:
    """A network that has learned series, of a run or a saved folder: values in as the data had them, answers in their terms."""

    @property
    def _of_series(self) -> tuple[Headed, Series]:
        """The network and its task, which knows the preprocessing; a UserError where something else was learned."""
        raise NotImplementedError

    def predict(self, data: Any) -> Any:
        """Answers for sequences: a list of arrays (time, channels), one array (sequences, time, channels), a table in memory,
        or paths. Classes (n,) or numbers (n,), one for each sequence; a list of arrays with one for each input, where steps
        have targets; forecasts (n, steps ahead, channels), in the source's units; the likeliest next symbols (n,)."""
        answers = Answers(self._of_series[1])
        names, found = answers.names if answers.ahead else ["prediction"], list(self._predicted(data))
        if answers.ahead:
            return np.stack([np.stack([one.columns[name] for name in names], axis=1) for one in found])
        if answers.of == "step":
            return _joined(found, names)
        return np.array([one.columns["prediction"][0] for one in found])

    def predict_proba(self, data: Any) -> Any:
        """Probabilities, (n, classes) in the order of `classes`; a list of such where steps have targets."""
        answers = Answers(self._of_series[1])
        if not answers.labels:
            raise UserError("the run predicts numbers, which have no probabilities; use predict")
        names, found = answers.names[1:], list(self._predicted(data))
        if answers.of == "step":
            return _joined(found, names)
        return np.array([[one.columns[name][0] for name in names] for one in found])

    @property
    def classes(self) -> tuple[str, ...]:
        """What it tells apart, in the order of `predict_proba`."""
        return Answers(self._of_series[1]).labels

    def stream(self, mean: Any = None, scale: Any = None) -> Stream:
        """A sequence that comes step by step; mean, scale: of its channels, where the run normalises each sequence."""
        return Stream(*self._of_series, mean, scale)

    def _predicted(self, data: Any) -> Iterator[Predicted]:
        return predictions(*self._of_series, data)


@dataclass(frozen=True)
class Trained(Predicts):
    """A run's configuration, its network with the weights of a checkpoint (their average, where it has one), and that
    checkpoint's update and facts.

    network.levels is the hierarchy, an `hrnn.HRNN`; network.head reads its output. Of a run on series,
    `predict`, `predict_proba` and `stream` take values as the data had them, and answer in their terms.
    """

    config: Config[Any]
    network: Network
    update: int
    facts: dict[str, Any]
    identity: Identity

    def __repr__(self) -> str:
        model = self.config.model
        reads = "".join(f"{name}={value}, " for name, value in unusual(model).items())
        return (
            f"Trained(task={name_of(self.config.task)}, model={model.model}, hidden_sizes={list(self.config.hidden_sizes)}, "
            f"periods={list(self.config.periods)}, {reads}update={self.update}, id={self.identity.id})"
        )

    @property
    def _of_series(self) -> tuple[Headed, Series]:
        if not isinstance(self.config.task, Series):
            raise UserError("only runs on series predict; use network.levels and network.head of others")
        return self.network, self.config.task


def _joined(found: list[Predicted], names: list[str]) -> list[Any]:
    """Of each sequence its answers, (inputs,) or (inputs, names)."""
    by_id: dict[str, list[Any]] = {}
    for one in found:
        some = np.stack([one.columns[name] for name in names], axis=1)
        by_id.setdefault(one.id, []).append(some[:, 0] if len(names) == 1 else some)
    return [np.concatenate(some) for some in by_id.values()]


def load(
    folder: str | Path,
    checkpoint: str | int = "best",
    *,
    task: str | None = None,
    cell: str | None = None,
    reader: str | Sequence[str] | None = None,
    trust: bool = False,
) -> Trained:
    """A trained run: its network, in evaluation mode, with the weights of a checkpoint; averaged, if the run averages them.

    checkpoint: "best" on validation (the last where nothing was validated), "last", or the number of an update
    task, cell, reader: the run's own task, cell or readers, "module:Name", which are imported then
    trust:      import whatever the run names; otherwise opening it runs no code of its own
    """
    folder, trusted = path_of("folder", folder), flag("trust", trust)
    for name, own in (("task", task), ("cell", cell)):
        if not isinstance(own, str | None):
            raise TypeError(f"{name} is {shown(own)}; give module:Name, or None")
    readers = [] if reader is None else [reader] if isinstance(reader, str) else entries("reader", reader, "['module:Name']")
    if not all(isinstance(one, str) for one in readers):
        raise TypeError(f"reader is {shown(reader)}; give module:Name, a list of these, or None")
    stored = folders.read_run(folder)
    config, identity = stored.config(Trust(task, cell, tuple(readers), trusted)), stored.identity
    checkpoints = CheckpointFolder(folder / folders.CHECKPOINTS, config.upkeep.checkpoints, identity.id, stored.options)
    update, chosen = _chosen(folder, checkpoints, str(checkpoint))
    network = build(config)
    try:
        network.load_state_dict(chosen.weights)
    except (RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{checkpoints.path(update)} does not fit the configuration of {folder} ({words_of(error)})") from None
    return Trained(config, network.eval(), update, chosen.facts, identity)


def warn_of_untrained(trained: Trained) -> None:
    """On standard error, for commands that use its weights."""
    if trained.update == 0:
        print("warning: these are the weights of update 0, which have learned nothing", file=sys.stderr)


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
