"""hrnn train and hrnn resume: begin a run, continue it."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

import hrnn.training.folder as folders
from hrnn.commands.options import parse, require_folder
from hrnn.errors import DONE, EXPECTED, DivergedError, UserError, failure_code, stop_code
from hrnn.limits import above, at_least, option
from hrnn.metrics import Metrics
from hrnn.parallel import LONGEST, TIMEOUT, Group, join
from hrnn.tasks import TASKS, Task, name_of, task_named
from hrnn.training.config import SUGGESTED, Budget, Config, Learning, Model, Runtime, TaskT
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
class Train(Generic[TaskT]):
    task: TaskT
    place: Place = field(default_factory=Place)
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    upkeep: Runtime = field(default_factory=Runtime)


ADVICE = "Try a lower --learning-rate, --clip 1 or --warmup 100"
USAGE = """\
usage: hrnn train TASK [OPTIONS], or hrnn train --task module:Name [OPTIONS] for a task of your own

tasks:
{tasks}

hrnn train TASK --help lists the options."""


def main(arguments: Sequence[str]) -> int:
    name, rest = task_and_rest(list(arguments))
    if name is None:
        first_lines = {name: (task.__doc__ or "").splitlines()[0] for name, task in TASKS.items()}
        print(USAGE.format(tasks="\n".join(f"  {name:8}{line}" for name, line in first_lines.items())))
        return DONE
    kind = task_named(name)
    command = f"train {name}" if name in TASKS else f"train --task {name}"
    options: Train[Any] = parse(_train_type(kind), command, rest, help_text(kind))
    config = Config(options.task, options.model, options.learning, options.budget, options.upkeep)
    short = name_of(options.task).rpartition(":")[2].lower()
    folder = options.place.run or Path("runs") / f"{short}-{config.model.model}-{config.upkeep.seed}"
    place = options.place
    require_folder(folder, "--run")

    def work(group: Group) -> Outcome:
        display = suitable_display() if group.first else None
        return start(config, folder, overwrite=place.overwrite, group=group, minutes=place.minutes, display=display)

    return run_and_report(folder, place.json, place.timeout, work)


def task_and_rest(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The name of the task, first or after --task anywhere, and the other arguments."""
    for place, argument in enumerate(arguments):
        if argument == "--task":
            if place + 1 == len(arguments):
                raise UserError("--task needs a name: --task module:Name")
            return arguments[place + 1], arguments[:place] + arguments[place + 2 :]
        if argument.startswith("--task="):
            return argument.removeprefix("--task="), arguments[:place] + arguments[place + 1 :]
    if not arguments:
        raise UserError(f"which task? There are {', '.join(TASKS)}, and your own as --task module:Name")
    if arguments[0] in ("-h", "--help"):
        return None, []
    return arguments[0], arguments[1:]


def help_text(kind: type[Task]) -> str:
    """The task's docstring with its examples, and what it takes for options of the run that are not given."""
    suggested = {**SUGGESTED, **kind.suggested}
    values = {name: " ".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in suggested.items()}
    taken = " ".join(f"--{name.replace('_', '-')} {value}".rstrip() for name, value in values.items())
    return f"{inspect.cleandoc(kind.__doc__ or '')}\n\nWhat this task takes where not given: {taken}"


def _train_type(kind: type[Task]) -> type[Train[Any]]:
    """The options of a run of this task; its docstring heads the help text."""
    found: type[Train[Any]] = Train[kind]  # type: ignore[valid-type]
    return found


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
        reached, at_least = result[progress.in_result], "at least " if result.get("at_least") else ""
        parts.append(f"{progress.label} {at_least}{progress.text(reached)}" if reached or not progress.none else progress.none)
    for part in ("validation", "test"):
        numbers = {name: value for name, value in result.get(part, {}).items() if isinstance(value, float)}
        parts += [f"{part} {name} {metrics.named(name).text(value)}" for name, value in numbers.items()]
    return "; ".join([*parts, f"ended by: {result['reason']}"])
