"""Needle: noise symbols, one of them flagged; after the last step the flagged one must be named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hrnn.data.random import below, random_words
from hrnn.hierarchy import Tokens
from hrnn.limits import above, at_least, option
from hrnn.tasks.contract import ACCURACY, Task, classified
from hrnn.tasks.windows import Batch, Reading, with_last_target


@dataclass(frozen=True)
class Needle(Task):
    """Remember one flagged symbol among --steps symbols of noise. Token s + symbols is symbol s with the flag.

    Flagged symbols are rare and matter. With --no-flagged the first symbol matters, which looks like all the others; with
    --decoys there are rare symbols that do not.

    Examples:
        hrnn train needle
        hrnn train needle --symbol-weights inverse --sequences 60000
        hrnn train needle --steps 10000 --hidden-sizes 32 64 128 --periods 10 10 --batch 20
    """

    steps: int = option(50, at_least(1))
    """Length of a sequence."""
    symbols: int = option(8, at_least(2, 2**30))
    """Different symbols; chance is one over this."""
    within: float = option(0.1, above(0, 1))
    """The flag falls into this first share of the sequence; what follows is the time to remember it."""
    flagged: bool = True
    """Whether the symbol to remember has a flag; if not, it is the first one."""
    decoys: int = option(0, at_least(0, 2**20))
    """Symbols of a sequence, anywhere, that are as rare as flagged ones and do not matter: tokens from 2 * symbols on."""
    test_sequences: int = option(1000, at_least(1))
    """Fresh sequences of a validation or a test."""

    metrics = (ACCURACY,)
    suggested: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (32, 64),
        "periods": (10,),
        "window": 100_000,
        "batch": 50,
        "learning_rate": 3e-3,
        "sequences": 120_000,
        "validate_every": 120,
    }

    def steps_of_batch(self, reading: Reading) -> int:
        return self.steps

    @property
    def inputs(self) -> Tokens:
        return Tokens((3 if self.decoys else 2) * self.symbols)

    @property
    def outputs(self) -> int:
        return self.symbols

    def loss(self, logits: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return classified(logits, target)

    def sequences(self, name: str, index: int, rows: range, reading: Reading) -> Batch:
        """x (steps, rows); y the flagged symbol, at the last step only."""
        words = random_words(reading.seed, f"needle/{name}", index, rows, self.steps + 1 + 2 * self.decoys)
        x = torch.from_numpy(below(words[1 : self.steps + 1], self.symbols))
        first = max(1, round(self.within * self.steps)) if self.flagged else 1
        place, row = torch.from_numpy(below(words[0], first)), torch.arange(len(rows))
        needle = x[place, row]
        places, decoys = words[self.steps + 1 :].reshape(2, self.decoys, len(rows))
        x[torch.from_numpy(below(places, self.steps)), row] = torch.from_numpy(below(decoys, self.symbols)) + 2 * self.symbols
        x[place, row] = needle + self.symbols * self.flagged
        return with_last_target(x, needle, reading.window)

    def batch(self, index: int, reading: Reading) -> Batch:
        return self.sequences("training", index, reading.rows, reading)

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        for rows in reading.batches(self.test_sequences):
            yield self.sequences(part, 0, rows, reading)
