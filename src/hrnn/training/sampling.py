"""Text from a trained network, one character at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hrnn.errors import UserError
from hrnn.tasks import Text
from hrnn.tasks.boundaries import compiled
from hrnn.training.evaluation import task_gives_boundaries
from hrnn.training.trained import Trained


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
