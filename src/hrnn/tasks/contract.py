"""What a task is to the trainer: inputs, targets and a loss, in batches of windows.

A batch is a pure function of its number and of the run's seed, so a run's position in the data is one integer, and
the rows of a batch can be shared out among processes without changing what any row holds.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import fitted
from hrnn.metrics import LOCAL_LOSSES, LOSS, Metric, Metrics
from hrnn.tasks.windows import Batch, Reading, Window

BITS_PER_NAT = 1.4426950408889634
ACCURACY = Metric("accuracy", higher_is_better=True, least=0, most=1)
BITS_PER_CHARACTER = Metric("bits_per_character", short="bits")


class Task(ABC):
    """Base of all tasks. A subclass is a frozen dataclass whose fields are its options on the command line."""

    suggested: ClassVar[dict[str, Any]] = {}  # options of the run (hidden_sizes, window, ...) that suit the task
    decided_by_data: ClassVar[tuple[str, ...]] = ()  # those that only `suggestions` knows
    published: ClassVar[dict[str, Any]] = {}  # options of the task or the run that are others in the paper, for --literal

    def check(self) -> None:  # noqa: B027  most tasks have nothing to add
        """Refuse options that contradict each other with a UserError. Types and ranges have been checked; reads no data."""

    def suggestions(self) -> dict[str, Any]:
        """Options of the run that suit the task, where the user gives none; a task whose data decide reads them now."""
        return dict(self.suggested)

    def suited(self, periods: tuple[int, ...], window: int) -> Self:
        """The same for a hierarchy with these periods and this window: options of its own that are open get a value that suits
        them."""
        return self

    def placed(self, run: Path) -> Self:
        """The same task, for a run in this folder; where it keeps what it makes of its data may depend on it."""
        return self

    def steps_of_batch(self, reading: Reading) -> int | None:
        """The steps of a batch before anything is read: whether it fits the machine. None where only the data can tell."""
        return None

    def resolved(self) -> Self:
        """A copy in which whatever the data decides is written down (absolute paths, vocabulary, permutation).

        It is stored with the run: evaluating or sampling later needs neither luck nor the training data.
        """
        task = fitted(self)
        task.check()
        return task

    @property
    @abstractmethod
    def inputs(self) -> Tokens | int:
        """What level 0 reads: Tokens(n), or the size of its vectors."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Width of the head, a linear layer on the output of level 0."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What the entries of a report are called and how they read. The first is the score, which finds the best model."""
        return (LOSS,)

    @property
    def score(self) -> Metric:
        return self.metrics[0]

    @property
    def progress(self) -> Metric | None:
        """What the course counts, an entry of its status: the longest solved length of a curriculum, say. None: nothing."""
        return None

    @property
    def judged_by_progress(self) -> bool:
        """Whether progress, and not the score, says which of two runs is better."""
        return self.progress is not None

    def standing(self, record: Mapping[str, Any]) -> float | None:
        """How good a run is that has just written this record of updates or of a validation, in the sense of what it is judged
        by; None: it does not say."""
        return record.get(self.measured.judged_by.name)

    @property
    def measured(self) -> Metrics:
        """All of that, as tables, plots and displays have it."""
        unit = "nats" if isinstance(self.inputs, Tokens) else "squared error"  # of what the lowest level decodes
        return Metrics(self.metrics, self.progress, self.judged_by_progress, replace(LOCAL_LOSSES, unit=unit))

    @property
    def reaches(self) -> tuple[int, ...]:
        """How far back the decoder reaches, for each level above which the data gives the boundaries."""
        return ()

    @abstractmethod
    def loss(
        self, logits: Float[Tensor, "time batch outputs"], target: Shaped[Tensor, "time batch *target"]
    ) -> Float[Tensor, "time batch"] | tuple[Float[Tensor, "time batch"], dict[str, Tensor]]:
        """One value per (step, row), and values to be summed. logits (T, B, outputs), target (T, B, ...)."""

    @abstractmethod
    def batch(self, index: int, reading: Reading) -> Batch:
        """Training batch number `index`, the rows `reading.rows` of it."""

    def aims(self, batch: Batch, said: Callable[[], Iterator[tuple[Window, Tensor, bool]]]) -> Tensor | None:
        """Of each row (rows, n) what a training batch is learned with, where that depends on what the network says before it; a
        checkpoint in the middle of the batch has it. None: nothing does.

        said: goes through the batch without learning: windows or pieces of them, their logits, whether sequences begin there
        """
        return None

    def aimed(self, batch: Batch, aims: Tensor) -> Batch:
        """A training batch with the targets that its aims make."""
        raise NotImplementedError

    def batches_per_epoch(self, reading: Reading) -> int | None:
        """How many batches go once through the data; None where data never ends."""
        return None

    def fullest_batch(self, reading: Reading, steps: int) -> Batch:
        """A training batch that takes as much memory as any: where sequences grow, one of about so many steps."""
        return self.batch(0, reading)

    def parts(self) -> tuple[str, ...]:
        """Which of "validation" and "test" can be evaluated."""
        return ("validation", "test")

    @abstractmethod
    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        """The batches of "validation" or "test"."""

    def files(self, part: str) -> tuple[Path, ...]:
        """The files that are read for "training", "validation" or "test"; a run remembers their checksums.

        By default, for every part: each file that an option names, and the files directly in each folder that one names.
        """
        named: list[Path] = []
        for option in dataclasses.fields(self):  # type: ignore[arg-type]  # every task is a dataclass
            value = getattr(self, option.name)
            named += [path for path in (value if isinstance(value, tuple | list) else [value]) if isinstance(path, Path)]
        files = [path for path in named if path.is_file()]
        for folder in (path for path in named if path.is_dir()):
            files += sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        return tuple(files)

    def with_test_data(self, path: Path) -> Self:
        """The same task, its test on other data."""
        raise UserError("this task makes its own data; it cannot be evaluated on others")

    def as_learned(self, course: Mapping[str, Any], length: int | None = None) -> Self:
        """The task by which a trained network is evaluated.

        course: what the course of the run had come to, as its `state` says it
        length: of the sequences, where the user chooses one
        """
        if length is not None:
            raise UserError(f"--length is {length}, and the sequences of this task have one length only; drop it")
        return self

    def notes(self) -> Iterator[str]:
        """What was found in the data, each a line, for somebody who begins a run; the options that were chosen follow."""
        yield from ()

    def warnings(self, reading: Reading) -> Iterator[str]:
        """What somebody who begins a run should know about the data, each a sentence."""
        yield from ()

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        """What to show of summed losses: `sums["loss"]` is the task's loss in nats, the rest what `loss` adds."""
        return {name: value / max(targets, 1) for name, value in sums.items() if name != "loss"}

    def judge(self) -> Judge | None:
        """Who scores an evaluation, where a prediction is made of the logits of many steps; None: `loss` scores each target."""
        return None

    def baselines(self, part: str) -> dict[str, float]:
        """What simple methods reach on a part, by name: for whoever asks how good a score is."""
        return {}

    def course(self, reading: Reading) -> Course:
        """The order in which batches are learned; a curriculum overrides this."""
        return Course(self, reading)


