"""hrnn demo: what the paper claims, on a small copy task, in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hrnn.commands.options import console, ended, parse, require_folder
from hrnn.launching.processes import processes
from hrnn.launching.progress import last_update
from hrnn.launching.run import run
from hrnn.limits import at_least, option
from hrnn.report.curves import figure_of
from hrnn.report.figure import save
from hrnn.report.series import load
from hrnn.report.table import Table
from hrnn.studies.demo import DEMO, LONG, OURS, measured_bytes, units, vectors
from hrnn.training.entries import whole_result


@dataclass(frozen=True)
class Demo:
    """Train the paper's four models, and ours with our defaults, on a small copy task with growing lengths, and compare.

    Restricted gradients with local losses should keep up with true gradients, in a fraction of the vectors; without local
    losses, or with true gradients over a window that needs no more memory, they should fall behind.
    """

    folder: Path = Path("runs/demo")
    """Where the runs and the picture go; what is there already is continued, not repeated."""
    updates: int = option(2000, at_least(1))
    """Batches of each model."""
    seed: int = 0
    """Of weights and data."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Demo, "demo", arguments)
    require_folder(options.folder, "--folder")
    ending = run(options.folder, units(options.updates, options.seed), processes())
    if not ending.interrupted and not ending.failures:
        console().print(table(options.folder).terminal())
        picture = options.folder / "curves.png"
        save(figure_of(load([options.folder / row.name for row in DEMO.rows])[0]), [picture])
        console().print(f"Curves: {picture}. Runs: {options.folder}; hrnn runs {options.folder} lists them.")
    return ended(ending, options.folder)


def table(folder: Path) -> Table:
    """What every model learned, and what it took."""
    metrics, rows = OURS.task.measured, []
    progress = OURS.task.progress
    for row in DEMO.rows:
        result = whole_result(folder / row.name, metrics) or {}
        reached = result[progress.in_result]
        longest = f"{'at least ' if result['at_least'] else ''}{reached}" if reached else "none"
        bits = f"{last_update(folder / row.name)[metrics.score.name]:.2f}"
        megabytes = f"{measured_bytes(row) / 1e6:.0f}"
        rows.append([row.name, row.title, longest, bits, f"{result['seconds']:.0f}", str(vectors(row)), megabytes])
    numbers = ["longest length", "bits at the next", "seconds", "vectors per row", f"MB at {LONG:,} steps"]
    return Table(["model", "", *numbers], rows, words=["model", ""])
