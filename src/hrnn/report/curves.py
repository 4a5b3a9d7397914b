"""Learning curves of runs, as a picture fit for a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hrnn.errors import UserError
from hrnn.report.series import Line, Series, together
from hrnn.report.summary import number

# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes for those who print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5), (1, 1), (8, 2), (3, 1, 1, 1))
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "hrnn"}
X_AXES = {"updates": ("update", "updates"), "sequences": ("sequences", "sequences seen"), "minutes": ("seconds", "minutes")}
Y_AXES = {
    "length": "length solved (bits)",
    "accuracy": "accuracy",
    "recalled_bits_per_character": "loss (bits per recalled character)",
    "bits_per_character": "loss (bits per character)",
    "loss": "loss (nats)",
}
UNITS = {"copy": "nats", "text": "nats", "needle": "nats", "pixels": "squared error"}  # of the lowest level's local loss
KINDS = (".png", ".svg", ".pdf")
LEGEND_ROWS, ROW_INCHES, LABEL_LENGTHS = 12, 0.18, (60, 48, 36, 24)


def check_output(path: Path) -> None:
    if path.suffix.lower() not in KINDS:
        raise UserError(f"--output is {path}; give a name that ends with .png, .svg or .pdf")


def style_of(number: int) -> dict[str, Any]:
    """Colour and dashes of a line, different ones for 49 lines."""
    dashes = DASHES[(number + number // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "dashes": dashes, "linewidth": 1.4}


def panels(series: Sequence[Series]) -> list[str]:
    """What to draw, one panel each: what the task is judged by, then how it got there."""
    records = [record for one in series for run in one.runs for record in run.records]
    names = {name for record in records for name in record}
    chosen: list[str] = [name for name in ("length", "accuracy", "recalled_bits_per_character") if name in names]
    if "bits_per_character" in names and not chosen:
        chosen.append("bits_per_character")
    if "accuracy" in chosen:
        chosen.append("loss")
    return [*chosen, "local_losses"] if _levels(series) else chosen or ["loss"]


def draw(series: Sequence[Series], path: Path, x: str = "updates") -> None:
    """One line a series and panel; PNG, SVG or PDF by the name of the file."""
    check_output(path)
    with plt.rc_context(STYLE):
        save(figure_of(series, x), [path])


def figure_of(series: Sequence[Series], x: str = "updates") -> Figure:
    entry, words = X_AXES[x]
    names = panels(series)
    figure, axes = plt.subplots(1, len(names), figsize=(3.6 * len(names), 3.3), squeeze=False, layout="constrained")
    for panel, name in zip(axes[0], names, strict=True):
        for place, one in enumerate(series):
            _series(panel, one, name, entry, style_of(place))
        panel.set_xlabel(words)
        panel.set_ylabel(_unit(series) if name == "local_losses" else Y_AXES[name])
        _finish(panel, name, series)
    fit_legend(figure, _handles(series))
    return figure


def save(figure: Any, paths: Sequence[Path]) -> None:
    """Write a figure and close it."""
    # Without a date in the file, the same runs give the same picture.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200, metadata=undated.get(path.suffix.lower()))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def _series(panel: Axes, series: Series, name: str, x: str, style: dict[str, Any]) -> None:
    if name == "length":
        plot(panel, [run.line("update", "solved", x) for run in series.runs], style, steps=True)
    elif name == "local_losses":
        for level in range(_levels([series])):
            lines = [run.line("update", name, x, level) for run in series.runs]
            lines = [(places[losses > 0], losses[losses > 0]) for places, losses in lines]  # 0: no segment had ended yet
            plot(panel, lines, {**style, "alpha": 1 / (1 + level / 2)})
    else:
        validated = [run.line("validation", name, x) for run in series.runs]
        training = [run.line("update", name, x) for run in series.runs]
        if any(len(line[0]) for line in validated):
            plot(panel, training, {**style, "alpha": 0.35, "linewidth": 0.9}, band=False)
            plot(panel, validated, {**style, "marker": "o", "markersize": 3})
        else:
            plot(panel, training, style)


def plot(panel: Axes, lines: Sequence[Line], style: dict[str, Any], *, steps: bool = False, band: bool = True) -> None:
    """One line as it is; of several the mean, and their deviation as a band."""
    lines = [line for line in lines if len(line[0])]
    if steps:
        style = {**style, "drawstyle": "steps-post"}
    if len(lines) < 2:
        for line in lines:
            panel.plot(*line, **style)
        return
    grid, mean, spread = together(lines, steps)
    panel.plot(grid, mean, **style)
    if band:
        step: Literal["post"] | None = "post" if steps else None
        panel.fill_between(grid, mean - spread, mean + spread, step=step, color=style["color"], alpha=0.18, linewidth=0)


def _levels(series: Sequence[Series]) -> int:
    """How many levels have a local loss."""
    found = 0
    for record in (record for one in series for run in one.runs for record in run.records):
        losses = record.get("local_losses")
        if isinstance(losses, list) and any(number(loss) for loss in losses):
            found = max(found, len(losses))
    return found


def _unit(series: Sequence[Series]) -> str:
    """Level 0 decodes symbols or vectors, the levels above always vectors."""
    task = series[0].runs[0].described.task
    return "local loss, lower levels darker" if _levels(series) > 1 or task not in UNITS else f"local loss ({UNITS[task]})"


def _finish(panel: Axes, name: str, series: Sequence[Series]) -> None:
    panel.set_xlim(left=0)
    shorten_axis(panel)
    panel.grid(True, linewidth=0.4, alpha=0.5)
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.get_lines()] or [np.zeros(0)])
    if name == "accuracy":
        panel.set_ylim(0, 1)
    elif name == "length":
        panel.set_ylim(0, None if values.size and values.max() >= 1 else 1)  # around 0 alone, the axis would end at 0.05
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
        if not values.any():
            _note(panel, "no length solved yet")
    elif name == "local_losses":
        panel.set_yscale("log")
    else:
        if values.size and values.max() > 4 * (usual := float(np.quantile(values, 0.98))) > 0:
            panel.set_ylim(top=1.5 * usual)  # single steps far above the others would press them together
        if name == "recalled_bits_per_character":
            panel.set_ylim(bottom=0)
            levels = {level for one in series for run in one.runs if (level := run.described.solved) is not None}
            for level in sorted(levels):
                panel.axhline(level, color="0.4", linewidth=0.8, linestyle=":")
            if levels:
                _note(panel, "dotted: solved")


def _note(panel: Axes, words: str) -> None:
    panel.text(1, 1, words, color="0.3", fontsize=8, ha="right", va="top", transform=panel.transAxes)


def shorten_axis(panel: Axes) -> None:
    """Few numbers along the horizontal axis, and short ones."""
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, place: _short(value)))


def _short(value: float) -> str:
    """1200 as 1.2k, for an axis."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def _handles(series: Sequence[Series]) -> list[Line2D]:
    """One entry a series, and how training and validation differ where both are drawn."""
    handles = [Line2D([], [], **style_of(place), label=one.label) for place, one in enumerate(series)]
    if any(record["kind"] == "validation" for one in series for run in one.runs for record in run.records):
        handles.append(Line2D([], [], color="0.4", linewidth=0.9, alpha=0.5, label="training"))
        handles.append(Line2D([], [], color="0.4", marker="o", markersize=3, label="validation"))
    return handles


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
