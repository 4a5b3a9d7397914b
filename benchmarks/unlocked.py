"""The study of unlocked updates: each level moves when its own segment is differentiated, against one update a window or batch.

    python -m benchmarks.unlocked copy pixels text --data FOLDER [--jobs 2] [--report]

Three tasks, each in rows of one method and way of decoding. Every row gets the best of its own learning rates, chosen with a
seed that is not reported; then three seeds. Resumable: what is finished is not run again. Journals, a table and the plot go to
results/unlocked; --report makes table and plot again from the journals there.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.run import environment
from hrnn.launching.processes import processes
from hrnn.launching.run import run
from hrnn.launching.units import Unit
from hrnn.memory import paper_count
from hrnn.report.curves import STYLE, plt, save, shorten_axis, style_of
from hrnn.report.series import Line, aligned
from hrnn.tasks import Copy, Pixels, Task, Text
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.journal import read
from hrnn.training.network import unrolled

TUNING, SEEDS = 100, (0, 1, 2)
TARGET = 30  # length of the copy task
METRICS = {"copy": "solved", "pixels": "accuracy", "text": "bits_per_character"}
WORK, RESULTS = Path("runs/unlocked"), Path("results/unlocked")
KEPT = (folders.CONFIG, folders.RESULT, "journal.jsonl")  # of each run, in RESULTS


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    rates: tuple[float, ...]
    model: Any = "ours"
    update: Any = "batch"
    indices: Any = "all"
    small: bool = False  # half the batch

    @property
    def slug(self) -> str:
        return self.name.replace(", ", "-").replace(" ", "-")


LOCKED, UNLOCKED = (1e-3, 2e-3, 4e-3, 8e-3), (3e-4, 1e-3, 3e-3)
ROWS = (
    Row("locked", LOCKED),
    Row("unlocked", UNLOCKED, update="segment"),
    Row("locked, small batch", LOCKED[:3], small=True),
    Row("locked, sampled", LOCKED[2:], indices="sampled"),
    Row("unlocked, sampled", UNLOCKED[1:], update="segment", indices="sampled"),
    Row("mr-hrnn, each window", LOCKED, model="mr-hrnn", update="window"),
)


def rows(task: str) -> list[Row]:
    """Long windows of text are for the question whether one update a window is enough; the rest is asked of the other tasks."""
    return [row for row in ROWS if task != "text" or (row.indices == "all" and not row.small)]


def config(task: str, row: Row, rate: float, seed: int, data: Path) -> Config[Any]:
    """The copy task: two levels of 64, period 5, window 60, lengths 5, 10, ... to 30. Pixels: 7 x 7, an image row a segment.
    Text: Penn TreeBank in windows of 500 characters, 128 units ticking every tenth above 64."""
    kind: Task
    sizes = (64, 64)
    if task == "copy":
        kind, batch, budget = Copy(start=5, step=5, until=TARGET), 50, Budget(sequences=200_000)
        shape: dict[str, Any] = {"periods": (5,), "window": 60, "betas": (1.0,)}
    elif task == "text":
        kind, batch, sizes = Text(data=(data / "ptb",), boundaries=(), unknown=False), 50, (64, 128)
        window = paper_count((10,), 500) if row.model == "mr-hrnn" else 500
        budget = Budget(sequences=160 * 50 * 500 // window, validate_every=20 * 500 // window)  # equal characters
        shape = {"periods": (10,), "window": 500, "betas": (0.1,)}
    else:
        kind, batch = Pixels(data=data / "mnist", pool=4), 100
        budget = Budget(sequences=55_000, validate_every=220 if row.small else 110)
        shape = {"periods": (7,), "window": 49, "betas": (0.1,)}
    return resolved(
        Config(
            kind,
            Model(row.model, hidden_sizes=sizes, indices=row.indices, **shape),
            Learning(batch=batch // 2 if row.small else batch, update=row.update, learning_rate=rate),
            budget,
            Runtime(seed=seed, tensorboard=False, journal_every=40 if row.small else 20),
        )
    )


def name_of(task: str, row: Row, rate: float, seed: int) -> str:
    """Of a run: its folder below WORK and RESULTS."""
    return f"{task}/{row.slug}/rate-{rate:g}-seed-{seed}"


def unit(task: str, row: Row, rate: float, seed: int, data: Path) -> Unit:
    return Unit(name_of(task, row, rate, seed), config(task, row, rate, seed, data))


def points(task: str, folder: Path) -> list[dict[str, float]]:
    """A run as points: sequences, updates (moves of the lowest level), minutes of CPU, and what the task is judged by."""
    found, last = [], {"moves": 0}
    config = folders.read_run(folder).config()
    share = unrolled(config) / config.window if task == "text" else 1.0  # of mr-hrnn, a sequence has fewer characters
    for record in read(folder):
        if record["kind"] == "update":
            last = {"moves": record["moves"][0] if "moves" in record else record["update"]}
        if record["kind"] == ("update" if task == "copy" else "validation"):
            place = {"sequences": record["sequences"] * share, "minutes": record["cpu_seconds"] / 60, **last}
            found.append({**place, "value": float(record[METRICS[task]])})
        elif task == "copy" and record["kind"] == "length" and record["outcome"] == "solved":
            found.append({**found[-1], "value": float(record["length"])})
    return found


def reached(task: str, folder: Path, target: float) -> dict[str, float] | None:
    """The first point of a run at the target."""
    return next((point for point in points(task, folder) if better(task, point["value"]) >= better(task, target)), None)


def better(task: str, value: float) -> float:
    """Higher is better."""
    return -value if task == "text" else value


def standing(task: str, folder: Path) -> tuple[float, float, float]:
    """How good a run is, to choose learning rates: copy by the time to the target, else by how far it came, then how soon."""
    at = reached(task, folder, TARGET) if task == "copy" else None
    farthest = best(task, folder)
    soon = reached(task, folder, farthest)
    return (-at["minutes"] if at else -math.inf, better(task, farthest), -soon["minutes"] if soon else -math.inf)


def best_rate(task: str, row: Row, root: Path) -> float:
    return max(row.rates, key=lambda rate: standing(task, root / name_of(task, row, rate, TUNING)))


def target_of(task: str, root: Path) -> float:
    """Where time is taken: a length, or what the median run of locked updates comes to, less one hundredth."""
    if task == "copy":
        return float(TARGET)
    rate = best_rate(task, ROWS[0], root)
    ends = [best(task, root / name_of(task, ROWS[0], rate, seed)) for seed in SEEDS]
    return statistics.median(ends) + (0.01 if task == "text" else -0.01)


def best(task: str, folder: Path) -> float:
    return max((point["value"] for point in points(task, folder)), key=lambda value: better(task, value))


def finished(task: str, row: Row, rate: float, root: Path) -> list[Path]:
    """The runs of a row at a rate, of the seeds that are reported, that have come to their end."""
    runs = [root / name_of(task, row, rate, seed) for seed in SEEDS]
    return [folder for folder in runs if (folder / folders.RESULT).exists()]


def table(task: str, root: Path) -> list[dict[str, Any]]:
    """One entry a row: the chosen rate, and for every seed what it took to the target and where it ended."""
    target, entries = target_of(task, root), []
    for row in rows(task):
        rate = best_rate(task, row, root)
        runs = finished(task, row, rate, root)
        there = [reached(task, folder, target) for folder in runs]
        entry: dict[str, Any] = {
            "task": task,
            "row": row.name,
            "target": target,
            "rate": rate,
            "rates": row.rates,
            "runs": len(runs),
        }
        for name in ("sequences", "moves", "minutes"):
            values = [point[name] if point else math.inf for point in there]
            entry[name] = [None if math.isinf(value) else round(value, 3) for value in values]
            middle = statistics.median(values) if values else math.inf
            entry[f"median_{name}"] = None if math.isinf(middle) else round(middle, 3)
        entry["best"] = [best(task, folder) for folder in runs]
        entry["tuning"] = {f"{one:g}": best(task, root / name_of(task, row, one, TUNING)) for one in row.rates}
        entries.append(entry)
    return entries


def markdown(entries: Sequence[dict[str, Any]]) -> str:
    """The table to read: medians of three seeds, every run behind them."""

    def shown(values: list[Any], digits: int) -> str:
        return ", ".join("-" if value is None else f"{value:,.{digits}f}" for value in values)

    task, target = entries[0]["task"], entries[0]["target"]
    words = {
        "copy": f"length {target:.0f}",
        "pixels": f"{target:.1%} on validation",
        "text": f"{target:.3f} bits per character on validation",
    }[task]
    last = {"copy": "longest length", "pixels": "best accuracy", "text": "best bits"}[task]
    counts = "sequences: median | moves of the lowest level: median"
    lines = [
        f"| {task}, to {words} | rate | minutes of CPU: median (runs) | {counts} | {last} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for entry in entries:
        minutes = shown([entry["median_minutes"]], 2) + f" ({shown(entry['minutes'], 2)})"
        final = shown(entry["best"], 0 if task == "copy" else 3)
        counts = [shown([entry["median_sequences"]], 0), shown([entry["median_moves"]], 0)]
        lines.append(f"| {entry['row']} | {entry['rate']:g} | {minutes} | {' | '.join(counts)} | {final} |")
    return "\n".join(lines) + "\n"


def draw(tasks: Sequence[str], root: Path, path: Path) -> None:
    """The median of a row's runs, and a band from the worst to the best of them; columns: sequences, updates, time."""
    axes_of = {"sequences": "sequences seen", "moves": "updates of the lowest level", "minutes": "minutes of one core"}
    names = {"copy": "copy: length solved (bits)", "pixels": "pixels: accuracy", "text": "text: bits per character"}
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(len(tasks), 3, figsize=(10, 3.0 * len(tasks) + 0.6), squeeze=False, layout="constrained")
        for task, line in zip(tasks, panels, strict=True):
            lines = {
                row: [points(task, folder) for folder in finished(task, row, best_rate(task, row, root), root)]
                for row in rows(task)
            }
            for panel, (name, words) in zip(line, axes_of.items(), strict=True):
                for row, runs in lines.items():
                    _row(panel, [drawn(task, found, name) for found in runs], style_of(ROWS.index(row)), steps=task == "copy")
                panel.set_xlabel(words)
                panel.set_xlim(left=0)
                panel.grid(True, linewidth=0.4, alpha=0.5)
                shorten_axis(panel)
            line[0].set_ylabel(names[task])
        handles = [Line2D([], [], **style_of(n), label=row.name) for n, row in enumerate(ROWS)]
        handles.append(Patch(color="0.5", alpha=0.3, linewidth=0, label="line: median of three seeds; band: all of them"))
        figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
        save(figure, [path.with_suffix(suffix) for suffix in (".png", ".svg")])


