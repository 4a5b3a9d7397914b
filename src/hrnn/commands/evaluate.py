"""hrnn evaluate: score a run's weights on data that they did not learn from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from hrnn.commands.options import console, parse
from hrnn.errors import DONE, UserError
from hrnn.limits import at_least, option
from hrnn.report.table import Table
from hrnn.tasks import Task
from hrnn.telling import followed, working
from hrnn.training.evaluation import evaluate
from hrnn.training.identity import Trust, compare_data
from hrnn.training.network import reading
from hrnn.training.sizes import require_room
from hrnn.training.trained import Trained, load, warn_of_untrained

MOST_CLASSES = 20  # of a matrix that is printed; JSON has it whatever its size


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
    """Others to test on: a text file (text), a folder of idx files (pixels), a file or a folder (series)."""
    length: int | None = option(None, at_least(1))
    """Bits to remember (copy); by default the longest length that the run solved."""
    accept_changed_data: bool = False
    """Score although the data are not those that the run began with."""
    own: Trust = field(default_factory=Trust)
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Evaluate, "evaluate", arguments)
    trained = load(options.run, options.checkpoint, **vars(options.own))
    warn_of_untrained(trained)
    task = _task(trained, options)
    if options.part not in task.parts():
        raise UserError(f"the task of {options.run} has no part {options.part!r}")
    require_room(replace(trained.config, task=task), learning=False)
    _check_data(trained, options)
    torch.set_num_threads(trained.config.upkeep.threads)
    batches = task.evaluation(options.part, reading(trained.config))
    judge = task.judge()
    report = evaluate(trained.network, task, followed(f"scoring {options.part}", batches, "batches"), judge=judge)
    with working("comparing with simple methods"):
        report |= task.baselines(options.part)
    details = {} if judge is None else judge.details()
    scored = options.part if options.data is None else str(options.data)
    if options.json:
        print(json.dumps({"run": str(options.run), "update": trained.update, "part": scored, **report, **details}))
    else:
        numbers = ", ".join(f"{name} {task.measured.named(name).text(value)}" for name, value in report.items())
        print(f"{options.run}, update {trained.update}, {scored}: {numbers}")
        if "confusion" in details and len(details["classes"]) <= MOST_CLASSES:
            console().print(_confusion(**details).terminal())
    return DONE


def _confusion(classes: list[str], confusion: list[list[int]]) -> Table:
    """A row for each true class, a column for each predicted one."""
    return Table(
        ["true \\ predicted", *classes], [[name, *map(str, row)] for name, row in zip(classes, confusion, strict=True)]
    )


def _check_data(trained: Trained, options: Evaluate) -> None:
    """Are the files that this part reads those that the run began with? Other data by --data are meant to differ."""
    if options.data is not None:
        return
    difference = compare_data(trained.identity.data, trained.config.task, [options.part], verify=True)
    if not difference.changed:
        return
    if not options.accept_changed_data:
        raise UserError(
            f"the data of {options.run} are not those that it began with: {difference}; put them back, "
            "or score what is there by --accept-changed-data"
        )
    print(f"hrnn: the data have changed: {difference}", file=sys.stderr)


def _task(trained: Trained, options: Evaluate) -> Task:
    task: Task = trained.config.task
    if options.data is not None:
        if options.part != "test":
            raise UserError(f"--data replaces the test part and --part is {options.part}; give one of the two")
        task = task.with_test_data(options.data)
    return task.as_learned(trained.facts["course"], options.length)
