"""The table of a sweep as it is shown, from what its table.json holds and nothing else: neither runs nor torch are needed."""

from __future__ import annotations

from typing import Any

from hrnn.metrics import Metric
from hrnn.report.table import Table, mean_and_spread

NOTE = "Mean and population standard deviation over the seeds of a setting, where all of them are finished."


def table_of(entries: dict[str, Any], metric: Metric) -> Table:
    words = metric.label if entries["judged_on"] == "progress" else f"{metric.label} ({entries['judged_on']})"
    heads = [*entries["rows"][0]["setting"], words, "runs"]
    lines = []
    for row in entries["rows"]:
        runs = ", ".join(_value(run, metric) for run in row["runs"])
        spread = row["std"] if len(row["runs"]) > 1 else None
        mean = "" if row["mean"] is None else mean_and_spread(row["mean"], spread, metric.digits)
        lines.append([*row["setting"].values(), mean, runs])
    return Table(heads, lines, words=heads, notes=[NOTE])


def _value(run: dict[str, Any], metric: Metric) -> str:
    if run["state"] != "done" or run["value"] is None:
        return f"{run['state']} at update {run['update']}"
    return metric.text(run["value"])
