"""Copy: L random bits, then L blanks; the target is L blanks, then the bits. L grows as lengths are solved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypedDict

import torch
from torch import Tensor

from hrnn.data.random import random_words
from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import above, at_least, option
from hrnn.metrics import Metric
from hrnn.tasks.contract import BITS_PER_CHARACTER, BITS_PER_NAT, Course, Decision, Scorer, Task, cross_entropy
from hrnn.tasks.windows import Batch, Reading, cut

BLANK = 2
RECALLED: Final = "recalled_bits_per_character"


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
    start: int | None = option(None, at_least(1))
    """First length of the curriculum; by default two of the lowest periods, if the window has room for it: below one period
    a hierarchy is slow to get going."""
    step: int | None = option(None, at_least(1))
    """By how much the length grows once it is solved; by default a fifth of the first length."""
    until: int | None = option(None, at_least(1))
    """The run is over when this length is solved."""
    patience: int | None = option(None, at_least(1))
    """Updates at one length, to the end of a batch, before going back to the last solved one, to grow by 1 from there; none: no
    limit."""
    solved: float = option(0.15, above(0))
    """Bits per recalled character below which a length is solved (chance is 1)."""
    test_sequences: int = option(1000, at_least(1))
    """Fresh sequences of a test."""

    inputs, outputs = Tokens(3), 3
    progress = Metric(
        "solved",
        label="length solved",
        unit="bits",
        higher_is_better=True,
        digits=1,
        least=0,
        in_result="longest_solved_length",
        none="no length solved",
    )
    suggested: ClassVar[dict[str, Any]] = {"hidden_sizes": (256, 256), "periods": (10,), "window": 200, "sequences": 1_000_000}
    published: ClassVar[dict[str, Any]] = {"start": 1, "step": 1}

    def check(self) -> None:
        growing = {"--start": self.start, "--step": self.step}
        if self.length is not None and (given := [f"{name} {value}" for name, value in growing.items() if (value or 1) > 1]):
            raise UserError(
                f"--length {self.length} trains at one length and {' '.join(given)} at growing ones; give one or the other"
            )
        if self.until is not None and self.length is not None:
            raise UserError(f"--until {self.until} ends a curriculum and --length {self.length} is none; give one or the other")
        if self.until is not None and self.until < self.first_length:
            raise UserError(
                f"--until {self.until} ends a curriculum that starts at --start {self.start}; give a length from there on"
            )

    def suited(self, periods: tuple[int, ...], window: int) -> Copy:
        if self.length is not None:
            return self
        lowest = periods[0] if periods else self.suggested["periods"][0]
        start = self.start or min(2 * lowest, max(1, window // 4), self.until or window)
        return replace(self, start=start, step=self.step or max(1, start // 5))

    @property
    def first_length(self) -> int:
        """That of the first batch."""
        return self.length or self.start or 1

    def steps_of_batch(self, reading: Reading) -> int:
        return 2 * self.first_length

    @property
    def metrics(self) -> tuple[Metric, ...]:
        levels = ((self.solved, "solved"), (1.0, "chance"))
        recalled = Metric(RECALLED, "bits per recalled character", "recalled bits", least=0, levels=levels)
        return recalled, BITS_PER_CHARACTER

    @property
    def judged_by_progress(self) -> bool:
        return self.length is None  # the solution of the only length says less than its loss

    def standing(self, record: Mapping[str, Any]) -> float | None:
        """In a curriculum the longest solved length, and the share of the next one: its loss alone says nothing, as longer
        sequences are harder."""
        bits = record.get(RECALLED)
        if bits is None or not self.judged_by_progress:
            return bits
        return float(record["solved"] + max(0.0, 1.0 - bits))

    def as_learned(self, course: Mapping[str, Any], length: int | None = None) -> Copy:
        """At one length: that which the user gives, the task's own, or the longest that was solved."""
        length = length or self.length or course.get("longest")
        if type(length) is not int:
            raise UserError("the checkpoint does not say which length was solved; give --length")
        if not length:
            raise UserError("the run has solved no length; give --length")
        return replace(self, length=length, start=None, step=None, until=None).resolved()

    def loss(self, logits: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        values = cross_entropy(logits, target)
        recalled = target != BLANK
        return values, {"recalled": values * recalled, "recalled_count": recalled.to(values.dtype)}

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return {
            RECALLED: sums["recalled"] / max(sums["recalled_count"], 1) * BITS_PER_NAT,
            "bits_per_character": sums["loss"] / max(targets, 1) * BITS_PER_NAT,
        }

    def sequences(self, name: str, index: int, length: int, reading: Reading, rows: range | None = None) -> Batch:
        """Fresh sequences: x and y (2 * length, rows), cut into windows from step 0."""
        rows = reading.rows if rows is None else rows
        bits = torch.from_numpy((random_words(reading.seed, f"copy/{name}", index, rows, length) >> 63).astype("int64"))
        blanks = torch.full_like(bits, BLANK)
        return Batch(cut(torch.cat([bits, blanks]), torch.cat([blanks, bits]), reading.window))

    def batch(self, index: int, reading: Reading) -> Batch:
        return self.sequences("training", index, self.first_length, reading)

    def fullest_batch(self, reading: Reading, steps: int) -> Batch:
        return self.sequences("training", 0, self.length or max(1, steps // 2), reading)

    def tests(self, name: str, number: int, length: int, reading: Reading) -> Iterator[Batch]:
        """The sequences of test `number`, in batches no larger than those of training."""
        for rows in reading.batches(self.test_sequences):
            yield self.sequences(name, number, length, reading, rows)

    def parts(self) -> tuple[str, ...]:
        return ("test",) if self.length else ()  # a curriculum tests each length itself

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        return self.tests(part, 0, self.first_length, reading)

    def course(self, reading: Reading) -> Curriculum:
        return Curriculum(self, reading)


@dataclass
class Stage:
    """Where a curriculum stands; all of it is in the checkpoint."""

    length: int
    step: int
    batches: int = 0  # at this length, since it began or began again
    began: int = 0  # after so many updates
    tests: int = 0  # over all lengths: each test draws fresh sequences
    longest: int = 0  # the longest solved length; 0 for none
    solved_at: int = 0  # the update whose checkpoint solved it
    finished: str | None = None


class Losses(TypedDict):
    """Bits of a test: over recalled characters, over all, and by position."""

    recalled_bits_per_character: float
    bits_per_character: float
    bits_by_position: list[float]


class LengthRecord(Losses):
    """What the journal says of a length: how it ended, after how many updates and sequences of its own."""

    kind: str
    update: int
    length: int
    outcome: Literal["solved", "expired"]
    updates: int
    sequences: int


class Curriculum(Course):
    """Start, step and patience are the task's options; a single length is a curriculum that ends with its first."""

    task: Copy

    def __init__(self, task: Copy, reading: Reading):
        super().__init__(task, reading)
        self.last = task.length or task.until
        self.stage = Stage(length=task.first_length, step=task.step or 1)

    def batch(self, index: int) -> Batch:
        return self.task.sequences("training", index, self.stage.length, self.reading)

    def after_update(self, update: int, report: dict[str, float], score: Scorer) -> Decision:
        self.stage.batches += 1
        if report[RECALLED] < self.task.solved:
            tested = self._test(score)
            if tested[RECALLED] < self.task.solved:
                return self._solved(update, tested)
        if self.task.patience is not None and update - self.stage.began >= self.task.patience:
            return self._expired(update, score)
        return Decision()

    def _test(self, score: Scorer) -> Losses:
        """Losses on fresh sequences of this length."""
        self.stage.tests += 1
        batches = self.task.tests("test", self.stage.tests, self.stage.length, self.reading)
        return losses_by_position(score(batch) for batch in batches)

    def _record(self, update: int, outcome: Literal["solved", "expired"], tested: Losses) -> LengthRecord:
        now = self.stage
        return {
            "kind": "length",
            "update": update,
            "length": now.length,
            "outcome": outcome,
            "updates": update - now.began,
            "sequences": now.batches * self.reading.batch,
            **tested,
        }

    def _solved(self, update: int, tested: Losses) -> Decision:
        now = self.stage
        record = self._record(update, "solved", tested)
        now.longest, now.solved_at = now.length, update
        if self.last is not None and now.length >= self.last:
            now.finished = "solved"
        now.length, now.batches, now.began = now.length + now.step, 0, update
        return Decision([record], keep=True)

    def _expired(self, update: int, score: Scorer) -> Decision:
        """Go back to the last solved checkpoint and grow by 1; if that was tried, or nothing was solved, it is over."""
        now = self.stage
        record = self._record(update, "expired", self._test(score))
        if now.step == 1 or not now.longest:
            now.finished = "patience"
            return Decision([record])
        now.length, now.step, now.batches, now.began = now.longest + 1, 1, 0, update
        return Decision([record], back_to=now.solved_at)

    @property
    def status(self) -> dict[str, Any]:
        return {"length": self.stage.length, "solved": self.stage.longest}

    @property
    def finished(self) -> str | None:
        return self.stage.finished

    @property
    def kept(self) -> set[int]:
        return {self.stage.solved_at} if self.stage.longest else set()

    @property
    def outcome(self) -> dict[str, Any]:
        # Only patience shows that a length is too long; a budget, or the end of the lengths, leaves it open.
        return {"longest_solved_length": self.stage.longest, "at_least": self.finished != "patience"}

    def state(self) -> dict[str, Any]:
        return asdict(self.stage)

    def load_state(self, state: dict[str, Any]) -> None:
        stage = Stage(**state)
        counts = (stage.length, stage.step, stage.batches, stage.began, stage.tests, stage.longest, stage.solved_at)
        if not all(type(count) is int and count >= 0 for count in counts) or stage.finished not in (None, "solved", "patience"):
            raise ValueError(f"the curriculum is at {state}")
        self.stage = stage


def losses_by_position(scored: Iterator[Iterator[torch.Tensor]]) -> Losses:
    """Nats (T, B) of every window of every batch -> mean bits over recalled and all characters, and by position."""
    total, rows = torch.zeros(()), 0
    for windows in scored:
        values = torch.cat(list(windows)).double()
        total = total + values.sum(1)
        rows += values.shape[1]
    by_position = total / rows * BITS_PER_NAT
    length = len(by_position) // 2
    return {
        RECALLED: float(by_position[length:].mean()),
        "bits_per_character": float(by_position.mean()),
        "bits_by_position": [round(float(bits), 5) for bits in by_position],
    }
