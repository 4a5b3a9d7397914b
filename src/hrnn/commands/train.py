"""hrnn train and hrnn resume: begin a run, continue it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

import hrnn.training.folder as folders
from hrnn.commands.options import parse, require_folder
from hrnn.commands.task import full_command, help_text, task_and_rest, usage, with_names
from hrnn.errors import DONE, EXPECTED, DivergedError, failure_code, stop_code
from hrnn.limits import above, at_least, option
from hrnn.metrics import Metrics
from hrnn.parallel import LONGEST, TIMEOUT, Group, join
from hrnn.tasks import name_of, task_named
from hrnn.training import literal
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, TaskT
from hrnn.training.display import suitable_display
from hrnn.training.loop import Outcome, start


@dataclass(frozen=True)
class Place:
    """Where the run goes, and for how long now."""

    run: Path | None = None
    """Folder of the run; runs/TASK-MODEL-SEED by default."""
    overwrite: bool = False
    """Replace a run that is in that folder."""
    minutes: float | None = option(None, at_least(0))
    """Stop after so long, to be continued with hrnn resume."""
    timeout: float = option(TIMEOUT, above(0, LONGEST))
    """Under torchrun: seconds that a process waits for the others before it gives up."""
    json: bool = False
    """Print the result as JSON."""


@dataclass(frozen=True)
class Preset:
    """Other defaults."""

    literal: bool = False
    """Take the paper's setting where nothing else is given: --betas 0.1 --indices sampled --no-normalized --update batch
    --clip None --average None, and the task's sizes, rates and lengths there."""


@dataclass(frozen=True)
class Train(Generic[TaskT]):
    task: TaskT
    place: Place = field(default_factory=Place)
    preset: Preset = field(default_factory=Preset)
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    runtime: Runtime = field(default_factory=Runtime)

    @property
    def config(self) -> Config[TaskT]:
        config = Config(self.task, self.model, self.learning, self.budget, self.runtime)
        return literal.as_published(config) if self.preset.literal else config


@dataclass(frozen=True)
class LiteralTrain(Train[TaskT]):
    """The same options with the paper's setting for defaults."""

    model: Model = literal.MODEL
    learning: Learning = literal.LEARNING


ADVICE = "Try a lower --learning-rate, a lower --clip or --warmup 100"


def main(arguments: Sequence[str]) -> int:
    name, rest = task_and_rest(arguments)
    if name is None:
        print(usage("train"))
        return DONE
    kind = task_named(name)
    rest = with_names(kind, rest)
    train_type: type[Train[Any]] = Train[kind]  # type: ignore[valid-type]
    options = parse(train_type, full_command("train", name), rest, help_text(kind))
    if options.preset.literal:
        literal_type: type[Train[Any]] = LiteralTrain[kind]  # type: ignore[valid-type]
        options = parse(literal_type, full_command("train", name), rest, help_text(kind))
    config = options.config
    place, short = options.place, name_of(options.task).rpartition(":")[2].lower()
    folder = place.run or Path("runs") / f"{short}-{config.model.model}-{config.upkeep.seed}"
    require_folder(folder, "--run")

    def work(group: Group) -> Outcome:
        display = suitable_display() if group.first else None
        return start(config, folder, overwrite=place.overwrite, group=group, minutes=place.minutes, display=display)

    return run_and_report(folder, place.json, place.timeout, work)


def run_and_report(folder: Path, as_json: bool, timeout: float, work: Callable[[Group], Outcome]) -> int:
    """Do the work, with the processes that torchrun started if it did, and say how it ended; returns the exit code."""
    with join(timeout) as group:
        try:
            outcome = work(group)
        except EXPECTED as error:
            if isinstance(error, DivergedError):
                error = DivergedError(f"{error}; the last good checkpoint is in {folder}. {ADVICE}")
            if group.size == 1:
                raise error from None
            if group.fails_first():
                print(f"hrnn: {error}", file=sys.stderr, flush=True)
            # Leave at once: the others are not waited for, they notice.
            raise SystemExit(failure_code(error)) from None
    if not group.first:
        return stop_code(outcome.stopped)
    if outcome.stopped:
        print(f"stopped ({outcome.stopped}); continue with: {folders.resume_command(folder)}", file=sys.stderr)
        if as_json:
            print(json.dumps({"run": str(folder), "stopped": outcome.stopped}))
        return stop_code(outcome.stopped)
    result = outcome.result or {}
    if as_json:
        print(json.dumps({"run": str(folder), **result}))
    else:
        print(f"{folder}: {describe(result, folders.read_run(folder).metrics)}")
    return DONE


def describe(result: dict[str, Any], metrics: Metrics) -> str:
    """A result in words."""
    parts = [f"{result['updates']} updates, {result['sequences']} sequences, {result['seconds']:.0f} s"]
    if (progress := metrics.progress) is not None and progress.in_result in result:
        parts.append(progress.reached(result[progress.in_result], bool(result.get("at_least"))))
    for part in ("validation", "test"):
        numbers = {name: value for name, value in result.get(part, {}).items() if isinstance(value, float)}
        parts += [f"{part} {name} {metrics.named(name).text(value)}" for name, value in numbers.items()]
    return "; ".join([*parts, f"ended by: {result['reason']}"])
