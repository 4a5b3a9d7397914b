"""Learning curves of runs, as a picture fit for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hrnn.errors import UserError
from hrnn.report.summary import name_of_run
from hrnn.training.entries import read_entries
from hrnn.training.journal import read

# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes for those who print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5), (1, 1), (8, 2), (3, 1, 1, 1))
X_AXES = {"updates": ("update", "updates"), "sequences": ("sequences", "sequences seen"), "minutes": ("seconds", "minutes")}
Y_AXES = {
    "length": "length solved (bits)",
    "accuracy": "accuracy",
    "recalled_bits_per_character": "loss (bits per recalled character)",
    "bits_per_character": "loss (bits per character)",
    "loss": "loss (nats)",
}
UNITS = {"copy": "nats", "text": "nats", "needle": "nats", "pixels": "squared error"}  # of the lowest level's local loss


@dataclass(frozen=True)
class Curves:
    """A run's journal, by kind of record."""

    label: str
    task: str
    records: Sequence[dict[str, Any]]

    def of(self, kind: str, name: str, x: str) -> tuple[list[float], list[float]]:
        """Points (x, y) of an entry, where it is there and is a number."""
        scale = 1 / 60 if x == "seconds" else 1
        points = [(r[x] * scale, r[name]) for r in self.records if r["kind"] == kind and r.get(name) is not None and x in r]
        return [point[0] for point in points], [point[1] for point in points]


def load(folders: Sequence[Path]) -> list[Curves]:
    """The runs' journals; labels say what tells the runs apart."""
    entries = [read_entries(folder) for folder in folders]
    names = [name_of_run(entry) for entry in entries]
    labels = [
        name if names.count(name) == 1 else f"{name} ({folder.name})" for name, folder in zip(names, folders, strict=True)
    ]
    tasks = [entry["task"]["name"] for entry in entries]
    found = [Curves(label, task, list(read(folder))) for label, task, folder in zip(labels, tasks, folders, strict=True)]
    for curves, folder in zip(found, folders, strict=True):
        if not any(record["kind"] == "update" for record in curves.records):
            raise UserError(f"{folder} has recorded nothing yet; let it run a little")
    if len(set(tasks)) > 1:
        raise UserError("these runs are of different tasks; plot them apart")
    return found


def panels(runs: Sequence[Curves]) -> list[str]:
    """What to draw, one panel each: what the task is judged by, then how it got there."""
    names = {name for run in runs for record in run.records for name in record}
    chosen: list[str] = [name for name in ("length", "accuracy", "recalled_bits_per_character") if name in names]
    if "bits_per_character" in names and not chosen:
        chosen.append("bits_per_character")
    if "accuracy" in chosen:
        chosen.append("loss")
    locals_there = any(any(record.get("local_losses") or ()) for run in runs for record in run.records)
    return [*chosen, "local_losses"] if locals_there else chosen or ["loss"]


def draw(runs: Sequence[Curves], path: Path, x: str = "updates") -> None:
    """One line a run and panel; PNG or SVG by the name of the file."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"--output is {path}; give a name that ends with .png or .svg")
    entry, words = X_AXES[x]
    names = panels(runs)
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "hrnn"}):
        figure, axes = plt.subplots(1, len(names), figsize=(3.6 * len(names), 3.3), squeeze=False, layout="constrained")
        for panel, name in zip(axes[0], names, strict=True):
            for number, run in enumerate(runs):
                _line(panel, run, name, entry, number)
            panel.set_xlabel(words)
            panel.set_ylabel(_unit(runs) if name == "local_losses" else Y_AXES[name])
            _finish(panel, name)
        _legend(figure, axes[0], runs)
        save(figure, [path])


def save(figure: Any, paths: Sequence[Path]) -> None:
    """Write a figure and close it."""
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a date in the file, the same runs give the same picture.
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def _line(panel: Axes, run: Curves, name: str, x: str, number: int) -> None:
    style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "dashes": DASHES[number % len(DASHES)], "linewidth": 1.4}
    if name == "length":
        places, values = run.of("update", "solved", x)
        panel.plot(places, values, drawstyle="steps-post", **style)
    elif name == "local_losses":
        places, losses = run.of("update", name, x)
        for level in range(len(losses[0]) if losses else 0):  # type: ignore[arg-type]
            values = [loss[level] for loss in losses]  # type: ignore[index]
            if any(value is not None for value in values):
                panel.plot(places, values, alpha=1 / (1 + level / 2), **style)
    else:
        validated = run.of("validation", name, x)
        training = run.of("update", name, x)
        panel.plot(*training, **{**style, "alpha": 0.35 if validated[0] else 1.0, "linewidth": 0.9 if validated[0] else 1.4})
        panel.plot(*validated, marker="o", markersize=3, **style)


def _unit(runs: Sequence[Curves]) -> str:
    """Level 0 decodes symbols or vectors, the levels above always vectors."""
    levels = {len(record["local_losses"]) for run in runs for record in run.records if record.get("local_losses")}
    if max(levels, default=1) > 1 or runs[0].task not in UNITS:
        return "local loss, lower levels darker"
    return f"local loss ({UNITS[runs[0].task]})"


def _finish(panel: Axes, name: str) -> None:
    panel.set_xlim(left=0)
    shorten_axis(panel)
    panel.grid(True, linewidth=0.4, alpha=0.5)
    if name == "accuracy":
        panel.set_ylim(0, 1)
    elif name == "recalled_bits_per_character":
        panel.axhline(0.15, color="0.4", linewidth=0.8, linestyle=":")
        panel.text(1, 1, "dotted: solved", color="0.3", fontsize=8, ha="right", va="top", transform=panel.transAxes)
        panel.set_ylim(bottom=0)
    elif name == "length":
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    elif name == "local_losses":
        panel.set_yscale("log")


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


def _legend(figure: Any, axes: Sequence[Axes], runs: Sequence[Curves]) -> None:
    """One entry a run, and how training and validation differ where both are drawn."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[n % len(COLOURS)], dashes=DASHES[n % len(DASHES)], label=run.label)
        for n, run in enumerate(runs)
    ]
    if any(record["kind"] == "validation" for run in runs for record in run.records):
        handles.append(Line2D([], [], color="0.4", linewidth=0.9, alpha=0.5, label="training"))
        handles.append(Line2D([], [], color="0.4", marker="o", markersize=3, label="validation"))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4), frameon=False)
