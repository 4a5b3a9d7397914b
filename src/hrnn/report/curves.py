"""Learning curves of runs, for hrnn plot: one line per series and panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hrnn.metrics import LOSS, Metric, Metrics
from hrnn.report.figure import empty, finish, fit_legend, mark, plot, style_of, styled
from hrnn.report.series import Series
from hrnn.report.summary import number

X_AXES = {"updates": ("update", "updates"), "sequences": ("sequences", "sequences seen"), "minutes": ("seconds", "minutes")}


def panels(series: Sequence[Series]) -> list[Metric]:
    """What to draw, one panel each: what the task is judged by, then how it got there."""
    metrics = metrics_of(series)
    names = {name for one in series for run in one.runs for record in run.records for name in record}
    chosen = [metric for metric in (metrics.progress, metrics.score) if metric is not None and metric.name in names]
    if not chosen or metrics.score.higher_is_better:
        loss = next((metric for metric in metrics.all if metric.name == LOSS.name), LOSS)
        chosen += [loss] if loss not in chosen else []
    return [*chosen, metrics.local] if _levels(series, metrics.local) else chosen


def metrics_of(series: Sequence[Series]) -> Metrics:
    """Of the first run; all of them are of one task."""
    return series[0].runs[0].described.metrics


@styled
def figure_of(series: Sequence[Series], x: str = "updates") -> Figure:
    """One line per series and panel."""
    entry, words = X_AXES[x]
    metrics, chosen = metrics_of(series), panels(series)
    figure, grid = empty(3.6 * len(chosen), 3.3, columns=len(chosen))
    for axes, metric in zip(grid[0], chosen, strict=True):
        local = metric == metrics.local
        for place, one in enumerate(series):
            if local:
                _local_losses(axes, one, metric, entry, style_of(place))
            else:
                _series(axes, one, metric, entry, style_of(place), steps=metric == metrics.progress)
        finish(axes, words, f"{metric.label}, lower levels darker" if local and _levels(series, metric) > 1 else metric.axis)
        if local:
            axes.set_yscale("log")
        else:
            _limit(axes, metric, series, whole=metric == metrics.progress)
    fit_legend(figure, _handles(series, [metric.name for metric in chosen if metric != metrics.local]))
    return figure


def _series(axes: Axes, series: Series, metric: Metric, x: str, style: dict[str, Any], *, steps: bool) -> None:
    validated = [run.line("validation", metric, x) for run in series.runs]
    training = [run.line("update", metric, x) for run in series.runs]
    if not steps and any(len(line[0]) for line in validated):
        plot(axes, training, {**style, "alpha": 0.35, "linewidth": 0.9}, band=None)
        plot(axes, validated, {**style, "marker": "o", "markersize": 3})
    else:
        plot(axes, training, style, steps=steps)


def _local_losses(axes: Axes, series: Series, metric: Metric, x: str, style: dict[str, Any]) -> None:
    for level in range(_levels([series], metric)):
        lines = [run.line("update", metric, x, level) for run in series.runs]
        lines = [(places[losses > 0], losses[losses > 0]) for places, losses in lines]  # 0: no segment had ended yet
        plot(axes, lines, {**style, "alpha": 1 / (1 + level / 2)})


def _levels(series: Sequence[Series], local: Metric) -> int:
    """How many levels have a local loss."""
    most = 0
    for record in (record for one in series for run in one.runs for record in run.records):
        losses = record.get(local.name)
        if isinstance(losses, list) and any(number(loss) for loss in losses):
            most = max(most, len(losses))
    return most


def _limit(axes: Axes, metric: Metric, series: Sequence[Series], *, whole: bool) -> None:
    """How far the vertical axis goes, and what is marked on it; whole: at whole numbers."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.get_lines()] or [np.zeros(0)])
    most = metric.most
    if whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        most = None if values.size and values.max() >= 1 else 1  # around 0 alone, the axis would end at 0.05
    elif most is None and values.size and values.max() > 4 * (usual := float(np.quantile(values, 0.98))) > 0:
        most = 1.5 * usual  # single steps far above the others would press them together
    axes.set_ylim(metric.least, most)
    if metric.none and not values.any():
        axes.text(1, 1, f"{metric.none} yet", color="0.3", fontsize=8, ha="right", va="top", transform=axes.transAxes)
    low, high = axes.get_ylim()
    described = [run.described.metrics.named(metric.name) for one in series for run in one.runs]
    for level, words in sorted({level for one in described for level in one.levels}):
        if low <= level <= high:
            mark(axes, level, words)
    axes.set_ylim(low, high)


def _handles(series: Sequence[Series], drawn: Sequence[str]) -> list[Line2D]:
    """One entry per series, and how training and validation differ where both are drawn."""
    handles = [Line2D([], [], **style_of(place), label=one.label) for place, one in enumerate(series)]
    records = [record for one in series for run in one.runs for record in run.records]
    if any({"validation", "update"} <= {record["kind"] for record in records if name in record} for name in drawn):
        handles.append(Line2D([], [], color="0.4", linewidth=0.9, alpha=0.5, label="training"))
        handles.append(Line2D([], [], color="0.4", marker="o", markersize=3, label="validation"))
    return handles
