"""hrnn sweep: many runs of a task, all combinations of some options' values or some of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

import tyro

from hrnn.commands.options import console, ended, parse, require_folder
from hrnn.commands.task import full_command, help_text, task_and_rest, usage, with_names
from hrnn.errors import DONE, UserError, shortened
from hrnn.files import write_atomically
from hrnn.formats import numbered
from hrnn.launching.early import Early
from hrnn.launching.grid import Axis, Option, Point, common, fitted, options_of, points, write_common
from hrnn.launching.options import Where
from hrnn.launching.progress import ProgressTable
from hrnn.launching.run import run
from hrnn.launching.units import Ending, prepare
from hrnn.launching.where import engine_of
from hrnn.limits import at_least
from hrnn.limits import option as ranged
from hrnn.report.sweeps import entries_of, metric_of
from hrnn.report.swept import NOTE, table_of
from hrnn.tasks import name_of, task_named
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, TaskT

MOST_VALUES = 1000  # of an option; each of them is read as a command line
INTRODUCTION = """\
Train all combinations of some options' values, each a run of its own, and set them side by side in a table. Whatever is in
the folder already is kept: interrupted, or asked for more values later, it runs only what is missing.

Examples:
    hrnn sweep copy --length 10 --updates 2000 --over learning-rate=1e-3,2e-3,4e-3 --over seed=0,1,2
    hrnn sweep copy --over 'hidden-sizes=64 64,128 128' --over betas=0.1,1 --random 3 --folder sweeps/sizes --jobs 2
    hrnn sweep text book.txt --over model=ours,hrnn --engine ray --address 10.0.0.1:6379 --folder /shared/book

