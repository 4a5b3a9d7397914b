"""Figures: one style, one way to draw a line for several runs, one legend, one way to write them down."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from hrnn.files import make_folder, write_atomically

Line = tuple[NDArray[np.float64], NDArray[np.float64]]
Band = Literal["deviation", "range"]

# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes for those who print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5), (1, 1), (8, 2), (3, 1, 1, 1))
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "hrnn"}
LEGEND_ROWS, ROW_INCHES, LABEL_LENGTHS = 12, 0.18, (60, 48, 36, 24)

styled = matplotlib.rc_context(STYLE)  # a decorator of functions that make a figure


def style_of(place: int) -> dict[str, Any]:
    """Colour and dashes of a line, different ones for 49 lines."""
    dashes = DASHES[(place + place // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[place % len(COLOURS)], "dashes": dashes, "linewidth": 1.4}


def empty(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Figure, NDArray[Any]]:
    """A figure of so many inches, and its panels (rows, columns)."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plot(
    axes: Axes,
    lines: Sequence[Line],
    style: dict[str, Any],
    *,
    steps: bool = False,
    band: Band | None = "deviation",
) -> None:
    """One line as it is. Of several the mean, and their deviation as a band; or their median, and a band of all of them.

    steps: a value holds until the next one
    """
    lines = [line for line in lines if len(line[0])]
    if steps:
        style = {**style, "drawstyle": "steps-post"}
    if len(lines) < 2:
        for line in lines:
            axes.plot(*line, **style)
        return
    places, middle, low, high = summed_up(lines, steps, band)
    axes.plot(places, middle, **style)
    if band:
        step: Literal["post"] | None = "post" if steps else None
        axes.fill_between(places, low, high, step=step, color=style["color"], alpha=0.18, linewidth=0)


def bars(axes: Axes, points: Sequence[Line], style: dict[str, Any], marker: str) -> None:
    """Points in their order, each the mean of several measurements, with a bar from the least to the most."""
    x, y = means(points)
    reach = [[mean - values.min(), values.max() - mean] for (_, values), mean in zip(points, y, strict=True)]
    axes.errorbar(x, y, yerr=np.array(reach).reshape(len(points), 2).T, marker=marker, markersize=5, elinewidth=0.9, **style)


def means(points: Sequence[Line]) -> Line:
    """Of each point's measurements."""
    return np.array([x.mean() for x, _ in points]), np.array([y.mean() for _, y in points])


def summed_up(lines: Sequence[Line], steps: bool, band: Band | None) -> tuple[NDArray[np.float64], ...]:
    """Places, and there the middle of several lines and the ends of the band around it: their mean and deviation, or their
    median and range."""
    places, values = aligned(lines, steps)
    if band == "range":
        return places, np.median(values, axis=0), values.min(0), values.max(0)
    middle, spread = values.mean(0), values.std(0)
    return places, middle, middle - spread, middle + spread


def aligned(lines: Sequence[Line], steps: bool) -> Line:
    """The places of several lines and the values (line, place) of each there; one that ends early keeps its last value."""
    places = np.unique(np.concatenate([x for x, _ in lines]))
    if steps:
        return places, np.array([y[np.maximum(np.searchsorted(x, places, side="right") - 1, 0)] for x, y in lines])
    return places, np.array([np.interp(places, x, y) for x, y in lines])


def finish(axes: Axes, x_label: str, y_label: str = "", title: str = "") -> None:
    """Labels, a light grid, and few and short numbers along the horizontal axis."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, fontsize=9)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: _thousands(value)))
    axes.grid(True, linewidth=0.4, alpha=0.5)


def logarithmic(axes: Axes) -> None:
    """A horizontal axis of ratios, with a few numbers as one says them."""
    axes.set_xscale("log")
    axes.autoscale(axis="x")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: _thousands(value)))


def _thousands(value: float) -> str:
    """1200 as 1.2k."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def mark(axes: Axes, level: float, words: str) -> None:
    """A dotted line to compare with, and beside the panel, where no curve comes, what it is."""
    axes.axhline(level, color="0.4", linewidth=0.8, linestyle=":")
    axes.text(1.01, level, words, transform=axes.get_yaxis_transform(), ha="left", va="center", color="0.3", fontsize=7)


def fit_legend(figure: Figure, handles: Sequence[Line2D], most_columns: int = 4) -> Legend:
    """A legend below the panels, in as many columns as there is room for; labels are shortened until one fits, and what is more
    than a dozen lines is counted only."""
    names = [str(handle.get_label()).replace("$", r"\$") for handle in handles]
    for length in LABEL_LENGTHS:
        for columns in range(min(len(handles), most_columns), 0, -1):
            room = columns * LEGEND_ROWS
            shown = list(handles) if len(handles) <= room else list(handles[: room - 1])
            labels = [_cut(name, length) for name in names[: len(shown)]]
            if len(shown) < len(handles):
                shown.append(Line2D([], [], linestyle="none"))
                labels.append(f"and {len(handles) - len(shown) + 1} more")
            legend = figure.legend(shown, labels, loc="outside lower center", ncols=columns, frameon=False)
            fits = legend.get_window_extent().width <= figure.bbox.width
            if fits or (columns, length) == (1, LABEL_LENGTHS[-1]):
                width, height = figure.get_size_inches()
                figure.set_size_inches(width, height + ROW_INCHES * math.ceil(len(shown) / columns))
                return legend
            legend.remove()
    raise AssertionError("the last of them is taken as it is")


def _cut(text: str, length: int) -> str:
    """Long text without its middle: what tells runs apart stands at both ends."""
    return text if len(text) <= length else f"{text[: length // 2]}...{text[3 - length // 2 :]}"


@styled
def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure: PNG, SVG or PDF by the names of the files."""
    # Without a date in the file, the same runs give the same picture.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    for path in paths:
        content, kind = io.BytesIO(), path.suffix.lower()
        figure.savefig(content, dpi=200, format=kind.removeprefix("."), metadata=undated.get(kind))
        make_folder(path.parent)
        write_atomically(path, content.getvalue())
