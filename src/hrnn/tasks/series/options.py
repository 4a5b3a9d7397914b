"""The options of the task `series`, and what it finds out of its data and keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hrnn.data import Preprocessing
from hrnn.errors import UserError
from hrnn.limits import Limit, at_least, hidden, in_bytes, option
from hrnn.tasks.contract import Task
from hrnn.tasks.series.objectives import ReadoutName
from hrnn.tasks.series.opened import NONE, Kind

MANY = Limit(entries=1 << 22)


@dataclass(frozen=True)
class Options(Task):
    """What is read, what is learned of it, and how it is split, cut and fed."""

    data: tuple[Path, ...] = ()
    """Files or a folder: tables (CSV, Parquet, Arrow), .npy and .npz, .ts, audio, FASTA and FASTQ, .txt; others
    with --kind. They may stand first, without --data: hrnn train series DATA, hrnn inspect DATA."""
    validation: tuple[Path, ...] = ()
    """Others to validate on; none: nothing is kept for a validation, and the last weights are used; by default split off."""
    test: tuple[Path, ...] = ()
    """Others to test on; none: nothing is kept for a test; by default split off."""
    kind: Kind | None = None
    """What the files are, where their names do not say: audio, bases, proteins, bytes, text; tokens: arrays of names."""
    id: str | None = None
    """Of a table: the column that tells sequences apart; none: there is no such column."""
    time: str | None = None
    """Of a table: the column with times; none: there is no such column."""
    values: tuple[str, ...] = ()
    """Of a table: the columns that are read; by default all that are not used otherwise."""
    target: str | None = None
    """Of a table: the column that is to be predicted; none: there is no such column."""
    split: str | None = None
    """Of a table: the column that says train, validation or test."""
    group: str | None = None
    """Of a table: the column of groups (persons, machines); all of a group go into the same part."""
    categorical: tuple[str, ...] = ()
    """Of a table: columns of whole numbers that are names, not amounts."""
    labels: Path | None = None
    """Of a folder: a CSV file with columns file and label; by default labels.csv in it, or sub-folders."""
    targets: Literal["sequence", "step"] | None = None
    """Whether each sequence or each step has a target; by default as the data look."""
    target_is: Literal["class", "number"] | None = None
    """By default texts are classes, and whole numbers of at most 100 different values."""
    forecast: int | None = option(None, at_least(1, 10_000))
    """Learn the next so many inputs instead of a target; 1 where the data have no target."""
    season: int | None = option(None, at_least(2))
    """For forecasts: steps of a season, for the seasonal naive forecast that scores are compared with."""
    split_by: Literal["given", "group", "class", "random", "time"] | None = None
    """How validation and test are split off; by default the first of these that the data allow, time for forecasts. Parts that
    the data name stay as they are: of what is for training validation is split off."""
    held_out: float = option(0.1, at_least(0, below=0.5))
    """Share of the data for each of validation and test; 0: nothing is split off."""
    normalise: Literal["channel", "sequence", "none"] | None = None
    """Mean 0 and scale 1 for each channel, or within each sequence (audio), or not."""
    patch: int | None = option(None, at_least(1, 100_000))
    """So many steps of the data are one input; 1 by default, 8 for audio."""
    intervals: bool | None = None
    """Whether the time since the last step is an input; by default if times are irregular."""
    readout: ReadoutName = "every"
    """For one target a sequence. every: each step learns it, and the mean of the logits is the prediction; mean: the mean
    itself learns it, and the data are gone through twice; last: the last step alone."""
    crop: int | None = option(None, at_least(1))
    """Learn from a random stretch of so many inputs of each sequence, another one in each epoch: quicker where a part of a
    sequence shows what is to be learned. By default whole sequences; for classes whose longest is more than four times as long
    as most, as many as most have."""
    class_weights: Literal["equal", "balanced"] = "equal"
    """balanced: classes count for the inverse of their frequency."""
    memory: str | None = None
    """Bytes that learning may take, as in 500MB: sizes and batch that are not given are chosen to fit."""
    cache: Path | None = None
    """Folder for the sequences as they are read; by default cache, beside the run. Runs share it."""
    preprocessing: Preprocessing | None = hidden(None)
    weights: tuple[float, ...] = hidden((), MANY)
    naive: tuple[float, ...] = hidden((), MANY)
    changed: tuple[float, ...] = hidden((), MANY)
    identified: str = hidden("")  # the column of ids
    timed: str = hidden("")  # that of times
    tested: Path | None = hidden(None)

    def check(self) -> None:
        if not self.data:
            raise UserError("no data; name files or a folder: hrnn train series DATA")
        if self.forecast is not None and (self.target not in (None, NONE) or self.targets or self.target_is):
            raise UserError(f"--forecast {self.forecast} learns what comes next; drop it, or what says of targets")
        if self.memory is not None:
            in_bytes(self.memory)
        if self.preprocessing is not None:
            Preprocessing.from_json(self.preprocessing.to_json())
