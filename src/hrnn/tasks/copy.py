"""Copy: L random bits, then L blanks; the target is L blanks, then the bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import above, at_least, fitted, option
from hrnn.tasks.contract import BITS_PER_NAT, Batch, Reading, Task, cross_entropy, cut
from hrnn.tasks.curriculum import Curriculum
from hrnn.tasks.draws import draw

BLANK = 2


@dataclass(frozen=True)
class Copy(Task):
    """Repeat a string of bits after having read all of it. Sizes by default as in the paper.

    The lengths grow: a length is solved when the loss over the recalled characters is below --solved bits, on a
    batch and then on --test-sequences fresh sequences. --length trains at one length only.

    Examples:
        hrnn train copy --hidden-sizes 64 64 --periods 5 --window 60 --start 5 --step 5
        hrnn train copy --length 30 --model gr-hrnn
    """

    length: int | None = option(None, at_least(1))
    """Bits to remember, instead of a curriculum."""
    start: int = option(1, at_least(1))
    """First length of the curriculum."""
    step: int = option(1, at_least(1))
    """By how much the length grows once it is solved."""
    until: int | None = option(None, at_least(1))
    """The run is over when this length is solved."""
    patience: int | None = option(None, at_least(1))
    """Updates at one length before going back to the last solved one, to grow by 1 from there; none: no limit."""
    solved: float = option(0.15, above(0))
    """Bits per recalled character below which a length is solved (chance is 1)."""
    test_sequences: int = option(1000, at_least(1))
    """Fresh sequences of a test."""

    metric: ClassVar[str] = "recalled_bits_per_character"
    suggested: ClassVar[dict[str, Any]] = {
        "hidden_sizes": (256, 256),
        "periods": (10,),
        "window": 200,
        "sequences": 1_000_000,
    }

    def check(self) -> None:
        if self.length is not None and (self.start, self.step) != (Copy.start, Copy.step):
            raise UserError(
                f"--length {self.length} trains at one length and --start {self.start} --step {self.step} at growing "
                "ones; give one or the other"
            )
        if self.until is not None and (self.length is not None or self.until < self.start):
            raise UserError(
                f"--until {self.until} ends a curriculum that starts at --start {self.start}; give a length from there on, and "
                "no --length"
            )

    def settled(self) -> Copy:
        self.check()
        return fitted(self)

    def steps_of_batch(self, reading: Reading) -> int:
        return 2 * (self.length or self.start)

    @property
    def inputs(self) -> Tokens:
        return Tokens(3)

    @property
    def outputs(self) -> int:
        return 3

    def loss(self, logits: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        values = cross_entropy(logits, target)
        recalled = target != BLANK
        return values, {"recalled": values * recalled, "recalled_count": recalled.to(values.dtype)}

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {
            "recalled_bits_per_character": sums["recalled"] / max(sums["recalled_count"], 1) * BITS_PER_NAT,
            "bits_per_character": sums["loss"] / max(targets, 1) * BITS_PER_NAT,
        }

    def sequences(self, name: str, index: int, length: int, reading: Reading, rows: range | None = None) -> Batch:
        """Fresh sequences: x and y (2 * length, rows), cut into windows from step 0."""
        rows = reading.rows if rows is None else rows
        bits = torch.from_numpy((draw(reading.seed, f"copy/{name}", index, rows, length) >> 63).astype("int64"))
        blanks = torch.full_like(bits, BLANK)
        return Batch(cut(torch.cat([bits, blanks]), torch.cat([blanks, bits]), reading.window))

    def batch(self, index: int, reading: Reading) -> Batch:
        return self.sequences("training", index, self.length or self.start, reading)

    def tests(self, name: str, number: int, length: int, reading: Reading) -> Iterator[Batch]:
        """The sequences of test `number`, in batches no larger than those of training."""
        for first in range(0, self.test_sequences, reading.batch):
            rows = range(first, min(first + reading.batch, self.test_sequences))
            yield self.sequences(name, number, length, reading, rows)

    def parts(self) -> tuple[str, ...]:
        return ("test",) if self.length else ()  # a curriculum tests each length itself

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        return self.tests(part, 0, self.length or self.start, reading)

    def course(self, reading: Reading) -> Curriculum:
        return Curriculum(self, reading)
