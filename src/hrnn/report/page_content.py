"""From what the user named to what a page holds: runs, sweeps, studies in folders or the package, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hrnn.errors import UserError
from hrnn.files import content_of
from hrnn.formats import check_format
from hrnn.report.files import TABLE
from hrnn.report.page_runs import Reader, ShownRun
from hrnn.report.page_studies import Study, committed_study, is_study, study_in
from hrnn.report.series import runs_below
from hrnn.report.swept import table_of
from hrnn.report.table import Table
from hrnn.training.entries import SWEEP, cannot_read


@dataclass(frozen=True)
class Content:
    """sweeps: their tables, by name; problems: what is not on the page, and why."""

    given: Sequence[str]
    runs: list[ShownRun] = field(default_factory=list)
    sweeps: list[tuple[str, Table]] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.runs or self.studies)


def gather(given: Sequence[str], reader: Reader) -> Content:
    """Everything that these name, each run once."""
    content = Content(given)
    folders: dict[Path, Path] = {}  # by where they really are
    swept: list[Path] = []
    for name in dict.fromkeys(given):
        path = Path(name)
        try:
            if not path.exists() and (study := committed_study(name)) is not None:
                content.studies.append(study)
                continue
            with_study = is_study(path)
            if with_study:
                content.studies.append(study_in(path))
            if (path / SWEEP).exists():
                swept.append(path)
            for folder in _runs(path, content, with_study):
                folders.setdefault(folder.resolve(), folder)
        except UserError as error:
            content.problems[name] = str(error)
        except OSError as error:
            content.problems[name] = error.strerror or str(error)
    runs, problems = reader.read(list(folders.values()))
    content.runs.extend(runs)
    content.problems.update({str(folder): why for folder, why in problems.items()})
    for path in swept:
        _sweep(path, content)
    return content


def _runs(path: Path, content: Content, with_study: bool) -> list[Path]:
    """A committed study has no run of its own: what is left of its runs are the files behind its table."""
    skipped: dict[Path, str] = {}
    try:
        return runs_below(path, skipped)
    except UserError:
        if with_study:
            return []
        raise
    finally:
        content.problems.update({str(folder): why for folder, why in skipped.items()})


def _sweep(path: Path, content: Content) -> None:
    """The table that a sweep has written so far; its runs say how its numbers read."""
    runs = [run for run in content.runs if path.resolve() in run.folder.resolve().parents]
    if not runs:
        return
    try:
        entries = check_format("sweep", dict(json.loads(content_of(path / TABLE))), path / TABLE)
        metrics = runs[0].loaded.described.metrics
        metric = metrics.judged_by if entries["judged_on"] == "progress" else metrics.score
        content.sweeps.append((path.name, table_of(entries, metric)))
    except FileNotFoundError:
        pass  # written when the sweep ends
    except UserError as error:
        content.problems[str(path / TABLE)] = str(error)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        content.problems[str(path / TABLE)] = str(cannot_read(path / TABLE, error))
