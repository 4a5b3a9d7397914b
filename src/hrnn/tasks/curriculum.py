"""The copy task's curriculum: a length is trained until it is solved, then the next one begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from hrnn.tasks.contract import BITS_PER_NAT, Batch, Course, Decision, Reading, Score

if TYPE_CHECKING:
    from hrnn.tasks.copy import Copy


@dataclass
class Progress:
    """Where a curriculum stands; all of it is in the checkpoint."""

    length: int
    step: int
    updates: int = 0  # at this length, since it began or began again
    tests: int = 0  # over all lengths: each test draws fresh sequences
    longest: int = 0  # the longest solved length; 0 for none
    solved_at: int = 0  # the update whose checkpoint solved it
    finished: str | None = None


class Curriculum(Course):
    """Start, step and patience are the task's options; a single length is a curriculum that ends with its first."""

    task: Copy

    def __init__(self, task: Copy, reading: Reading):
        super().__init__(task, reading)
        self.last = task.length or task.until
        self.progress = Progress(length=task.length or task.start, step=task.step)

    def batch(self, index: int) -> Batch:
        return self.task.sequences("training", index, self.progress.length, self.reading)

    def after_update(self, update: int, report: dict[str, float], score: Score) -> Decision:
        now = self.progress
        now.updates += 1
        if report["recalled_bits_per_character"] < self.task.solved:
            tested = self._test(score)
            if tested["recalled_bits_per_character"] < self.task.solved:
                return self._solved(update, tested)
        if self.task.patience is not None and now.updates >= self.task.patience:
            return self._expired(update, score)
        return Decision()

    def _test(self, score: Score) -> dict[str, Any]:
        """Losses on fresh sequences of this length, in bits: over recalled and all characters, and by position."""
        self.progress.tests += 1
        batches = self.task.tests("test", self.progress.tests, self.progress.length, self.reading)
        return losses_by_position(score(batch) for batch in batches)

    def _record(self, update: int, outcome: str, tested: dict[str, Any]) -> dict[str, Any]:
        now = self.progress
        sequences = now.updates * self.reading.batch
        return {
            "kind": "length",
            "update": update,
            "length": now.length,
            "outcome": outcome,
            "updates": now.updates,
            "sequences": sequences,
        } | tested

    def _solved(self, update: int, tested: dict[str, Any]) -> Decision:
        now = self.progress
        record = self._record(update, "solved", tested)
        now.longest, now.solved_at = now.length, update
        if self.last is not None and now.length >= self.last:
            now.finished = "solved"
        now.length, now.updates = now.length + now.step, 0
        return Decision([record], keep=True)

    def _expired(self, update: int, score: Score) -> Decision:
        """Go back to the last solved checkpoint and grow by 1; if that was tried, or nothing was solved, it is over."""
        now = self.progress
        record = self._record(update, "expired", self._test(score))
        if now.step == 1 or not now.longest:
            now.finished = "patience"
            return Decision([record])
        now.length, now.step, now.updates = now.longest + 1, 1, 0
        return Decision([record], back_to=now.solved_at)

    @property
    def status(self) -> dict[str, Any]:
        return {"length": self.progress.length, "solved": self.progress.longest}

    @property
    def finished(self) -> str | None:
        return self.progress.finished

    @property
    def kept(self) -> set[int]:
        return {self.progress.solved_at} if self.progress.longest else set()

    @property
    def outcome(self) -> dict[str, Any]:
        # Only patience shows that a length is too long; a budget, or the end of the lengths, leaves it open.
        return {"longest_solved_length": self.progress.longest, "at_least": self.finished != "patience"}

    def state(self) -> dict[str, Any]:
        return asdict(self.progress)

    def load_state(self, state: dict[str, Any]) -> None:
        found = Progress(**state)
        counts = (found.length, found.step, found.updates, found.tests, found.longest, found.solved_at)
        if not all(type(count) is int and count >= 0 for count in counts) or found.finished not in (None, "solved", "patience"):
            raise ValueError(f"the curriculum is at {state}")
        self.progress = found


def losses_by_position(scored: Iterator[Iterator[torch.Tensor]]) -> dict[str, Any]:
    """Nats (T, B) of every window of every batch -> mean bits over recalled and all characters, and by position."""
    total, rows = torch.zeros(()), 0
    for windows in scored:
        values = torch.cat(list(windows)).double()
        total = total + values.sum(1)
        rows += values.shape[1]
    by_position = total / rows * BITS_PER_NAT
    length = len(by_position) // 2
    return {
        "recalled_bits_per_character": float(by_position[length:].mean()),
        "bits_per_character": float(by_position.mean()),
        "bits_by_position": [round(float(bits), 5) for bits in by_position],
    }
