"""Pictures of an experiment: learning curves with their spread over seeds, or one line a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from hrnn.report.curves import STYLE, plot, save, shorten_axis, style_of
from hrnn.report.series import Line
from hrnn.studies.paper import Experiment, Panel, Row
from hrnn.studies.plan import Found

AGAIN = "† missed the first length; run again from 1 by 1"


def points(found: Found, panel: Panel) -> Line:
    """What a run's journal says: (updates, values). An update is a batch here, whatever moves within it."""
    batch = found.result.entries["config"]["learning"]["batch"]
    records = [r for r in found.result.records if r["kind"] == panel.kind and r.get(panel.entry) is not None]
    x = [record["sequences"] / batch for record in records]
    y = [float(record[panel.entry]) for record in records]
    if panel.steps:
        x, y = [0.0, *x], [0.0, *y]
    return np.array(x), np.array(y)


def draw(experiment: Experiment, found: dict[str, list[Found]], paths: Sequence[Path], note: str = "") -> None:
    """The experiment's panels side by side, written to every path; PNG or SVG by the name of the file."""
    rows = [row for row in experiment.rows if found.get(row.name)]
    with plt.rc_context(STYLE):
        panels = [panel for panel in experiment.panels if any(not panel.rows or row.name in panel.rows for row in rows)]
        width = 4.6 if len(panels) == 1 else 3.7 * len(panels)
        figure, axes = plt.subplots(1, len(panels), figsize=(width, 3.5), squeeze=False, layout="constrained")
        for axis, panel in zip(axes[0], panels, strict=True):
            shown = [row for row in rows if not panel.rows or row.name in panel.rows]
            for number, row in enumerate(shown):
                _row(axis, row, found[row.name], panel, number)
            _finish(axis, panel, next(iter(found.values()))[0].result.entries["config"]["learning"]["batch"])
            if panel.rows:
                axis.legend(frameon=False, fontsize=8)
        if not any(panel.rows for panel in panels):
            handles, labels = axes[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)), frameon=False)
        again = any(one.first is not None for runs in found.values() for one in runs)
        words = "\n".join(text for text in (AGAIN if again else "", note) if text)
        if words:
            figure.supxlabel(words, fontsize=7.5, x=0.01, ha="left")
        save(figure, paths)


def _row(axis: Axes, row: Row, runs: Sequence[Found], panel: Panel, number: int) -> None:
    style = style_of(number)
    label = row.title + ("†" if any(one.first is not None for one in runs) else "")
    lines = [line for line in (points(one, panel) for one in runs) if len(line[0])]
    if panel.every_run:
        for place, line in enumerate(lines):
            one = {**style, "linewidth": 1.1, "label": label if place == 0 else None}
            plot(axis, [line], one, steps=panel.steps)
    else:
        plot(axis, lines, {**style, "label": label}, steps=panel.steps)


def _finish(axis: Axes, panel: Panel, batch: int) -> None:
    axis.set_xlabel(f"updates (batches of {batch})")
    axis.set_ylabel(panel.label)
    if panel.title:
        axis.set_title(panel.title, fontsize=9)
    axis.set_xlim(left=0)
    shorten_axis(axis)
    axis.grid(True, linewidth=0.4, alpha=0.5)
    if panel.entry == "accuracy":
        axis.set_ylim(0, 1.01)
    elif panel.entry == "solved":
        axis.set_ylim(bottom=0)
    elif panel.entry == "recalled_bits_per_character":  # chance is 1; single steps far above it would press the rest together
        axis.set_ylim(0, 1.5)
    side: Literal["top", "bottom"] = "top" if panel.entry == "accuracy" else "bottom"  # where no curve comes
    for level, words in panel.lines:
        axis.axhline(level, color="0.4", linewidth=0.8, linestyle=":")
        axis.text(0.99, level, words, transform=axis.get_yaxis_transform(), ha="right", va=side, fontsize=8)
