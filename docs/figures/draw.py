"""Draws the figures of the documentation: `python docs/figures/draw.py` writes hierarchy.svg, gradients.svg,
edges.svg and memory.svg."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

PERIOD, SEGMENTS = 4, 3
LOWER, UPPER, INPUT, OUTPUT = 1.0, 2.4, 0.1, 0.1
BLUE, ORANGE, GREY, RED, GREEN = "#3b6ea8", "#d9822b", "#888888", "#c23b3b", "#3f8f4f"


def box(axes: Axes, x: float, y: float, text: str, colour: str, width: float = 0.62) -> None:
    shape = FancyBboxPatch(
        (x - width / 2, y - 0.2), width, 0.4, boxstyle="round,pad=0.02,rounding_size=0.12", fc=colour, ec="black", lw=0.8
    )
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color="white")


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, style: str = "-", width: float = 1.4
) -> None:
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width, "linestyle": style, "shrinkA": 0, "shrinkB": 0},
    )


def frame(axes: Axes, title: str) -> None:
    axes.set(xlim=(-0.8, PERIOD * SEGMENTS - 0.2), ylim=(-0.55, 2.8), title=title)
    axes.set_aspect("equal")
    axes.axis("off")


def nodes(axes: Axes) -> None:
    for segment in range(SEGMENTS):
        start = segment * PERIOD
        box(axes, start, UPPER, f"level 1, tick {segment}", ORANGE, width=1.5)
        for place in range(PERIOD):
            box(axes, start + place, LOWER, f"$h_{{{start + place}}}$", BLUE)
        if segment:
            axes.axvline(start - 0.5, 0.13, 0.72, color=GREY, ls=":", lw=0.8)


def hierarchy(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(11, 3.6), layout="constrained")
    frame(axes, "")
    nodes(axes)
    for step in range(PERIOD * SEGMENTS):
        axes.text(step, INPUT - 0.25, f"$x_{{{step}}}$", ha="center", va="center", fontsize=9)
        arrow(axes, (step, INPUT - 0.08), (step, LOWER - 0.24), GREY)
        if (step + 1) % PERIOD:
            arrow(axes, (step + 0.33, LOWER), (step + 0.67, LOWER), BLUE)
    for segment in range(SEGMENTS):
        start = segment * PERIOD
        arrow(axes, (start, UPPER - 0.23), (start, LOWER + 0.24), ORANGE, width=2)
        if segment:
            arrow(axes, (start - PERIOD + 0.8, UPPER), (start - 0.8, UPPER), ORANGE)
            arrow(axes, (start - 1 + 0.1, LOWER + 0.24), (start - 0.3, UPPER - 0.24), GREEN, width=2)
    axes.text(PERIOD - 1.35, 1.72, "summary", color=GREEN, fontsize=10, ha="right")
    axes.text(PERIOD + 0.12, 1.72, "context", color=ORANGE, fontsize=10, ha="left")
    axes.text(PERIOD - 0.5, -0.4, "boundary", color=GREY, fontsize=9, ha="center", va="center")
    axes.text((PERIOD - 1) / 2, -0.4, "one segment", color=BLUE, fontsize=9, ha="center", va="center")
    _save(figure, path)


def gradients(path: Path) -> None:
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(11, 6.8), layout="constrained")
    for axes, restricted in ((top, False), (bottom, True)):
        title = "True gradients: everything is kept until the window ends"
        if restricted:
            title = "Restricted gradients: none go back along the upward edges; each segment is differentiated when it ends"
        frame(axes, title)
        nodes(axes)
        for step in range(PERIOD * SEGMENTS):
            if (step + 1) % PERIOD:
                arrow(axes, (step + 0.67, LOWER), (step + 0.33, LOWER), RED)
            axes.text(step, INPUT + 0.12, f"$L_{{{step}}}$", ha="center", va="center", fontsize=9, color=RED)
            arrow(axes, (step, INPUT + 0.3), (step, LOWER - 0.24), RED)
        for segment in range(SEGMENTS):
            start = segment * PERIOD
            arrow(axes, (start, LOWER + 0.24), (start, UPPER - 0.23), RED, width=2)
            if segment:
                arrow(axes, (start - 0.8, UPPER), (start - PERIOD + 0.8, UPPER), RED)
                if not restricted:
                    arrow(axes, (start - 0.3, UPPER - 0.24), (start - 1 + 0.1, LOWER + 0.24), RED, width=2)
            if restricted:
                last = start + PERIOD - 1
                box(axes, last, 1.75, "decoder", GREEN, width=0.95)
                arrow(axes, (last, 1.75 - 0.24), (last, LOWER + 0.24), RED)
    _save(figure, path)


def edges(path: Path) -> None:
    """What goes up, how it comes down, who is read: the paper's choice above, the other one below."""
    figure, rows = plt.subplots(2, 1, figsize=(11, 6.8), layout="constrained")
    titles = ('reads="summary", context="input", output="lowest" (the paper)', 'reads="inputs", context="state", output="all"')
    for axes, title, others in zip(rows, titles, (False, True), strict=True):
        frame(axes, title)
        nodes(axes)
        for step in range(PERIOD * SEGMENTS):
            axes.text(step, INPUT - 0.25, f"$x_{{{step}}}$", ha="center", va="center", fontsize=9)
            arrow(axes, (step, INPUT - 0.08), (step, LOWER - 0.24), GREY)
            if (step + 1) % PERIOD:
                arrow(axes, (step + 0.33, LOWER), (step + 0.67, LOWER), BLUE)
        for segment in range(SEGMENTS):
            start = segment * PERIOD
            if segment:
                arrow(axes, (start - PERIOD + 0.8, UPPER), (start - 0.8, UPPER), ORANGE)
                for place in range(PERIOD if others else 1):
                    begin = (start - 1 - place, INPUT - 0.08) if others else (start - 0.9, LOWER + 0.24)
                    arrow(axes, begin, (start - 0.3 - 0.12 * place, UPPER - 0.24), GREEN, width=1 if others else 2)
            down = (start - 0.42, LOWER) if others else (start, LOWER + 0.24)
            arrow(axes, (start - 0.42 if others else start, UPPER - 0.23), down, ORANGE, width=2)
        for x, y, text, colour in ((PERIOD + 0.15, 1.72, "initial state" if others else "first input", ORANGE),):
            axes.text(x, y, text, color=colour, fontsize=10)
        axes.text(PERIOD - 1.5, 1.72, "raw inputs" if others else "summary", color=GREEN, fontsize=10, ha="right")
        head = "the output: both levels" if others else "the output: level 0"
        axes.text(PERIOD * SEGMENTS - 0.5, UPPER if others else LOWER, head, color=RED, fontsize=10, va="center")
        axes.set_xlim(-0.8, PERIOD * SEGMENTS + 2)
    _save(figure, path)


def memory(path: Path) -> None:
    """Measured memory against the window, from what `make growth` wrote."""
    rows = json.loads((path.parents[2] / "benchmarks" / "results" / "growth.json").read_text())
    rows = [row for row in rows if row["periods"] == [10, 10, 10]]
    figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    for method, name, colour in (("full", "true gradients", BLUE), ("restricted", "restricted gradients", RED)):
        points = sorted((row["window"], row["bytes"] / 1e6) for row in rows if row["method"] == method)
        axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
        window, megabytes = points[-1]
        axes.annotate(f"{megabytes:,.0f} MB", (window, megabytes), xytext=(0, 8), textcoords="offset points", ha="right")
    axes.set(xscale="log", yscale="log", xlabel="steps of the window", ylabel="peak memory (MB)", ylim=(1, 8000))
    axes.set_title("Four LSTM levels of 64 units, period 10, batch 8, as measured", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})  # the same picture is the same file


if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "hrnn"
    folder = Path(__file__).resolve().parent
    for draw, name in ((hierarchy, "hierarchy"), (gradients, "gradients"), (edges, "edges"), (memory, "memory")):
        draw(folder / f"{name}.svg")
