"""Table and pictures of the frontier: the score of every gradient method against the bytes and the minutes that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from hrnn.report.experiments import settings
from hrnn.report.figure import save
from hrnn.report.files import write_files
from hrnn.report.picture import Axis, Curve, Picture, draw
from hrnn.report.shown import page_of_frontier, tables_of
from hrnn.report.table import Table
from hrnn.studies.frontier import FRONTIER, METHODS, POINTS, TASKS, Point, equals
from hrnn.studies.plan import Request, Runs, collect, search_results, with_chosen
from hrnn.studies.results import summed

AXES = {"megabytes": "measured peak of an update (MB, log scale)", "minutes": "minutes of one core, a run"}
Entries = dict[str, Any]


def write(request: Request) -> list[Table]:
    """Table, data and pictures of everything in the folder; returns the tables."""
    entries = entries_of(request)
    if not entries["rows"]:
        return []
    picture = picture_of(entries)
    write_files(request.folder, entries, page_of_frontier(entries), picture)
    for column, name in enumerate(AXES):
        one = Picture([[row[column] for row in picture.rows]], 7.2, 3.6, picture.note)
        save(draw(one), [request.folder / f"score-by-{name}.{kind}" for kind in ("png", "svg")])
    return tables_of(entries)


def entries_of(request: Request) -> Entries:
    """Everything that tables and pictures show, as JSON."""
    request = with_chosen(request)
    runs, measured = collect(request), equals(request)
    rows = [row for point in POINTS.values() if (row := _row(request, point, runs, measured)) is not None]
    return {
        **request.shown,
        "title": FRONTIER.title,
        **summed(request.folder),
        "frontier": {task: one.score.title for task, one in TASKS.items()},
        "digits": {task: one.score.digits for task, one in TASKS.items()},
        "settings": ". ".join(_settings(task, runs) for task in dict.fromkeys(row["task"] for row in rows)),
        "missing": [name for name, point in POINTS.items() if not point.gone and name not in {row["name"] for row in rows}],
        "seeds": list(FRONTIER.search.seeds if FRONTIER.search else ()),
        "rows": rows,
    }


def _settings(task: str, runs: Runs) -> str:
    """What all runs on a task share, in a line."""
    configs = [some[0].counted.entries["config"] for name, some in runs.items() if some and name.startswith(f"{task}/")]
    shared = settings([{"config": one, "local_loss": any(one["model"]["betas"])} for one in configs])
    return f"{task.capitalize()}: {shared}"


def _row(request: Request, point: Point, runs: Runs, measured: dict[str, Any]) -> Entries | None:
    """None: neither trained nor measured yet."""
    found = measured.get(point.name)
    if point.method.equal and found is None:
        return None
    name = found["as"] if found else point.name
    several = [run for run in runs.get(name, []) if not run.counted.failure]
    if not several:
        return None
    (quantity,) = FRONTIER.quantities
    read = [quantity.read(run.counted.result, run.counted.records) for run in several]
    scores = [value for value in read if value is not None]
    seconds = [float(run.counted.result["cpu_seconds"]) for run in several]
    ratio = found["seconds"] / found["seconds_of_equal"] if found else 1.0
    size = (found or several[0].counted.entries["memory"])["measured_bytes"]
    trial = request.chosen.get(name)
    tried = search_results(request).get(point.name, {})
    return {
        "name": point.name,
        "task": point.task,
        "method": point.method.name,
        "title": point.method.title,
        "knob": point.value,
        "as": found["as"] if found else None,
        "scores": scores,
        "mean": fmean(scores),
        "spread": pstdev(scores),
        "seeds": [run.seed for run in several],
        "at_least": [bool(run.counted.result.get("at_least")) for run in several],
        "measured_bytes": size,
        "minutes": round(ratio * fmean(seconds) / 60, 2),
        "setting": trial.words if trial else None,
        "trials": {one.words: list(values) for one, values in tried.items() if values},
    }


def picture_of(entries: Entries) -> Picture:
    """A row of panels for each task: score against bytes, and against minutes. A line joins the values of a method's knob."""
    rows = [_panels(task, entries) for task in TASKS if any(row["task"] == task for row in entries["rows"])]
    note = "" if entries["scale"] == 1 else f"scaled: {entries['scale']:g} of the budget, a trial"
    return Picture(rows, 7.2, 3.1 * len(rows) + 0.9, note)


def _panels(task: str, entries: Entries) -> list[Axis]:
    panels = []
    for name, words in AXES.items():
        curves = []
        for place, method in enumerate(METHODS):
            rows = [row for row in entries["rows"] if (row["task"], row["method"]) == (task, method.name)]
            curves.append(Curve(method.title, place, [_point(row, name) for row in rows]))
        panels.append(
            Axis(curves, words, f"{task}: {entries['frontier'][task]}", band=None, points=True, log=name == "megabytes")
        )
    return panels


def _point(row: Entries, axis: str) -> tuple[Any, Any]:
    scores: Sequence[float] = row["scores"]
    at = row["measured_bytes"] / 1e6 if axis == "megabytes" else row["minutes"]
    return np.full(len(scores), at), np.array(scores)
