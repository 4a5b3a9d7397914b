"""From folders to what is drawn: every run a series of its own, or the runs of a sweep by setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hrnn.errors import UserError
from hrnn.files import content_of
from hrnn.formats import check_format
from hrnn.metrics import Metric
from hrnn.report.figure import Line
from hrnn.report.summary import Described, describe, number, places
from hrnn.telling import followed
from hrnn.training.entries import CONFIG, SWEEP, cannot_read
from hrnn.training.journal import Record, thinned

POINTS, FEWEST, ALL_POINTS = 1000, 50, 20_000  # of a run: at most, at least; of all runs together
NO_RUN = f"holds no run (no {CONFIG}); hrnn runs lists those of a folder"


@dataclass(frozen=True)
class LoadedRun:
    """What a run's journal says."""

    described: Described
    records: Sequence[Record]

    def line(self, kind: str, metric: Metric, x: str, level: int | None = None) -> Line:
        """Points (x, y) of a metric, where both are numbers; level: of a metric with one number per level."""
        points = []
        for record in self.records:
            value = record.get(metric.name) if record["kind"] == kind else None
            if metric == self.described.metrics.progress and record["kind"] == "end":  # a step after the last recorded update
                value = record.get(metric.in_result)
            if level is not None:
                value = value[level] if isinstance(value, list) and len(value) > level else None
            if (y := number(value)) is not None and (place := number(record.get(x))) is not None:
                points.append((place / 60 if x == "seconds" else place, y))
        points.sort(key=lambda point: point[0])
        return np.array([point[0] for point in points], float), np.array([point[1] for point in points], float)


@dataclass(frozen=True)
class Series:
    """What one line shows: a run, or several with their mean and spread."""

    label: str
    runs: Sequence[LoadedRun]


def load(given: Sequence[Path]) -> tuple[list[Series], dict[Path, str]]:
    """The series of runs, sweeps and folders of runs, and why others were left out."""
    skipped: dict[Path, str] = {}
    alone: list[Path] = []
    swept: dict[Path, list[str]] = {}  # runs of sweeps, with the options that vary there
    for path in given:
        try:
            places_below = runs_below(path, skipped)
            if (path / SWEEP).exists() and path not in places_below:
                swept.update(dict.fromkeys(places_below, _varied(path)))
            else:
                alone += places_below
        except UserError as error:
            skipped[path] = str(error)
    alone = list(dict.fromkeys(alone))
    runs = _read([*alone, *(place for place in swept if place not in alone)], skipped)
    if len({run.described.task for run in runs.values()}) > 1:
        raise UserError("these runs are of different tasks; plot them apart")
    if len(scores := {run.described.metrics.score.name for run in runs.values()}) > 1:
        raise UserError(f"these runs are scored by different metrics ({', '.join(sorted(scores))}); plot them apart")
    return [*_alone(alone, runs), *_by_setting(swept, runs)], skipped


def runs_below(path: Path, skipped: dict[Path, str]) -> list[Path]:
    """The run that a folder is, or those below it."""
    if not path.is_dir():
        raise UserError("it is not a folder" if path.exists() else "there is no such folder")
    if (path / CONFIG).exists() or (path / CONFIG).is_symlink():
        return [path]
    runs = []
    for place, problem in sorted(places(path)):
        if problem:
            skipped[place] = problem
        else:
            runs.append(place)
    if not runs and not skipped:
        raise UserError(f"{path} {NO_RUN}")
    return runs


def points_of(runs: int) -> int:
    """Of each curve, at least; twice as many at most."""
    return max(FEWEST, min(POINTS, ALL_POINTS // max(1, runs)))


def _read(folders: Sequence[Path], skipped: dict[Path, str]) -> dict[Path, LoadedRun]:
    """Few points of each where there are many runs."""
    runs = {}
    points = points_of(len(folders))
    for folder in followed("reading", folders, "runs"):
        try:
            run = LoadedRun(describe(folder), thinned(folder, points))
        except (UserError, OSError) as error:
            skipped[folder] = str(error)
            continue
        if any(record["kind"] == "update" for record in run.records):
            runs[folder] = run
        else:
            skipped[folder] = f"{folder} has recorded nothing yet; let it run a little"
    return runs


def _alone(folders: Sequence[Path], runs: dict[Path, LoadedRun]) -> list[Series]:
    """One series per run; labels say what tells them apart."""
    folders = [folder for folder in folders if folder in runs]
    candidates = ([runs[folder].described.name for folder in folders], [folder.name for folder in folders])
    labels = next((names for names in candidates if len(set(names)) == len(names)), [str(folder) for folder in folders])
    return [Series(label, [runs[folder]]) for label, folder in zip(labels, folders, strict=True)]


def _by_setting(swept: dict[Path, list[str]], runs: dict[Path, LoadedRun]) -> list[Series]:
    """One series per setting of a sweep, in the order of the runs' names."""
    groups: dict[str, list[LoadedRun]] = {}
    for folder, options in swept.items():
        if folder in runs:
            run = runs[folder].described
            groups.setdefault(_setting(run, options) or run.kind, []).append(runs[folder])
    return [Series(f"{setting} (mean of {len(some)})" if len(some) > 1 else setting, some) for setting, some in groups.items()]


def _varied(folder: Path) -> list[str]:
    """The options that a sweep varies, without the seed."""
    try:
        entries = json.loads(content_of(folder / SWEEP))
        over = dict(entries["over"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise cannot_read(folder / SWEEP, error) from None
    check_format("sweep", entries, folder / SWEEP)
    return [option for option in over if option != "seed"]


def _setting(run: Described, options: Sequence[str]) -> str:
    """The values of those options in a run, as one would write them on the command line."""
    sections = [entries for entries in run.entries.values() if isinstance(entries, dict)]
    values = {name: value for section in sections for name, value in section.items()}
    chosen = {option: values.get(option.replace("-", "_")) for option in options}
    return ", ".join(f"{name} {' '.join(map(str, v)) if isinstance(v, list) else v}" for name, v in chosen.items())
