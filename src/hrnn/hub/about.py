"""What may be said of a run to everybody: its options, data, scores and command, without a path of the machine."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from hrnn.data import Preprocessing
from hrnn.errors import UserError
from hrnn.formats import numbered
from hrnn.hierarchy import HRNN
from hrnn.limits import built
from hrnn.memory import exact_count, paper_count
from hrnn.tasks import Series, Task, name_of
from hrnn.training.command import command_of
from hrnn.training.config import PARTS, Config
from hrnn.training.edges import PER_LEVEL
from hrnn.training.network import unrolled
from hrnn.training.trained import Trained

OF_THE_MACHINE = ("tensorboard", "checkpoint_seconds", "checkpoints", "journal_every", "threads", "tracker", "cache")


def public(trained: Trained, result: dict[str, Any] | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    """As JSON holds it. result: what the run found, None where it is not finished; notes: on its data, in words"""
    config = trained.config
    metrics = config.task.measured
    named = {name for part in ("validation", "test") for name in (result or {}).get(part) or {}} - {"update"}
    data = trained.identity.data
    return {
        "update": trained.update,
        "task": {"name": name_of(config.task), **options(config.task)},
        **{part: options(getattr(config, part)) for part in PARTS},
        "command": command(config),
        "data": [{"file": Path(path).name, **{name: file[name] for name in ("size", "sha256")}} for path, file in data.items()],
        "notes": list(notes),
        "found": [field.name for field in dataclasses.fields(config.task) if field.metadata.get("hidden")],
        "what": _first_sentence(config.task),
        "metrics": {name: {"label": (of := metrics.named(name)).axis, "digits": of.digits} for name in sorted(named)},
        "result": result,
        "reached": _reached(config, result),
        "memory": memory(config),
    }


def series_of(run: dict[str, Any] | None, model: HRNN, head: nn.Module | None) -> Series | None:
    """Of a folder's run on series its task, with the preprocessing that values go through, checked; None of other folders."""
    if run is None or not isinstance(task := run.get("task"), dict) or task.get("name") != "series":
        return None
    if lacking := [field.name for field in dataclasses.fields(Series) if field.init and field.name not in task]:
        raise UserError(f"the task lacks {lacking[0]}")  # which would be today's default
    pre = task["preprocessing"]
    Preprocessing.from_json(numbered("preprocessing", pre) if isinstance(pre, dict) else pre)
    series = built(Series, {name: value for name, value in task.items() if name != "name"}, "the task")
    series.check()
    changed = len(series.learned.numeric) if series.asked.target == "next" and not series.learned.tokens else 0
    fits = isinstance(head, nn.Linear) and series.outputs == head.out_features and head.in_features == model.output_size
    if not fits or series.inputs != model.inputs or len(series.changed) != changed:
        raise UserError("the task's preprocessing is not that of the model and its head")
    return series


def without_scores_of_others(run: dict[str, Any]) -> dict[str, Any]:
    """The same, for weights that were chosen by hand: scores are kept if it was these that had them, the best on validation, or
    the last. `scored`: the update of those that did."""
    result = run["result"]
    if result is None:
        return run
    scored = (result.get("validation") or {}).get("update", result.get("updates"))
    if scored == run["update"]:
        return run
    kept = {name: value for name, value in result.items() if name not in ("validation", "test")}
    return {**run, "result": kept, "scored": scored, "reached": ""}


def _first_sentence(task: Task) -> str:
    """What the task is, as its class says it; of one whose data decide, what these decided."""
    if isinstance(task, Series):
        return f"learned: {task.purpose}"
    return re.split(r"\.\s", inspect.getdoc(type(task)) or "", maxsplit=1)[0].rstrip(".")


def _reached(config: Config[Any], result: dict[str, Any] | None) -> str:
    """How far a curriculum came, in words."""
    progress = config.task.measured.progress
    if result is None or progress is None or progress.in_result not in result:
        return ""
    return str(progress.reached(result[progress.in_result], bool(result.get("at_least"))))


def options(part: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(part, field.name)) for field in dataclasses.fields(part) if field.init}


def _plain(value: Any) -> Any:
    """Of a path only its name; of what a task has learned of its data, all."""
    if isinstance(value, Path):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def command(config: Config[Any]) -> str:
    """What to type to train the same again: every option that is not what it is by default, files by their names."""
    parts = {"task": config.task, **{part: getattr(config, part) for part in PARTS}}
    entries = {name: options(part) for name, part in parts.items()}
    default = {name: {field.name: _plain(field.default) for field in dataclasses.fields(part)} for name, part in parts.items()}
    entries["task"] = {"name": name_of(config.task), **entries["task"]}
    hidden = [field.name for field in dataclasses.fields(config.task) if field.metadata.get("hidden")]

    def said(section: str, option: str, value: Any) -> bool:
        usual = default[section][option]
        return value != [] and value != usual and not (option in PER_LEVEL and usual and value == usual * len(value))

    segments = [] if any(count > 1 for count in config.model.segments or ()) else ["segments"]
    return command_of(entries, without=[*OF_THE_MACHINE, *hidden, *segments], said=said)


def memory(config: Config[Any]) -> dict[str, float] | None:
    """Vectors of hidden-state size that learning one window keeps for a row; None where only the data can tell."""
    if config.reaches:
        return None
    window = unrolled(config)
    if not config.model.restricted:
        return {"window": window, "kept": window}
    exact = exact_count(config.hidden_sizes, config.periods, window)
    return {"window": window, "kept": paper_count(config.periods, window), "kept_exactly": round(exact, 1)}
