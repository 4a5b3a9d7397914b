"""The table of a sweep as plain data: one row per setting, mean and deviation over its seeds, and the value of every run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hrnn.launching.grid import SEED, Point, rows, shown
from hrnn.launching.progress import last_update
from hrnn.launching.units import stopped_early
from hrnn.metrics import Metric, Metrics
from hrnn.training.folder import read_result

# What a setting is judged by, the first of these that every finished run has. Choosing by a test would spoil the test.
KINDS = ("progress", "validation", "test", "training")


def entries_of(folder: Path, points: Sequence[Point]) -> dict[str, Any]:
    """The whole table as JSON; the best setting first, those with runs that are not finished last."""
    values = {point.unit.name: values_of(folder, point) for point in points}
    finished = [numbers for numbers in values.values() if numbers]
    kind = next((kind for kind in KINDS if finished and all(kind in numbers for numbers in finished)), KINDS[1])
    metric = metric_of(points, kind)
    made = [_row(folder, group, values, kind) for group in rows(points)]
    sign = -1 if metric.higher_is_better else 1
    made.sort(key=lambda row: (row["mean"] is None, 0 if row["mean"] is None else sign * row["mean"]))
    return {"metric": metric.in_result, "judged_on": kind, "higher_is_better": metric.higher_is_better, "rows": made}


def metric_of(points: Sequence[Point], kind: str) -> Metric:
    metrics: Metrics = points[0].unit.config.task.measured
    return metrics.judged_by if kind == "progress" else metrics.score


def values_of(folder: Path, point: Point) -> dict[str, float]:
    """The numbers of a finished run, by kind; none of one that is not finished."""
    result, metrics = read_result(folder / point.unit.name), point.unit.config.task.measured
    if result is None:
        return {}
    score, progress = metrics.score.name, metrics.progress
    values = {kind: result[kind][score] for kind in ("validation", "test") if score in result.get(kind, {})}
    if progress is not None and metrics.judged_by_progress and progress.in_result in result:
        values["progress"] = result[progress.in_result]
    last = last_update(folder / point.unit.name).get(score)
    return {**values, "training": last} if last is not None else values


def _row(folder: Path, group: Sequence[Point], values: dict[str, dict[str, float]], kind: str) -> dict[str, Any]:
    """Mean and deviation only where every seed is finished: the survivors of early stopping would flatter a setting."""
    runs = []
    for point in group:
        place = folder / point.unit.name
        state = "done" if values[point.unit.name] else "stopped early" if stopped_early(place) else "not finished"
        update = last_update(place).get("update", 0)
        run = {"run": point.unit.name, "state": state, "update": update, "value": values[point.unit.name].get(kind)}
        runs.append({SEED: point.unit.config.upkeep.seed, **run})
    numbers = [run["value"] for run in runs if run["value"] is not None]
    whole = len(numbers) == len(runs)
    return {
        "setting": {option: shown(value) for option, value in group[0].setting.items()},
        "mean": statistics.fmean(numbers) if whole else None,
        "std": statistics.pstdev(numbers) if whole else None,
        "runs": runs,
    }
