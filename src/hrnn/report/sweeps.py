"""The table of a sweep: one row a setting, mean and deviation over its seeds, and the value of every run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from hrnn.launching.follow import last_update
from hrnn.launching.grid import SEED, Point, rows, shown
from hrnn.launching.units import stopped_early
from hrnn.training.folder import read_result

LENGTH = "longest_solved_length"
# What a setting is judged by, the first of these that every finished run has. Choosing by a test would spoil the test.
KINDS = ("validation", "length", "test", "training")


def table_of(folder: Path, found: Sequence[Point]) -> dict[str, Any]:
    """The whole table as JSON; the best setting first, those with runs that are not finished last."""
    values = {point.unit.name: values_of(folder, point) for point in found}
    finished = [numbers for numbers in values.values() if numbers]
    kind = next((kind for kind in KINDS if finished and all(kind in numbers for numbers in finished)), KINDS[0])
    task = found[0].unit.config.task
    higher = kind == "length" or task.score.higher_is_better
    made = [_row(folder, setting, group, values, kind) for setting, group in rows(found)]
    sign = -1 if higher else 1
    made.sort(key=lambda row: (row["mean"] is None, 0 if row["mean"] is None else sign * row["mean"]))
    metric = LENGTH if kind == "length" else task.score.name
    return {"metric": metric, "judged_on": kind, "higher_is_better": higher, "rows": made}


def values_of(folder: Path, point: Point) -> dict[str, float]:
    """The numbers of a finished run, by kind; none of one that is not finished."""
    result, metric = read_result(folder / point.unit.name), point.unit.config.task.score.name
    if result is None:
        return {}
    found = {kind: result[kind][metric] for kind in ("validation", "test") if metric in result.get(kind, {})}
    if LENGTH in result and "test" not in result:  # otherwise one length was trained, and its solution is no length
        found["length"] = result[LENGTH]
    last = last_update(folder / point.unit.name).get(metric)
    return {**found, "training": last} if last is not None else found


def _row(
    folder: Path, setting: dict[str, Any], group: Sequence[Point], values: dict[str, dict[str, float]], kind: str
) -> dict[str, Any]:
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
        "setting": {option: shown(value) for option, value in setting.items()},
        "mean": statistics.fmean(numbers) if whole else None,
        "std": statistics.pstdev(numbers) if whole else None,
        "runs": runs,
    }


def cells(table: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows as words."""
    options = list(table["rows"][0]["setting"])
    words = table["metric"].replace("_", " ")
    head = [*options, words if table["judged_on"] == "length" else f"{words} ({table['judged_on']})", "runs"]
    return head, [[*row["setting"].values(), _mean(row), ", ".join(map(_value, row["runs"]))] for row in table["rows"]]


def _mean(row: dict[str, Any]) -> str:
    if row["mean"] is None:
        return ""
    return f"{row['mean']:.4f} ± {row['std']:.4f}" if len(row["runs"]) > 1 else f"{row['mean']:.4f}"


def _value(run: dict[str, Any]) -> str:
    if run["state"] != "done" or run["value"] is None:
        return f"{run['state']} at update {run['update']}"
    return str(run["value"]) if isinstance(run["value"], int) else f"{run['value']:.4f}"


def markdown(table: dict[str, Any]) -> str:
    head, body = cells(table)
    lines = [head, ["---"] * len(head), *body]
    note = "Mean and population standard deviation over the seeds of a setting, where all of them are finished."
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{note}\n"


def terminal(table: dict[str, Any]) -> Table:
    head, body = cells(table)
    made = Table(*head, box=None, header_style="bold")
    for line in body:
        made.add_row(*line)
    return made
