"""The study of unlocked updates, where each level moves as soon as its segment is differentiated, against locked ones.

Three tasks, each in rows of one method and way of decoding. Every row gets the best of its own learning rates, chosen with a
seed that is not reported; then the seeds that are. What counts is the time to a target that all rows of a task share.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import hrnn.studies.results as results
from hrnn.errors import UserError
from hrnn.launching.units import Ending, Engine, Unit
from hrnn.memory import paper_count
from hrnn.metrics import Metric, Metrics
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.plan import Request, run_missing
from hrnn.studies.recipes import BUDGET, COPY, LEARNING, MODEL, PIXELS, TEXT, Profile, complete
from hrnn.training.config import Config

TUNING_SEED = 100
LENGTH = 30  # the target of the copy task
Point = dict[str, float]  # sequences, moves (of the lowest level), minutes (of CPU), value

TASKS: dict[str, Config[Any]] = {
    "copy": Config(
        replace(COPY, start=5, step=5, until=LENGTH),
        replace(MODEL, hidden_sizes=(64, 64), periods=(5,), window=60, betas=(1.0,)),
        replace(LEARNING, batch=50),
        replace(BUDGET, sequences=200_000),
    ),
    "pixels": Config(  # 7 x 7, one segment per row of the image
        replace(PIXELS, pool=4),
        replace(MODEL, hidden_sizes=(64, 64), periods=(7,), window=49, betas=(0.1,)),
        replace(LEARNING, batch=100),
        replace(BUDGET, sequences=55_000, validate_every=110),
    ),
    "text": Config(
        replace(TEXT, boundaries=()),
        replace(MODEL, hidden_sizes=(64, 128), periods=(10,), window=500, betas=(0.1,)),
        replace(LEARNING, batch=50),
        replace(BUDGET, sequences=8_000, validate_every=20),
    ),
}


@dataclass(frozen=True)
class Method:
    """A line of the table of every task."""

    title: str
    rates: tuple[float, ...]
    model: Literal["ours", "mr-hrnn"] = "ours"
    update: Literal["batch", "window", "segment"] = "batch"
    indices: Literal["all", "sampled"] = "all"
    small: bool = False  # half the batch

    @property
    def name(self) -> str:
        return self.title.replace(", ", "-").replace(" ", "-")


LOCKED_RATES, UNLOCKED_RATES = (1e-3, 2e-3, 4e-3, 8e-3), (3e-4, 1e-3, 3e-3)
METHODS = (
    Method("locked", LOCKED_RATES),
    Method("unlocked", UNLOCKED_RATES, update="segment"),
    Method("locked, small batch", LOCKED_RATES[:3], small=True),
    Method("locked, sampled", LOCKED_RATES[2:], indices="sampled"),
    Method("unlocked, sampled", UNLOCKED_RATES[1:], update="segment", indices="sampled"),
    Method("mr-hrnn, each window", LOCKED_RATES, model="mr-hrnn", update="window"),
)


def recipe(task: str, method: Method, profile: Profile) -> Config[Any]:
    base = TASKS[task]
    batch, budget = base.batch, base.budget
    if task == "text" and method.model == "mr-hrnn":  # as many characters, in windows of 110
        budget = replace(budget, sequences=36_363, validate_every=90)
    if method.small:
        validate = None if budget.validate_every is None else 2 * budget.validate_every
        batch, budget = batch // 2, replace(budget, validate_every=validate)
    model = replace(base.model, model=method.model, indices=method.indices)
    return Config(base.task, model, replace(base.learning, batch=batch, update=method.update), budget)


# Long windows of text are for the question whether one update per window is enough; the rest is asked of the others.
ASKED = [
    (task, method) for task in TASKS for method in METHODS if task != "text" or (method.indices == "all" and not method.small)
]
RATES = {f"{task}/{method.name}": method.rates for task, method in ASKED}
UNLOCKED = Experiment(
    "unlocked",
    "Unlocked updates: time to a target, on three tasks",
    tuple(Row(f"{task}/{method.name}", method.title, partial(recipe, task, method)) for task, method in ASKED),
    data=("mnist", "ptb"),
    profiles=("desk",),
    with_memory=False,
)


def rows_of(task: str) -> list[Row]:
    return [row for row in UNLOCKED.rows if row.name.startswith(f"{task}/")]


def reproduce(request: Request, engine: Engine) -> tuple[Request, Ending]:
    """Run whatever is missing: every learning rate with the seed for tuning, then the best with the others."""
    if TUNING_SEED in request.seeds:
        raise UserError(f"learning rates are chosen on seed {TUNING_SEED}; report others than that: --seeds 0 1 2")
    tasks = {row.name.partition("/")[0] for row in request.rows}  # the target is that of locked updates
    rows = [row for row in UNLOCKED.rows if row in request.rows or row.name in {f"{task}/locked" for task in tasks}]
    tuning = [unit(request, row, rate, TUNING_SEED) for row in rows for rate in RATES[row.name]]
    first = run_missing(request, tuning, engine)
    if first.interrupted:
        return request, first
    rates = {row.name: best_rate(request.folder, row) for row in rows}
    reported = [unit(request, row, rates[row.name], seed) for row in rows for seed in request.seeds]
    second = run_missing(request, reported, engine)
    return request, Ending({**first.failures, **second.failures}, second.interrupted, second.code)


def name_of(row: Row, rate: float, seed: int) -> str:
    return f"{row.name}/rate-{rate:g}-seed-{seed}"


def unit(request: Request, row: Row, rate: float, seed: int) -> Unit:
    config = row.recipe(request.profile)
    config = replace(config, learning=replace(config.learning, learning_rate=rate))
    every = 20 * TASKS[row.name.partition("/")[0]].batch // config.batch  # sequences of 20 full batches
    return Unit(name_of(row, rate, seed), complete(config, seed, request.data, request.scale, every))


def judged_by(task: str) -> Metric:
    metrics: Metrics = TASKS[task].task.measured
    return metrics.judged_by


def points(folder: Path, name: str) -> list[Point]:
    """A run as points; none of one that failed or was not run."""
    stored = results.stored(folder, name)
    if stored is None or stored.failure:
        return []
    task = name.partition("/")[0]
    by_progress, entry = TASKS[task].task.judged_by_progress, judged_by(task).name
    model = stored.entries["config"]["model"]
    shorter = task == "text" and model["model"] == "mr-hrnn"  # its sequences have fewer characters
    share = paper_count(model["periods"], model["window"]) / model["window"] if shorter else 1.0
    made: list[Point] = []
    moves = 0
    for record in stored.records:
        if record["kind"] == "update":
            moves = record["moves"][0] if "moves" in record else record["update"]
        if record["kind"] == ("update" if by_progress else "validation"):
            place = {"sequences": record["sequences"] * share, "minutes": record["cpu_seconds"] / 60, "moves": moves}
            made.append({**place, "value": float(record[entry])})
        elif by_progress and record["kind"] == "length" and record["outcome"] == "solved":
            made.append({**made[-1], "value": float(record["length"])})
    return made


def reached(task: str, line: Sequence[Point], target: float) -> Point | None:
    """The first point of a run at the target."""
    better = judged_by(task).better
    return next((point for point in line if not better(target, point["value"])), None)


def best(task: str, line: Sequence[Point]) -> float:
    values = [point["value"] for point in line]
    return max(values) if judged_by(task).higher_is_better else min(values)


def best_rate(folder: Path, row: Row) -> float:
    """Copy by the time to the target, else by how far a run came, then how soon."""
    task = row.name.partition("/")[0]
    sign = 1 if judged_by(task).higher_is_better else -1

    def rank(rate: float) -> tuple[float, ...]:
        line = points(folder, name_of(row, rate, TUNING_SEED))
        if not line:
            return (-math.inf,)
        farthest = best(task, line)
        at, soon = reached(task, line, LENGTH) if task == "copy" else None, reached(task, line, farthest)
        return (-at["minutes"] if at else -math.inf, sign * farthest, -soon["minutes"] if soon else -math.inf)

    return max(RATES[row.name], key=rank)


def finished(folder: Path, row: Row, rate: float) -> list[list[Point]]:
    """The runs of a row at a rate that have come to their end, of all seeds but that for tuning."""
    there = [path.stem for path in (folder / results.RUNS / row.name).glob(f"rate-{rate:g}-seed-*.json")]
    seeds = sorted(int(match[1]) for stem in there if (match := re.search(r"-seed-(\d+)$", stem)))
    lines = [points(folder, name_of(row, rate, seed)) for seed in seeds if seed != TUNING_SEED]
    return [line for line in lines if line]


def target_of(task: str, folder: Path) -> float | None:
    """Where time is taken: a length, or what the median run of locked updates comes to, less one hundredth."""
    if task == "copy":
        return float(LENGTH)
    row = UNLOCKED.row(f"{task}/locked")
    ends = [best(task, line) for line in finished(folder, row, best_rate(folder, row))]
    margin = -0.01 if judged_by(task).higher_is_better else 0.01
    return statistics.median(ends) + margin if ends else None


def entries_of(task: str, folder: Path) -> list[dict[str, Any]]:
    """One entry per row: the chosen rate, and for every seed what it took to the target and where it ended."""
    target, entries = target_of(task, folder), []
    for row in rows_of(task) if target is not None else ():
        rate, rates = best_rate(folder, row), RATES[row.name]
        lines = finished(folder, row, rate)
        if not lines:
            continue
        there = [reached(task, line, target or 0.0) for line in lines]
        entry: dict[str, Any] = {"task": task, "row": row.title, "target": target, "rate": rate, "rates": list(rates)}
        entry["runs"] = len(lines)
        for name in ("sequences", "moves", "minutes"):
            values = [point[name] if point else math.inf for point in there]
            entry[name] = [_finite(value) for value in values]
            entry[f"median_{name}"] = _finite(statistics.median(values))
        entry["best"] = [best(task, line) for line in lines]
        tuned = {rate: points(folder, name_of(row, rate, TUNING_SEED)) for rate in rates}
        entry["tuning"] = {f"{rate:g}": best(task, line) if line else None for rate, line in tuned.items()}
        entries.append(entry)
    return entries


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 3)
