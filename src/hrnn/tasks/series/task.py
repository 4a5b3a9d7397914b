"""Series: sequences of one's own, from tables, arrays, recordings, genomes, bytes or text, with targets or what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from hrnn.data import Part, Preprocessing, Source, whole
from hrnn.data import cache as read
from hrnn.data.doubtful import likely_ids, likely_rows, likely_turned, links_out
from hrnn.data.tables import Table
from hrnn.errors import UserError
from hrnn.hierarchy import Tokens
from hrnn.limits import in_bytes
from hrnn.metrics import Metric
from hrnn.tasks.contract import Judge
from hrnn.tasks.series.aims import Aimed
from hrnn.tasks.series.batches import Asked, Carried, Whole, in_batches, in_streams
from hrnn.tasks.series.choices import Shape, chosen, crop_for, epochs_for, warnings
from hrnn.tasks.series.objectives import (
    NextSymbol,
    NextValues,
    Number,
    Objective,
    OneOfClasses,
    Values,
)
from hrnn.tasks.series.opened import (
    NONE,
    Opened,
    changes,
    check_steps,
    check_targets,
    open_data,
    source_of,
    with_lead,
)
from hrnn.tasks.series.options import Options
from hrnn.tasks.windows import Batch, Reading, Window

AUDIO_PATCH = 8
NOTHING = (Path(NONE),)  # instead of files for validation or test


@dataclass(frozen=True)
class Series(Options):
    """Sequences of your own: classes or numbers, one for each sequence or step, or what comes next.

    Examples:
        hrnn train series sensors.csv                # id, time and label are found by their names
        hrnn train series walks.csv --id walk --target gait --values x y --group person
        hrnn train series load.csv --forecast 24 --season 24
        hrnn train series recordings                 # a folder of wav files, a sub-folder a class
        hrnn train series genome.fa.gz
    """

    suggested: ClassVar[dict[str, Any]] = {"learning_rate": 2e-3, "schedule": "cosine"}
    decided_by_data: ClassVar[tuple[str, ...]] = ("hidden_sizes", "periods", "window", "batch", "epochs")

    # Data

    @property
    def source(self) -> Source:
        others = {"validation": self.validation, "test": self.test}
        paths = {"training": self.data, **{part: () if some == NOTHING else some for part, some in others.items()}}
        columns = {
            "id": self.id, "time": self.time, "values": self.values, "target": self.target, "part": self.split,
            "group": self.group, "categorical": self.categorical, "labels": self.labels, "targets": self.targets,
        }  # fmt: skip
        return source_of(paths, self.kind, columns)

    @cached_property
    def opened(self) -> Opened:
        by = self.split_by or ("forecast" if self.forecast else None)
        validation, test = (0.0 if paths == NOTHING else self.held_out for paths in (self.validation, self.test))
        memory = None if self.memory is None else in_bytes(self.memory)
        place = self.cache or Path("runs") / "cache"
        # A task that knows its preprocessing is of a run, which may be somebody else's: the cache that it names is read only.
        return open_data(self.source, place, by, validation, test, memory, lasting=self.preprocessing is None)

    @cached_property
    def learned(self) -> Preprocessing:
        """How values become inputs: as it is stored with the run, or from the training part."""
        if self.preprocessing is not None:
            return self.preprocessing
        layout, audio = self.opened.sequences.layout, bool(self.opened.sequences.layout.rate)
        patch = self.patch or (AUDIO_PATCH if audio else 1)
        if layout.tokens and self.normalise is not None:
            raise UserError(f"--normalise is {self.normalise}, and the data are tokens; drop it")
        found = self.opened.preprocessing(
            normalise=self.normalise or ("sequence" if audio else "channel"), patch=patch, intervals=self.intervals,
            target=self.target_is,
        )  # fmt: skip
        if self.forecast and found.targets != "none":
            found = replace(found, targets="none", target_kind="none", target_name="", classes=())
        if self.forecast and self.forecast > 1 and found.tokens:
            raise UserError(f"--forecast is {self.forecast}, and of tokens only the next is predicted; give 1")
        if found.targets == "none" and not found.tokens:
            if not len(found.numeric):
                raise UserError("the data have no numbers to forecast; name a column of numbers with --values, or a --target")
            found = replace(found, changes=changes(Part(self.opened.sequences, found, self.opened.parts["training"]))[1])
        return found

    def part(self, name: str, lead: int = 0) -> tuple[Part, np.ndarray | None]:
        """A part's rows; with up to so many steps before each, and how many inputs these are."""
        if name == "test" and self.tested is not None:
            other = replace(self, data=(self.tested,), validation=(), test=(), split=None, split_by="random", tested=None)
            sequences = read(other.source)
            part = Part(sequences, self.learned, whole(sequences))
            check_targets(part, self.tested)
            return part, None
        spans, skips = self.opened.parts[name], None
        if lead and spans.starts.any():
            spans, skips = with_lead(spans, lead * self.learned.patch, self.learned.patch)
        return Part(self.opened.sequences, self.learned, spans), skips

    def placed(self, run: Path) -> Series:
        return self if self.cache else replace(self, cache=run.expanduser().absolute().parent / "cache")

    def resolved(self) -> Series:
        task = super().resolved()
        data, validation, test = map(_absolute, (task.data, task.validation, task.test))
        cache = (task.cache or Path("runs") / "cache").expanduser().absolute()
        labels = task.labels and task.labels.expanduser().absolute()
        task = replace(task, data=data, validation=validation, test=test, cache=cache, labels=labels)
        if task.preprocessing is None:
            pre = task.learned
            forecast = task.forecast or (1 if pre.targets == "none" else None)
            source = task.source
            if isinstance(source, Table):
                task = replace(task, identified=source.roles.id or "", timed=source.roles.time or "")
            task = replace(task, preprocessing=pre, forecast=forecast, patch=pre.patch, crop=task.cropped)
            if not pre.tokens:
                task = replace(task, normalise=pre.normalise)
            if task.readout != "every" and task.asked.target != "sequence":
                raise UserError(f"--readout {task.readout} is for one target a sequence, and each step has its own; drop it")
            if task.class_weights == "balanced" and pre.target_kind != "class":
                raise UserError("--class-weights balanced weighs classes, and what is learned here is none; drop it")
            part, _ = task.part("training")
            if task.class_weights == "balanced":
                counts = part.class_counts()
                task = replace(task, weights=tuple((counts.sum() / (len(counts) * np.maximum(counts, 1))).tolist()))
            if task.asked.target == "next":
                for name in task.opened.parts:
                    check_steps(task.part(name)[0], name)
            if task.asked.target == "next" and not pre.tokens:
                naive, changed = changes(part)
                task = replace(task, naive=naive, changed=changed)
        return task

    def files(self, part: str) -> tuple[Path, ...]:
        return (self.tested,) if part == "test" and self.tested else tuple(self.source.files())

    def with_test_data(self, path: Path) -> Series:
        return replace(self, tested=path.expanduser().absolute())

    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in ("validation", "test") if part in self.opened.parts or (part == "test" and self.tested))

    # What is learned

    @cached_property
    def objective(self) -> Objective:
        pre = self.learned
        if pre.target_kind == "class":
            return OneOfClasses(pre, self.readout, self.weights)
        if pre.target_kind == "number":
            return Number(pre, self.readout)
        if pre.tokens:
            return NextSymbol(pre)
        return NextValues(pre, self.forecast or 1, self.naive, self.changed, self.season)

    @property
    def asked(self) -> Asked:
        return self.objective.asked

    @property
    def inputs(self) -> Tokens | int:
        return Tokens(self.learned.tokens) if self.learned.tokens else self.learned.inputs

    @property
    def outputs(self) -> int:
        return self.objective.outputs

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.objective.metrics

    @property
    def purpose(self) -> str:
        return self.objective.purpose

    def aims(self, batch: Batch, said: Callable[[], Iterator[tuple[Window, Tensor, bool]]]) -> Tensor | None:
        return self.objective.aims(batch, said)

    def aimed(self, batch: Batch, aims: Tensor) -> Batch:
        return replace(batch, windows=Aimed(batch.windows, aims))

    def loss(self, logits: Tensor, target: Tensor) -> Values:
        return self.objective.loss(logits, target)

    def report(self, sums: dict[str, float], targets: int) -> dict[str, float]:
        return self.objective.report(sums, targets)

    def judge(self) -> Judge | None:
        return self.objective.judge()

    def baselines(self, part: str) -> dict[str, float]:
        return self.objective.baselines(lambda name: self.part(name)[0], part)

    def notes(self) -> Iterator[str]:
        rows = {name: len(spans) for name, spans in self.opened.parts.items()}
        lengths, pre = self.part("training")[0].lengths, self.learned
        inputs = f"{pre.tokens} symbols" if pre.tokens else f"{pre.inputs} numbers"
        patched = f", {pre.patch} steps to an input" if pre.patch > 1 else ""
        yield "sequences: " + ", ".join(f"{name} {count:,}" for name, count in rows.items())
        yield f"inputs of a training sequence: {lengths.min():,} to {lengths.max():,}, each of {inputs}{patched}"
        yield f"learned: {self.purpose}" + ("" if pre.tokens else f"; normalised by {pre.normalise}")

    # Batches

    @property
    def cropped(self) -> int | None:
        """Inputs of a sequence that are learned at a time; None: all."""
        every = self.learned.target_kind == "class" and self.asked.target == "sequence" and self.readout == "every"
        if self.crop is not None or self.preprocessing is not None or not every:
            return self.crop
        return crop_for(self.part("training")[0].lengths)

    @property
    def shape(self) -> Shape:
        lengths = self.part("training")[0].lengths
        lengths = lengths if self.cropped is None else np.minimum(lengths, self.cropped)
        return Shape(lengths, self.learned, self.outputs, self.asked.target != "sequence" and len(lengths) < 16)

    def suggestions(self) -> dict[str, Any]:
        self.check()
        found = chosen(self.shape, None if self.memory is None else in_bytes(self.memory))
        if self.cropped is not None:  # an epoch is short: more of them where data are few, and fewer validations than epochs
            longer = int(self.part("training")[0].lengths.sum()) / int(self.shape.lengths.sum())
            found["epochs"] = epochs_for(int(self.shape.lengths.sum()), longer)
            if "validation" in self.parts():
                windows = -(-int(self.shape.lengths.max()) // found["window"])  # each is an update
                found["validate_every"] = max(1, round(longer * -(-len(self.shape.lengths) // found["batch"]) * windows))
        return found

    def warnings(self, reading: Reading) -> Iterator[str]:
        pre, scale = self.learned, 0.0
        if pre.normalise == "none" and not pre.tokens:
            options = {"patch": pre.patch, "intervals": self.intervals, "target": self.target_is}
            found = self.opened.preprocessing(normalise="channel", **options)
            scale = max((max(abs(found.mean[at]), found.scale[at]) for at in pre.numeric), default=0.0)
        for name in likely_ids(self.opened.sequences) if self.id is None else ():
            yield f"all data are one sequence, and each name in {name!r} stands in one stretch; is it an id? Then --id {name}"
        if (turned := likely_turned(self.opened.sequences)) is not None:
            yield turned
        if likely_rows(self.opened.sequences.layout.channels):
            yield "all columns are called by numbers; if these are the first row, put a line with names above it"
        if (linked := links_out((*self.data, *self.validation, *self.test), self.source.files())) is not None:
            yield linked
        yield from warnings(self.shape, reading.segment, scale, self.asked.last)

    def steps_of_batch(self, reading: Reading) -> int:
        return reading.window

    def plan(self, reading: Reading) -> Whole | Carried:
        """How the training part goes into batches; made once for a reading."""
        if reading not in self._plans:
            part, _ = self.part("training")
            carried = self.asked.target != "sequence" and len(part) < reading.batch
            self._plans[reading] = (
                Carried(part, reading, self.asked) if carried else Whole(part, reading, self.asked, self.cropped)
            )
        return self._plans[reading]

    @cached_property
    def _plans(self) -> dict[Reading, Whole | Carried]:
        return {}

    def batches_per_epoch(self, reading: Reading) -> int:
        return self.plan(reading).per_epoch

    def batch(self, index: int, reading: Reading) -> Batch:
        return self.plan(reading).batch(index)

    def evaluation(self, part: str, reading: Reading) -> Iterator[Batch]:
        if self.asked.target == "sequence":
            return in_batches(self.part(part)[0], reading, self.asked, None)
        rows, _ = self.part(part)
        if len(rows) < reading.batch and int(rows.lengths.sum()) > 4 * reading.window * len(rows):
            return in_streams(rows, reading, self.asked)
        rows, skips = self.part(part, lead=reading.window)
        return in_batches(rows, reading, self.asked, skips)


def _absolute(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return paths if paths == NOTHING else tuple(path.expanduser().absolute() for path in paths)
