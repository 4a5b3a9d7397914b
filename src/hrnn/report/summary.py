"""What a run is and how far it came, from its folder alone. Nothing that its files say is trusted to be of the right kind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hrnn.errors import UserError
from hrnn.metrics import Metrics
from hrnn.telling import followed
from hrnn.training.entries import CONFIG, LOCK, is_locked, metrics_of, read_result, read_whole
from hrnn.training.journal import JOURNAL, Record, newest

LARGEST = 1e300
SAVED_MODEL = "model.safetensors"  # as hrnn.hub calls it


@dataclass(frozen=True)
class Summary:
    folder: Path
    task: str
    model: str
    state: str  # running, stopped or done
    updates: int = 0
    sequences: int = 0
    seconds: float = 0.0
    result: str = ""


@dataclass(frozen=True)
class Described:
    """What config.json says of a run, as far as tables and pictures show it."""

    task: str
    model: str
    sizes: tuple[int, ...]
    seed: int
    metrics: Metrics
    entries: dict[str, Any]

    @property
    def name(self) -> str:
        """The model in a word, with what a reader would ask next."""
        return f"{self.kind}, seed {self.seed}"

    @property
    def kind(self) -> str:
        return f"{self.model} {'/'.join(map(str, self.sizes))}"


def describe(folder: Path) -> Described:
    """A run as its config.json has it; one that describes none is a mistake of the user's, not of ours."""
    entries = read_whole(folder)
    try:
        task, model, upkeep = (dict(entries[section]) for section in ("task", "model", "upkeep"))
        sizes = tuple(int(size) for size in model["hidden_sizes"])
        described = Described(task["name"], model["model"], sizes, int(upkeep["seed"]), metrics_of(entries), entries)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"{type(error).__name__}: {str(error)[:100]}"
        raise UserError(f"{folder / CONFIG} does not describe a run ({why})") from None
    if not isinstance(described.task, str) or not isinstance(described.model, str):
        raise UserError(f"{folder / CONFIG} does not describe a run (a name is no text)")
    return described


def number(value: Any) -> float | None:
    """A number that can be shown and drawn, else None; not a number is below nothing."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST else None


def places(folder: Path) -> Iterator[tuple[Path, str]]:
    """The runs in a folder and below it, and folders that cannot be looked into with the reason; each once, links or not."""
    problems: list[OSError] = []
    seen = set()
    for root, below, files in os.walk(folder, onerror=problems.append):
        below.sort()
        linked = [name for name in below if os.path.islink(os.path.join(root, name))]  # os.walk does not go there
        for place in (Path(root), *(Path(root, name) for name in linked)):
            path = place / CONFIG
            if (place / SAVED_MODEL).exists():  # which hrnn.hub has saved: no run
                continue
            if CONFIG not in (*files, *below) if place == Path(root) else not os.path.lexists(path):
                continue
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield place, ""
    for problem in problems:
        yield Path(problem.filename), problem.strerror or str(problem)


def summarise(folder: Path) -> tuple[list[Summary], dict[Path, str]]:
    """Every run in a folder and below it, and why others were left out."""
    summaries, skipped = [], {}
    for place, problem in followed("reading", sorted(places(folder)), "runs"):
        try:
            if problem:
                raise UserError(problem)
            summaries.append(summary_of(place))
        except (UserError, OSError) as error:  # the second: it is being removed
            skipped[place] = str(error)
    return summaries, skipped


def summary_of(folder: Path) -> Summary:
    run, result = describe(folder), read_result(folder)
    state = "running" if is_locked(folder) else "done" if result else "stopped"
    last = newest(folder, "update").get("update", {})
    updates, sequences = (int(number(last.get(name)) or 0) for name in ("update", "sequences"))
    seconds, words = _seconds(folder, result, state), _result(folder, run.metrics, result, last)
    return Summary(folder, run.task, run.model, state, updates, sequences, seconds, words)


def _seconds(folder: Path, result: Record | None, state: str) -> float:
    """Time spent, tests and validations and all; of a run at work, up to now."""
    if result is not None:
        return number(result.get("seconds")) or 0.0
    records = newest(folder, "update", "validation", "test", within=1 << 20)
    spent = max((number(record.get("seconds")) or 0.0 for record in records.values()), default=0.0)
    if state == "running":  # its last record, or its start if that is later, was so long ago
        times = [(folder / name).stat().st_mtime for name in (JOURNAL, LOCK) if (folder / name).exists()]
        spent += max(0.0, time.time() - max(times))
    return spent


def _result(folder: Path, metrics: Metrics, result: Record | None, last: Record) -> str:
    """The number one would ask for first: progress, test, else the last validation, else the last update."""
    if (progress := metrics.progress) is not None:
        reached = (result or {}).get(progress.in_result, last.get(progress.name))
        if number(reached):
            return progress.reached(reached, result is None or bool(result.get("at_least")))
    records = {**newest(folder, "test", "validation"), "update": last}
    for kind in ("test", "validation", "update"):
        for metric in metrics.task or (metrics.score,):
            if (value := number(records.get(kind, {}).get(metric.name))) is not None:
                return f"{'training' if kind == 'update' else kind} {metric.text(value)} {metric.label}"
    return ""
