"""Tables and figure of the study of unlocked updates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import hrnn.studies.results as results
from hrnn.report.figure import Line, empty, finish, plot, save, style_of, styled
from hrnn.report.table import Table, number
from hrnn.studies.plan import Request
from hrnn.studies.unlocked import METHODS, TASKS, Point, best_rate, entries_of, finished, judged_by, rows_of
from hrnn.training.files import write_atomically

X_AXES = {"sequences": "sequences seen", "moves": "updates of the lowest level", "minutes": "minutes of one core"}


def write(request: Request) -> list[Table]:
    """Tables and figure of everything in the folder; returns the tables."""
    folder = request.folder
    entries = {task: rows for task in TASKS if (rows := entries_of(task, folder))}
    tables = [table_of(rows) for rows in entries.values()]
    rows = [row for several in entries.values() for row in several]
    runs = [results.entries_of(path) for path in sorted((folder / results.RUNS).rglob("*.json"))]
    whole = {**request.setting, "environments": results.environments(runs), "rows": rows}
    write_atomically(folder / "table.json", json.dumps(whole, indent=1).encode() + b"\n")
    write_atomically(folder / "table.md", "\n".join(f"{table.markdown()}\n" for table in tables).encode())
    if entries:
        save(figure_of(request, list(entries)), [folder / f"curves.{kind}" for kind in ("png", "svg")])
    return tables


def table_of(entries: Sequence[dict[str, Any]]) -> Table:
    """Medians of the seeds, every run behind them."""
    task, target = entries[0]["task"], entries[0]["target"]
    words, last, digits = {
        "copy": (f"length {target:.0f}", "longest length", 0),
        "pixels": (f"{target:.1%} on validation", "best accuracy", 3),
        "text": (f"{target:.3f} bits per character on validation", "best bits", 3),
    }[task]
    first = f"{task}, to {words}"
    heads = [first, "rate", "minutes of CPU: median (runs)", "sequences: median", "moves of the lowest level: median", last]
    rows = []
    for entry in entries:
        minutes = f"{number(entry['median_minutes'], 2)} ({_listed(entry['minutes'], 2)})"
        counts = [number(entry[f"median_{name}"], 0) for name in ("sequences", "moves")]
        rows.append([entry["row"], f"{entry['rate']:g}", minutes, *counts, _listed(entry["best"], digits)])
    return Table(heads, rows, words=[first])


def _listed(values: Sequence[float | None], digits: int) -> str:
    return ", ".join(number(value, digits) for value in values)


@styled
def figure_of(request: Request, tasks: Sequence[str]) -> Figure:
    """The median of a row's runs, and a band from the worst to the best of them; columns: sequences, updates, time."""
    folder, styles = request.folder, {method.title: style_of(place) for place, method in enumerate(METHODS)}
    figure, grid = empty(10, 3.0 * len(tasks) + 0.6, columns=len(X_AXES), rows=len(tasks))
    for task, panels in zip(tasks, grid, strict=True):
        lines = {row.title: finished(folder, row, best_rate(folder, row)) for row in rows_of(task)}
        steps = TASKS[task].task.judged_by_progress
        for axes, (name, words) in zip(panels, X_AXES.items(), strict=True):
            for title, runs in lines.items():
                plot(axes, [_line(run, name, steps=steps) for run in runs], styles[title], steps=steps, band="range")
            finish(axes, words, f"{task}: {judged_by(task).axis}" if name == "sequences" else "")
    handles: list[Any] = [Line2D([], [], **style, label=title) for title, style in styles.items()]
    handles.append(Patch(color="0.5", alpha=0.3, linewidth=0, label="line: median of the seeds; band: all of them"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _line(run: Sequence[Point], name: str, *, steps: bool) -> Line:
    """A run's points against an axis; in a curriculum those where a length was solved, with the beginning and the end."""
    x, y = np.array([point[name] for point in run]), np.array([point["value"] for point in run])
    if steps:
        chosen = [0, *(np.flatnonzero(np.diff(y)) + 1), len(y) - 1]
        x, y = np.append(0.0, x[chosen]), np.append(0.0, y[chosen])
    return x, y