class Judge(ABC):
    """Scores the windows of an evaluation, in their order.

    sums: what was counted so far, added up in place over all processes before `report` is asked for
    """

    sums: dict[str, Tensor]

    @abstractmethod
    def add(self, window: Window, logits: Float[Tensor, "time batch outputs"], fresh: bool) -> None:
        """One more window; fresh: the sequences of its batch begin with it."""

    @abstractmethod
    def report(self) -> dict[str, float]:
        """What is shown beside what the task reports."""

    def details(self) -> dict[str, Any]:
        """What is no single number, as JSON, for whoever asks for more."""
        return {}


@dataclass(frozen=True)
class Decision:
    """What a course asks of the trainer after an update."""

    records: Sequence[Mapping[str, Any]] = ()  # for the journal, each with a "kind" and an "update"
    keep: bool = False  # write a checkpoint now, and keep it
    back_to: int | None = None  # return to the weights and the optimizer of the checkpoint of this update


Scorer = Callable[[Batch], Iterator[Tensor]]


class Course:
    """Batches one after the other, until the budget ends."""

    def __init__(self, task: Task, reading: Reading):
        self.task = task
        self.reading = reading

    def batch(self, index: int) -> Batch:
        return self.task.batch(index, self.reading)

    def after_update(self, update: int, report: dict[str, float], score: Scorer) -> Decision:
        """Called after the last update of each batch with what the batch scored; score(batch) yields values (T, B) without
        learning."""
        return Decision()

    @property
    def status(self) -> dict[str, Any]:
        """What a progress display shows, e.g. the length of a curriculum."""
        return {}

    @property
    def finished(self) -> str | None:
        """Why the course is over, or None."""
        return None

    @property
    def kept(self) -> set[int]:
        """Updates whose checkpoints it may still want to return to."""
        return set()

    @property
    def outcome(self) -> dict[str, Any]:
        """What the run found out, for its result file."""
        return {}

    def state(self) -> dict[str, Any]:
        """All that a resumed course needs, as JSON."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""


def cross_entropy(
    logits: Float[Tensor, "time batch classes"], target: Int[Tensor, "time batch"]
) -> Float[Tensor, "time batch"]:
    """Nats of each target."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(target)


def classified(
    logits: Float[Tensor, "time batch classes"], target: Int[Tensor, "time batch"]
) -> tuple[Float[Tensor, "time batch"], dict[str, Tensor]]:
    """The same, and whether the likeliest class is right."""
    values = cross_entropy(logits, target)
    return values, {ACCURACY.name: (logits.argmax(-1) == target).to(values.dtype)}
