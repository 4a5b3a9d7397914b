"""The figure of an experiment: learning curves with their spread over seeds, or one line per run."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hrnn.report.figure import Line, empty, finish, mark, plot, style_of, styled
from hrnn.studies.experiment import Experiment, Panel
from hrnn.studies.plan import Runs, SeedRun

AGAIN = "† missed the first length; run again from 1 by 1"


@styled
def figure_of(experiment: Experiment, runs: Runs, note: str = "") -> Figure:
    """The experiment's panels side by side."""
    rows = [row for row in experiment.rows if runs.get(row.name)]
    panels = [panel for panel in experiment.panels if any(not panel.rows or row.name in panel.rows for row in rows)]
    width = 4.6 if len(panels) == 1 else 3.7 * len(panels)
    figure, grid = empty(width, 3.5, columns=len(panels))
    for axes, panel in zip(grid[0], panels, strict=True):
        shown = [row for row in rows if not panel.rows or row.name in panel.rows]
        for place, row in enumerate(shown):
            sign = "†" if any(run.first is not None for run in runs[row.name]) else ""
            _row(axes, row.title + sign, runs[row.name], panel, place)
        finish(axes, f"updates (batches of {runs[rows[0].name][0].batch})", panel.label, panel.title)
        if panel.top is not None or panel.steps:
            axes.set_ylim(0, panel.top)
        for level, words in panel.lines:
            mark(axes, level, words)
        if panel.rows:
            axes.legend(frameon=False, fontsize=8)
    if not any(panel.rows for panel in panels):
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)), frameon=False)
    again = any(run.first is not None for several in runs.values() for run in several)
    if text := "\n".join(words for words in (AGAIN if again else "", note) if words):
        figure.supxlabel(text, fontsize=7.5, x=0.01, ha="left")
    return figure


def points(run: SeedRun, panel: Panel) -> Line:
    """What a run's journal says: (updates, values). An update is a batch here, whatever moves within it."""
    records = [r for r in run.counted.records if r["kind"] == panel.kind and r.get(panel.entry) is not None]
    x = [record["sequences"] / run.batch for record in records]
    y = [float(record[panel.entry]) for record in records]
    if panel.steps:
        x, y = [0.0, *x], [0.0, *y]
    return np.array(x), np.array(y)


def _row(axes: Axes, label: str, runs: list[SeedRun], panel: Panel, place: int) -> None:
    style = {**style_of(place), **({"linewidth": 1.1} if panel.every_run else {})}
    lines = [line for line in (points(run, panel) for run in runs) if len(line[0])]
    for number, some in enumerate([[line] for line in lines] if panel.every_run else [lines]):
        plot(axes, some, {**style, "label": None if number else label}, steps=panel.steps)