"""


@dataclass(frozen=True)
class Grid:
    """Which runs, and what becomes of them."""

    over: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """OPTION=VALUE,VALUE,...: an option of the run and the values that it takes, once for every option that varies; a value
    that is a list has its entries separated by spaces."""
    random: int | None = ranged(None, at_least(1))
    """Take so many settings of the grid at random, none twice, instead of all; each is run with every seed."""
    sweep_seed: int | None = None
    """Of that sample; 0 by default."""
    folder: Path | None = None
    """Where the runs and the table go; sweeps/TASK by default. With --engine ray on storage that all nodes share."""
    prune: bool = False
    """Stop runs early that are worse than the median of the others at the same point of the budget."""
    json: bool = False
    """Print the table as JSON."""


@dataclass(frozen=True)
class Sweep(Generic[TaskT]):
    task: TaskT
    grid: Grid = field(default_factory=Grid)
    where: Where = field(default_factory=Where)
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    runtime: Runtime = field(default_factory=Runtime)

    @property
    def config(self) -> Config[Any]:
        return Config(self.task, self.model, self.learning, self.budget, self.runtime)


def main(arguments: Sequence[str]) -> int:
    name, rest = task_and_rest(arguments)
    if name is None:
        print(usage("sweep"))
        return DONE
    options, axes = read(name, rest)
    grid, base = options.grid, options.config
    if grid.sweep_seed is not None and grid.random is None:
        raise UserError(f"--sweep-seed {grid.sweep_seed} is of the sample of --random; give that, too, or drop it")
    runs = points(base, axes, grid.random, grid.sweep_seed or 0)
    engine = engine_of(options.where)
    folder = grid.folder or Path("sweeps") / name_of(base.task).rpartition(":")[2].lower()
    require_folder(folder, "--folder")
    with folders.working_in(folder):
        here = common(base, axes)
        runs = fitted(folder, runs, here, base)
        prepare(folder, [point.unit for point in runs])
        write_common(folder, here)
    units = [point.unit for point in runs]
    with ProgressTable(folder, units) as table:
        ending = run(folder, units, engine, Early(folder, units, table) if grid.prune else table, leave_stopped=grid.prune)
    report(folder, runs, ending, grid.json)
    return ended(ending, folder)


def read(name: str, rest: list[str]) -> tuple[Sweep[Any], list[Axis]]:
    """The options, and the values of those that vary, each read as `hrnn train` would read it."""
    kind = task_named(name)
    rest = with_names(kind, rest)
    command, description = full_command("sweep", name), INTRODUCTION + help_text(kind)
    sweep_type: type[Sweep[Any]] = Sweep[kind]  # type: ignore[valid-type]
    if {"-h", "--help"} & set(rest):
        parse(sweep_type, command, rest, description)
    known, values = options_of(kind), given(rest)
    check(name, rest, values, known)
    first = {option: words(option, several[0], known[option]) for option, several in values.items()}

    def parsed(changed: dict[str, list[str]]) -> Sweep[Any]:
        extra = [word for several in {**first, **changed}.values() for word in several]
        return parse(sweep_type, command, [*rest, *extra], description)

    base = parsed({})
    if not values:
        raise UserError("what is varied? Give --over OPTION=VALUE,VALUE,... such as --over learning-rate=1e-3,2e-3")
    if (most := max(map(len, values.values()))) > MOST_VALUES:
        raise UserError(f"--over names {most:,} values of one option; give at most {MOST_VALUES:,}")
    axes = []
    for name, several in values.items():
        option = known[name]
        axes.append(Axis(name, option, [option.value(parsed({name: words(name, value, option)}).config) for value in several]))
    return base, axes


def check(name: str, rest: Sequence[str], varied: Iterable[str], known: dict[str, Option]) -> None:
    """What varies is an option of the run, and not given another value."""
    fixed = {word.partition("=")[0].replace("_", "-") for word in rest}
    for option in varied:
        if option not in known:
            there = ", ".join(known)
            raise UserError(f"--over {shortened(option)}: hrnn train {name} has no such option to vary; there are {there}")
        if {f"--{option}", f"--no-{option}"} & fixed:
            raise UserError(f"--{option} is given, and varied by --over {option}; drop one of them")


def given(rest: Sequence[str]) -> dict[str, list[str]]:
    """The values after every --over, by option."""
    values_of: dict[str, list[str]] = {}
    for place, word in enumerate(rest):
        if word != "--over" and not word.startswith("--over="):
            continue
        text = word.removeprefix("--over=") if word != "--over" else "".join(rest[place + 1 : place + 2])
        option, equals, values = text.partition("=")
        option = option.strip().removeprefix("--").replace("_", "-")
        several = [value.strip() for value in values.split(",")]
        if not option or not equals or not all(several):
            raise UserError(f"--over {shortened(text)!r} should read OPTION=VALUE,VALUE,... such as learning-rate=1e-3,2e-3")
        if option in values_of:
            raise UserError(f"--over {option} is given twice; give all values at once: --over {option}={','.join(several)},...")
        values_of[option] = several
    return values_of


def words(option: str, value: str, kind: Option) -> list[str]:
    """A value as arguments."""
    if kind.flag:
        if value.lower() not in ("true", "false"):
            raise UserError(f"--over {option}: {shortened(value)!r} is neither true nor false")
        return [f"--{option}" if value.lower() == "true" else f"--no-{option}"]
    try:
        return [f"--{option}", *shlex.split(value)]
    except ValueError as error:
        raise UserError(f"--over {option}: {shortened(value)!r} cannot be read ({error})") from None


def report(folder: Path, runs: Sequence[Point], ending: Ending, as_json: bool) -> None:
    """The table of these runs, written and shown."""
    entries = numbered("sweep", entries_of(folder, runs))
    table = table_of(entries, metric_of(runs, entries["judged_on"]))
    write_atomically(folder / "table.json", json.dumps(entries, indent=1).encode() + b"\n")
    write_atomically(folder / "table.md", f"{table.markdown()}\n\n{NOTE}\n".encode())
    if as_json:
        print(json.dumps({"folder": str(folder), **entries, "failures": ending.failures}))
    else:
        console().print(table.terminal())
        print(f"{folder}: table.md, table.json, and every run in a folder of its own; hrnn runs {folder} lists them")
