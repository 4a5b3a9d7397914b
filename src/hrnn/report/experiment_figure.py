"""The picture of an experiment: learning curves with their spread over seeds, or one line per run."""

from __future__ import annotations

import numpy as np

from hrnn.report.figure import Line
from hrnn.report.picture import Axis, Curve, Picture
from hrnn.studies.experiment import Experiment, Panel
from hrnn.studies.plan import Runs, SeedRun

AGAIN = "† missed the first length; run again from 1 by 1"


def picture_of(experiment: Experiment, runs: Runs, note: str = "") -> Picture:
    """The experiment's panels side by side."""
    rows = [row for row in experiment.rows if runs.get(row.name)]
    panels = [panel for panel in experiment.panels if any(not panel.rows or row.name in panel.rows for row in rows)]
    made = []
    for panel in panels:
        shown = [row for row in rows if not panel.rows or row.name in panel.rows]
        curves = []
        for place, row in enumerate(shown):
            sign = "†" if any(run.first is not None for run in runs[row.name]) else ""
            curves.append(Curve(row.title + sign, place, [points(run, panel) for run in runs[row.name]]))
        made.append(
            Axis(
                curves,
                f"updates (batches of {runs[rows[0].name][0].batch})",
                panel.label,
                panel.title,
                steps=panel.steps,
                band=None if panel.every_run else "deviation",
                from_zero=panel.top is not None or panel.steps,
                top=panel.top,
                bottom=panel.bottom,
                marks=panel.lines,
                legend=bool(panel.rows),
            )
        )
    again = any(run.first is not None for several in runs.values() for run in several)
    words = "\n".join(one for one in (AGAIN if again else "", note) if one)
    return Picture([made], 4.6 if len(panels) == 1 else 3.7 * len(panels), 3.5, words)


def points(run: SeedRun, panel: Panel) -> Line:
    """What a run's journal says: (updates, values). An update is a batch here, whatever moves within it."""
    records = [r for r in run.counted.records if r["kind"] == panel.kind and r.get(panel.entry) is not None]
    x = [record["sequences"] / run.batch for record in records]
    y = [float(record[panel.entry]) for record in records]
    if panel.steps:
        x, y = [0.0, *x], [0.0, *y]
    result = run.counted.result
    end = result.get(panel.end)
    if end is not None and [end] != y[-1:]:
        x, y = [*x, result["sequences"] / run.batch], [*y, float(end)]
    return np.array(x), np.array(y)
