"""Tables and picture of the study of unlocked updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hrnn.report.figure import Line
from hrnn.report.files import write_files
from hrnn.report.picture import Axis, Curve, Picture
from hrnn.report.shown import page_of_times, tables_of
from hrnn.report.table import Table
from hrnn.studies.plan import Request
from hrnn.studies.results import summed
from hrnn.studies.unlocked import METHODS, TASKS, UNLOCKED, Point, best_rate, entries_of, finished, judged_by, rows_of

X_AXES = {"sequences": "sequences seen", "moves": "updates of the lowest level", "minutes": "minutes of one core"}


def write(request: Request) -> list[Table]:
    """Tables and picture of everything in the folder; returns the tables."""
    folder = request.folder
    by_task = {task: rows for task in TASKS if (rows := entries_of(task, folder))}
    entries = {
        **request.shown,
        "title": UNLOCKED.title,
        **summed(folder),
        "rows": [row for several in by_task.values() for row in several],
    }
    write_files(folder, entries, page_of_times(entries), picture_of(request, list(by_task)) if by_task else None)
    return tables_of(entries)


def picture_of(request: Request, tasks: Sequence[str]) -> Picture:
    """The median of a row's runs, and a band from the worst to the best of them; columns: sequences, updates, time."""
    folder, places = request.folder, {method.title: place for place, method in enumerate(METHODS)}
    rows = []
    for task in tasks:
        lines = {row.title: finished(folder, row, best_rate(folder, row)) for row in rows_of(task)}
        steps = TASKS[task].task.judged_by_progress
        panels = []
        for name, words in X_AXES.items():
            curves = [
                Curve(title, places[title], [_line(run, name, steps=steps) for run in runs]) for title, runs in lines.items()
            ]
            label = f"{task}: {judged_by(task).axis}" if name == "sequences" else ""
            panels.append(Axis(curves, words, label, steps=steps, band="range"))
        rows.append(panels)
    return Picture(rows, 10, 3.0 * len(tasks) + 0.6)


def _line(run: Sequence[Point], name: str, *, steps: bool) -> Line:
    """A run's points against an axis; in a curriculum those where a length was solved, with the beginning and the end."""
    x, y = np.array([point[name] for point in run]), np.array([point["value"] for point in run])
    if steps:
        chosen = [0, *(np.flatnonzero(np.diff(y)) + 1), len(y) - 1]
        x, y = np.append(0.0, x[chosen]), np.append(0.0, y[chosen])
    return x, y
