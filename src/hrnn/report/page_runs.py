"""The runs of a page: read from their folders, thinned; what cannot be read is named, and the others are shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hrnn.errors import UserError
from hrnn.files import opened
from hrnn.report.series import LoadedRun, points_of
from hrnn.report.summary import Summary, describe, summary_of
from hrnn.telling import followed
from hrnn.training.entries import CONFIG, LOCK, RESULT, read_result
from hrnn.training.journal import JOURNAL, Record, thinned

BLOCK = 1 << 20


@dataclass(frozen=True)
class ShownRun:
    """records: how many the journal has; loaded holds some of them."""

    folder: Path
    summary: Summary
    loaded: LoadedRun
    result: Record | None
    records: int

    @property
    def entries(self) -> dict[str, Any]:
        return self.loaded.described.entries

    @property
    def whole(self) -> bool:
        """Is every record of the journal at hand?"""
        return len(self.loaded.records) >= self.records


class Reader:
    """Reads runs, and those again that have changed since."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Any, ShownRun]] = {}

    def read(self, folders: Sequence[Path]) -> tuple[list[ShownRun], dict[Path, str]]:
        """The runs, and why others are not among them. Few points of each where there are many."""
        points = points_of(len(folders))
        runs, problems = [], {}
        for folder in followed("reading", folders, "runs"):
            try:
                runs.append(self._read(folder, points))
            except (UserError, OSError) as error:  # the second: it is being removed
                problems[folder] = str(error)
        return runs, problems

    def _read(self, folder: Path, points: int) -> ShownRun:
        stamp = (points, *(_stamp(folder / name) for name in (CONFIG, JOURNAL, RESULT, LOCK)))
        known = self._known.get(folder)
        if known is not None and known[0] == stamp and known[1].summary.state != "running":
            return known[1]
        count = _lines(folder / JOURNAL)  # first: a run that is being written has more of them afterwards, not fewer
        loaded = LoadedRun(describe(folder), thinned(folder, points))
        run = ShownRun(folder, summary_of(folder), loaded, read_result(folder), count)
        self._known[folder] = (stamp, run)
        return run


def labels_of(runs: Sequence[ShownRun]) -> list[str]:
    """The shortest names that tell runs apart: the model and the seed, or the last parts of their paths."""
    names = [run.loaded.described.name for run in runs]
    paths = [Path(os.path.abspath(run.folder)).parts for run in runs]
    for parts in range(1, max(map(len, paths), default=0) + 1):
        if len(set(names)) == len(names):
            break
        names = ["/".join(path[-parts:]) for path in paths]
    return names


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _lines(path: Path) -> int:
    """Whole lines of a file; where there is none, none."""
    try:
        with opened(path) as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))
    except FileNotFoundError:
        return 0