def drawn(task: str, found: Sequence[dict[str, float]], name: str) -> Line:
    """A run's points against an axis; of the copy task those where a length was solved, with the beginning and the end."""
    x, y = np.array([point[name] for point in found]), np.array([point["value"] for point in found])
    if task == "copy":
        steps = [0, *(np.flatnonzero(np.diff(y)) + 1), len(y) - 1]
        x, y = np.append(0.0, x[steps]), np.append(0.0, y[steps])
    return x, y


def _row(panel: Axes, lines: Sequence[Line], style: dict[str, Any], *, steps: bool) -> None:
    if not lines:
        return
    grid, values = aligned(lines, steps)
    panel.plot(grid, np.median(values, axis=0), drawstyle="steps-post" if steps else "default", **style)
    step: Any = "post" if steps else None
    panel.fill_between(grid, values.min(0), values.max(0), step=step, color=style["color"], alpha=0.13, linewidth=0)


def keep(root: Path) -> None:
    """Journals, configurations and results, without checkpoints, to the folder that is committed."""
    for result in root.glob("*/*/*/" + folders.RESULT):
        place = RESULTS / result.parent.relative_to(root)
        place.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copyfile(result.parent / name, place / name)
        entries = json.loads((place / folders.CONFIG).read_text())
        for name in ("data", "validation", "test"):  # the folder of whoever ran it says nothing to others
            value = entries["task"].get(name)
            if value:
                entries["task"][name] = [Path(one).name for one in value] if isinstance(value, list) else Path(value).name
        (place / folders.CONFIG).write_text(json.dumps(entries, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=METRICS)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder that holds mnist/ and ptb/")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="table and plot from the journals that are there, no runs")
    options = parser.parse_args()
    if not options.report:
        for task in options.tasks:
            tuning = [unit(task, row, rate, TUNING, options.data) for row in rows(task) for rate in row.rates]
            if run(WORK, tuning, processes(options.jobs)).interrupted:
                return
            reported = [unit(task, row, best_rate(task, row, WORK), seed, options.data) for row in rows(task) for seed in SEEDS]
            if run(WORK, reported, processes(options.jobs)).interrupted:
                return
        keep(WORK)
    entries = {task: table(task, RESULTS) for task in options.tasks}
    text = "\n".join(markdown(entries[task]) for task in options.tasks)
    (RESULTS / "table.md").write_text(text)
    (RESULTS / "table.json").write_text(
        json.dumps(
            {"environment": environment(1), "rows": [entry for task in options.tasks for entry in entries[task]]}, indent=1
        )
        + "\n"
    )
    draw(options.tasks, RESULTS, RESULTS / "curves.png")
    print(text)


if __name__ == "__main__":
    main()
