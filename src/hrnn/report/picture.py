"""A picture as data, before anything is drawn: panels of curves, each with the runs behind it. Thinned, it is a small JSON
file, from which the same picture is drawn without a journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hrnn.report.figure import Band, Line, bars, empty, finish, logarithmic, mark, plot, style_of, styled

POINTS, DIGITS = 200, 4  # of a thinned line, at most; of its numbers
RANGE = "line: median of the seeds; band: all of them"
MARKERS = "osD^vP*X<>h"


@dataclass(frozen=True)
class Curve:
    """What one label stands for. place: of its colour and dashes; runs: their points, x and y."""

    label: str
    place: int
    runs: Sequence[Line]


@dataclass(frozen=True)
class Axis:
    """One panel. band: mean and deviation of a curve's runs, median and range, or None: every run a line of its own."""

    curves: Sequence[Curve]
    x_label: str
    y_label: str = ""
    title: str = ""
    steps: bool = False  # a value holds until the next one
    band: Band | None = "deviation"
    from_zero: bool = False
    top: float | None = None
    bottom: float = 0.0  # of an axis from zero: where it starts all the same
    marks: Sequence[tuple[float, str]] = ()  # levels to compare with, and what they are
    legend: bool = False  # of its own; otherwise that of the first panel stands above all
    points: bool = False  # a curve's runs are points, each of several measurements: drawn with their mean and range
    log: bool = False  # the horizontal axis is logarithmic


@dataclass(frozen=True)
class Picture:
    """Rows of panels, all of one length. width, height: in inches."""

    rows: Sequence[Sequence[Axis]]
    width: float
    height: float
    note: str = ""


@styled
def draw(picture: Picture) -> Figure:
    figure, grid = empty(picture.width, picture.height, columns=len(picture.rows[0]), rows=len(picture.rows))
    panels = [panel for row in picture.rows for panel in row]
    for axes, panel in zip(grid.flat, panels, strict=True):
        for curve in panel.curves:
            _curve(axes, curve, panel)
        finish(axes, panel.x_label, panel.y_label, panel.title)
        if panel.log:
            logarithmic(axes)
        if panel.from_zero:
            axes.set_ylim(panel.bottom, panel.top)
        for level, words in panel.marks:
            mark(axes, level, words)
        if panel.legend:
            axes.legend(  # below its panel: within, it hides curves
                loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=5, frameon=False, fontsize=8
            )
    if not any(panel.legend for panel in panels):
        handles: list[Any] = grid[0][0].get_legend_handles_labels()[0]
        if any(panel.band == "range" for panel in panels):
            handles.append(Patch(color="0.5", alpha=0.3, linewidth=0, label=RANGE))
        for columns in range(min(3, len(handles)), 0, -1):
            legend = figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
            if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
                break
            legend.remove()
    if picture.note:
        figure.supxlabel(picture.note, fontsize=7.5, x=0.01, ha="left")
    return figure


def _curve(axes: Axes, curve: Curve, panel: Axis) -> None:
    style = {**style_of(curve.place), **({} if panel.band else {"linewidth": 1.1})}
    lines = [line for line in curve.runs if len(line[0])]
    if panel.points:
        bars(axes, lines, {**style, "label": curve.label}, MARKERS[curve.place % len(MARKERS)])
        return
    for number, some in enumerate([lines] if panel.band else [[line] for line in lines]):
        plot(axes, some, {**style, "label": None if number else curve.label}, steps=panel.steps, band=panel.band)


def thinned(picture: Picture) -> Picture:
    """Few points and few digits of every line."""
    rows = []
    for row in picture.rows:
        made = []
        for panel in row:
            curves = [replace(one, runs=[_thinned(line, panel.steps) for line in one.runs]) for one in panel.curves]
            made.append(replace(panel, curves=curves))
        rows.append(made)
    return replace(picture, rows=rows)


def _thinned(line: Line, steps: bool) -> Line:
    """The first and the last point, and some between them, evenly; of steps those where a value changes."""
    x, y = line
    if steps and len(y):
        kept = np.unique([0, *(np.flatnonzero(np.diff(y)) + 1), len(y) - 1])
        x, y = x[kept], y[kept]
    if len(x) > POINTS:
        kept = np.linspace(0, len(x) - 1, POINTS).round().astype(int)
        x, y = x[kept], y[kept]
    return _rounded(x, max(DIGITS, 6)), _rounded(y, DIGITS)


def _rounded(values: Line | Any, digits: int) -> Any:
    return np.array([float(f"{value:.{digits}g}") for value in values])


def to_json(picture: Picture) -> dict[str, Any]:
    """As plain JSON; whole numbers without a point, which most of them are."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, np.ndarray):
            return [int(one) if float(one).is_integer() else float(one) for one in value]
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value

    made: dict[str, Any] = plain(asdict(picture))
    for panel in (one for row in made["rows"] for one in row):
        for name in ("points", "log", "bottom"):
            if not panel[name]:
                del panel[name]  # files of pictures without them stay as they are
    return made


def from_json(entries: dict[str, Any]) -> Picture:
    rows = []
    for row in entries["rows"]:
        made = []
        for panel in row:
            curves = [
                Curve(one["label"], one["place"], [(np.array(x, float), np.array(y, float)) for x, y in one["runs"]])
                for one in panel["curves"]
            ]
            marks = [(level, words) for level, words in panel["marks"]]
            made.append(Axis(**{**panel, "curves": curves, "marks": marks}))
        rows.append(made)
    return Picture(**{**{name: value for name, value in entries.items() if name != "format"}, "rows": rows})
