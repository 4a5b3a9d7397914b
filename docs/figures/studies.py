"""Draws what the studies showed, from results/: `python docs/figures/studies.py` writes betas.svg and recovered.svg."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hrnn.report.figure import COLOURS, save, styled

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
TASKS = {  # a quantity's place in the table, and words for it
    "beta-copy": (0, "copy: length solved"),
    "beta-mnist": (0, "pixels: accuracy"),
    "beta-ptb": (0, "text: bits/character"),
    "beta-deep-copy": (1, "three levels: sequences"),
    "beta-needle": (0, "needle: accuracy"),
}
DECODED = {"beta-needle": "needle: symbols of a segment of 10", "beta-ptb": "text: characters of a word"}


def table(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}-desk" / "table.json").read_text())


@styled
def betas() -> Figure:
    """Score by beta, every run a dot, the mean a line; the default is marked."""
    figure = Figure(figsize=(10, 2.4), layout="constrained")
    for axes, (name, (place, title)) in zip(figure.subplots(1, len(TASKS)), TASKS.items(), strict=True):
        found = table(name)
        quantity = found["quantities"][place]["name"]
        x = [row["config"]["model"]["betas"][0] for row in found["rows"]]
        runs = [[run["value"] for run in row["cells"][quantity]["runs"]] for row in found["rows"]]
        axes.plot(x, [np.mean(values) for values in runs], color=COLOURS[0])
        for beta, values in zip(x, runs, strict=True):
            axes.plot([beta] * len(values), values, "o", color=COLOURS[0], markersize=3.5)
        axes.axvline(1, color=COLOURS[1], linewidth=1, linestyle=":")
        axes.set_xscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("beta")
    return figure


@styled
def recovered() -> Figure:
    """What decoders of the lowest level lose by index, over training."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(DECODED)), DECODED.items(), strict=True):
        lines = (RESULTS / f"{name}-desk" / "runs" / "beta-1" / "seed-0.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if record["kind"] == "validation"]
        values = np.array([record["recovered"][0] for record in records], dtype=float).T
        updates = [record["update"] for record in records]
        image = axes.imshow(
            values, aspect="auto", origin="lower", cmap="viridis", vmin=0, vmax=1,
            extent=(updates[0] / 2, updates[-1] + updates[0] / 2, 0.5, len(values) + 0.5),
        )  # fmt: skip
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("updates")
        axes.set_ylabel("inputs back")
    figure.colorbar(image, label="lost, of 1 by guessing")
    return figure


if __name__ == "__main__":
    save(betas(), [HERE / "betas.svg"])
    save(recovered(), [HERE / "recovered.svg"])
