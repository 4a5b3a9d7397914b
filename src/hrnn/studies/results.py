"""The results of an experiment in a folder: one JSON and one journal per run, from which tables and pictures are made.

FOLDER/runs/ROW/seed-N.json, .jsonl    what was found, with configuration, memory, date, versions and hardware
FOLDER/work/ROW/seed-N/                the run itself with its checkpoints; no longer needed when the run is over
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import torch

import hrnn
from hrnn.errors import UserError
from hrnn.files import make_folder, write_atomically
from hrnn.formats import check_format, numbered
from hrnn.launching.units import Unit
from hrnn.training.config import Config, to_json
from hrnn.training.entries import in_words
from hrnn.training.folder import read_result
from hrnn.training.journal import JOURNAL

SOURCE = Path(hrnn.__file__).parent
RUNS, WORK, SEARCH = "runs", "work", "search"
PLACES = ("task.data", "task.validation", "task.test", "task.download", "task.mirror")  # where data are, not which
# Options that some of the results that are there have. The first changed last bits only; with the second, levels of text moved
# after rounds of so many steps, as they did up to 0.2.0.
GONE = ("model.segments_at_once", "model.round_steps")


@dataclass(frozen=True)
class RunResult:
    """A finished run as its JSON has it, and its journal."""

    entries: dict[str, Any]
    records: Sequence[dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        return dict(self.entries["result"] or {})

    @property
    def failure(self) -> str | None:
        """Why there is no result; such a run is tried again, or goes on."""
        failure: str | None = self.entries["failure"]
        return failure

    @property
    def unfinished(self) -> bool:
        """Was it stopped on its way? Then that is the "failure"."""
        return bool(self.entries.get("unfinished"))

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.entries)


def path_of(folder: Path, name: str) -> Path:
    return folder / RUNS / f"{name}.json"


def read(folder: Path, unit: Unit, setting: dict[str, Any]) -> RunResult | None:
    """The result of a unit, if it is there; one of another recipe is refused.

    setting: what the run belongs to (experiment, profile, scale).
    """
    found, path = stored(folder, unit.name), path_of(folder, unit.name)
    if found is None:
        return None
    try:
        there = {**found.entries["setting"], **found.entries["config"]}
        difference = in_words(there, {**setting, **to_json(unit.config)}, ignored=(*PLACES, *GONE))
    except (KeyError, TypeError) as error:
        raise _unreadable(path, error) from None
    if difference:
        raise UserError(f"{path} is of another recipe ({difference}); give another --folder")
    return found


def stored(folder: Path, name: str) -> RunResult | None:
    """The result of a unit, if it is there, of whatever recipe."""
    path = path_of(folder, name)
    try:
        entries = entries_of(path)
        lines = path.with_suffix(".jsonl").read_bytes().splitlines()
        return RunResult(entries, [json.loads(line) for line in lines])
    except UserError:
        raise
    except FileNotFoundError as error:
        if Path(error.filename) == path:
            return None
        raise UserError(f"{path} is there without its journal {path.with_suffix('.jsonl').name}; remove it") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def entries_of(path: Path) -> dict[str, Any]:
    """The JSON of a run; which version of hrnn wrote it is information only."""
    try:
        entries = dict(json.loads(path.read_text()))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from None
    return check_format("study", entries, path)


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read ({type(error).__name__}: {error}); remove it, or give another --folder")


def cpu_seconds(entries: dict[str, Any]) -> float:
    """In which a core worked for the run, as far as it is known."""
    return float((entries["result"] or entries.get("unfinished") or {}).get("cpu_seconds", 0.0))


def export(
    folder: Path,
    unit: Unit,
    setting: dict[str, Any],
    memory: dict[str, Any],
    failure: str | None = None,
    unfinished: dict[str, Any] | None = None,
) -> None:
    """Write down what a run found, or why it failed; its JSON comes last and says that all is there.

    unfinished: the last record of one that was stopped on its way
    """
    work, path = folder / WORK / unit.name, path_of(folder, unit.name)
    make_folder(folder)
    make_folder(path.parent, folder)
    journal = work / JOURNAL
    lines = journal.read_bytes() if journal.exists() else b""
    write_atomically(path.with_suffix(".jsonl"), lines[: lines.rfind(b"\n") + 1], folder)  # a last line may be half written
    entries = {
        "hrnn": hrnn.__version__,
        "setting": setting,
        "result": None if failure else read_result(work),
        "failure": failure,
        **({"unfinished": unfinished} if unfinished else {}),
        "memory": memory,
        "environment": environment(),
        "config": without_places(unit.config),
    }
    write_atomically(path, json.dumps(numbered("study", entries), indent=1).encode() + b"\n", folder)


def without_places(config: Config[Any]) -> dict[str, Any]:
    """The configuration as JSON, its data by name only: where they are differs from machine to machine."""
    entries = to_json(config)
    for name in (place.removeprefix("task.") for place in PLACES):
        value = entries["task"].get(name)
        if isinstance(value, str):
            entries["task"][name] = Path(value).name
        elif isinstance(value, list):
            entries["task"][name] = [Path(one).name for one in value]
    return entries


def environment() -> dict[str, Any]:
    """When, with what and on what."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def commit() -> str | None:
    """Which state of the source is running, with -dirty behind it where files were changed; None if it is no checkout."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy may lie in a checkout of something else
        return git("describe", "--always", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


def summed(folder: Path) -> dict[str, Any]:
    """What all runs of a folder took together, with which versions (not this one), and where."""
    runs = [entries_of(path) for path in sorted((folder / RUNS).rglob("*.json"))]
    where = sorted({json.dumps({**run["environment"], "hrnn": str(run["hrnn"])}, sort_keys=True) for run in runs})
    return {
        "hrnn": " and ".join(sorted({str(one["hrnn"]) for one in runs})),
        "runs": len(runs),
        "minutes": round(sum(map(cpu_seconds, runs)) / 60, 1),
        "environments": [json.loads(one) for one in where],
    }


def processor() -> str:
    """Its name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def refuse_strangers(folder: Path, expected: Sequence[str]) -> None:
    """Results that belong to none of these runs would go unnoticed; a search has a folder of its own."""
    for path in sorted((folder / RUNS).rglob("*.json")):
        name = str(path.relative_to(folder / RUNS).with_suffix(""))
        if name not in expected and not name.startswith(f"{SEARCH}/"):
            raise UserError(f"{path} belongs to no row of this experiment; give another --folder")
