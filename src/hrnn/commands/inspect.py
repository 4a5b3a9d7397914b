"""hrnn inspect: what data of one's own hold, what a run on them would be, and the command that begins it."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hrnn import room
from hrnn.commands.options import parse
from hrnn.commands.task import with_names
from hrnn.data import describe
from hrnn.errors import DONE
from hrnn.limits import in_bytes
from hrnn.tasks import Series
from hrnn.tasks.series.choices import needed
from hrnn.telling import working
from hrnn.training.config import Config, resolved
from hrnn.training.network import reading


@dataclass(frozen=True)
class Inspect:
    """Look at data of your own: lengths, channels, gaps, missing values, targets; and what hrnn train series makes of them.

    Options are those of hrnn train series. With --memory, what is proposed fits so many bytes.

    Examples:
        hrnn inspect sensors.csv
        hrnn inspect recordings --memory 500MB
    """

    task: Series = field(default_factory=Series)
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    rest = with_names(Series, list(arguments))
    options = parse(Inspect, "inspect", rest)
    task = options.task
    task.check()
    with tempfile.TemporaryDirectory(prefix="hrnn-", ignore_cleanup_errors=True) as folder:
        task = task if task.cache else replace(task, cache=Path(folder))
        sequences = task.opened.sequences
        with working("describing the data"):
            about = describe(sequences)
        if not options.json:
            print("\n".join(about.lines()), flush=True)
        with working("choosing what suits them"):
            proposal = proposed(task, [word for word in rest if word != "--json"])
    if options.json:
        print(json.dumps({**asdict(about), "proposal": proposal}))
        return DONE
    for name, value in proposal.items():
        print(f"{name.replace('_', ' ')}: {value if isinstance(value, str) else _words(name, value)}")
    return DONE


def proposed(task: Series, rest: Sequence[str]) -> dict[str, Any]:
    """What a run would be. rest: what the user wrote."""
    config = resolved(Config(task))
    task, sizes = config.task, config.hidden_sizes
    options: dict[str, Any] = {
        "hidden_sizes": sizes, "periods": config.periods, "window": config.window, "batch": config.batch,
        "epochs": config.budget.epochs,
    }  # fmt: skip
    if task.patch and task.patch > 1 and "--patch" not in rest:
        options["patch"] = task.patch
    command = ["hrnn", "train", "series", *(rest[1:] if rest[:1] == ["--data"] else rest)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    found: dict[str, Any] = {
        "parts": {name: len(spans) for name, spans in task.opened.parts.items()},
        "learns": task.purpose,
        **options,
        "predicted_bytes": needed(task.shape, sizes, config.periods, config.window, config.batch),
    }
    if task.memory is not None:
        found["memory"] = in_bytes(task.memory)
    warnings = list(task.warnings(reading(config)))
    return {**found, **({"warnings": warnings} if warnings else {}), "command": shlex.join(command)}


def _words(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count:,}" for key, count in value.items())
    if name in ("predicted_bytes", "memory"):
        return room.in_words(value)
    return "; ".join(value) if name == "warnings" else " ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"
