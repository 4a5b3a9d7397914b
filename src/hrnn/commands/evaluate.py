"""hrnn evaluate: score a run's weights on data that they did not learn from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from hrnn.commands.options import parse
from hrnn.errors import DONE, UserError
from hrnn.limits import at_least, option
from hrnn.tasks import Copy, Task
from hrnn.training.config import reading
from hrnn.training.evaluation import evaluate
from hrnn.training.network import unrolled
from hrnn.training.sizes import require_room
from hrnn.training.trained import Trained, load


@dataclass(frozen=True)
class Evaluate:
    """Score a run on its test or validation part, or on other data."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    part: Literal["test", "validation"] = "test"
    """Which part of the task's data."""
    checkpoint: str = "best"
    """best (on validation), last, or the number of an update."""
    data: Path | None = None
    """Another text file (text) or folder of idx files (pixels) to test on."""
    length: int | None = option(None, at_least(1))
    """Bits to remember (copy); by default the longest length that the run solved."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Evaluate, "evaluate", arguments)
    trained = load(options.run, options.checkpoint)
    task = _task(trained, options)
    if options.part not in task.parts():
        raise UserError(f"the task of {options.run} has no part {options.part!r}")
    require_room(replace(trained.config, task=task), learning=False)
    report = evaluate(trained.network, task, task.evaluation(options.part, reading(trained.config, unrolled(trained.config))))
    if options.json:
        print(json.dumps({"run": str(options.run), "update": trained.update, "part": options.part, **report}))
    else:
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in report.items())
        print(f"{options.run}, update {trained.update}, {options.part}: {numbers}")
    return DONE


def _task(trained: Trained, options: Evaluate) -> Task:
    task: Any = trained.config.task
    if options.data is not None:
        if options.part != "test":
            raise UserError(f"--data replaces the test part and --part is {options.part}; give one of the two")
        task = task.elsewhere(options.data)
    if options.length is not None and not isinstance(task, Copy):
        raise UserError("--length is for runs on the copy task")
    if isinstance(task, Copy):
        longest = trained.facts["course"]["longest"]
        length = options.length or task.length or longest
        if not length:
            raise UserError(f"{options.run} has solved no length; give --length")
        task = replace(task, length=length, start=Copy.start, step=Copy.step).settled()
    return task
