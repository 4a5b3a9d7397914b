"""hrnn sweep: many runs of a task, all combinations of some options' values or some of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

import tyro

from hrnn.commands.options import console, ended, parse, require_folder
from hrnn.commands.train import USAGE, help_text, task_and_rest
from hrnn.errors import DONE, UserError, shortened
from hrnn.launching.early import Early
from hrnn.launching.engines import Where, engine_of
from hrnn.launching.grid import Axis, Option, Point, common, fitted, options_of, points, write_common
from hrnn.launching.progress import ProgressTable
from hrnn.launching.run import run
from hrnn.launching.units import Ending, prepare
from hrnn.limits import at_least
from hrnn.limits import option as ranged
from hrnn.report.sweeps import NOTE, entries_of, metric_of, table_of
from hrnn.tasks import TASKS, name_of, task_named
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, TaskT
from hrnn.training.files import write_atomically

MOST_VALUES = 1000  # of an option; each of them is read as a command line
INTRODUCTION = """\
Train all combinations of some options' values, each a run of its own, and set them side by side in a table. Whatever is in
the folder already is kept: interrupted, or asked for more values later, it runs only what is missing.

Examples:
    hrnn sweep copy --length 10 --updates 2000 --over learning-rate=1e-3,2e-3,4e-3 --over seed=0,1,2
    hrnn sweep copy --over 'hidden-sizes=64 64,128 128' --over betas=0.1,1 --random 3 --folder sweeps/sizes --jobs 2
    hrnn sweep text --data book.txt --over model=ours,hrnn --engine ray --address 10.0.0.1:6379 --folder /shared/book

"""


@dataclass(frozen=True)
class Grid:
    """Which runs, and what becomes of them."""

    over: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """OPTION=VALUE,VALUE,...: an option of the run and the values that it takes, once for every option that varies; a value
    that is a list has its entries separated by spaces."""
    random: int | None = ranged(None, at_least(1))
    """Draw so many settings of the grid, none twice, instead of all; each is run with every seed."""
    sweep_seed: int | None = None
    """Of that draw; 0 by default."""
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
    upkeep: Runtime = field(default_factory=Runtime)

    @property
    def config(self) -> Config[Any]:
        return Config(self.task, self.model, self.learning, self.budget, self.upkeep)


def main(arguments: Sequence[str]) -> int:
    name, rest = task_and_rest(list(arguments))
    if name is None:
        first_lines = {name: (task.__doc__ or "").splitlines()[0] for name, task in TASKS.items()}
        usage = USAGE.replace("hrnn train", "hrnn sweep")
        print(usage.format(tasks="\n".join(f"  {name:8}{line}" for name, line in first_lines.items())))
        return DONE
    options, axes = read(name, rest)
    grid, base = options.grid, options.config
    if grid.sweep_seed is not None and grid.random is None:
        raise UserError(f"--sweep-seed {grid.sweep_seed} is of the draw of --random; give that, too, or drop it")
    found = points(base, axes, grid.random, grid.sweep_seed or 0)
    engine = engine_of(options.where)
    folder = grid.folder or Path("sweeps") / name_of(base.task).rpartition(":")[2].lower()
    require_folder(folder, "--folder")
    with folders.working_in(folder):
        here = common(base, axes)
        found = fitted(folder, found, here, base)
        units = [point.unit for point in found]
        prepare(folder, units)
        write_common(folder, here)
    with ProgressTable(folder, units) as table:
        ending = run(folder, units, engine, Early(folder, units, table) if grid.prune else table, leave_stopped=grid.prune)
    return report(folder, found, ending, grid.json)


def read(name: str, rest: list[str]) -> tuple[Sweep[Any], list[Axis]]:
    """The options, and the values of those that vary, each read as `hrnn train` would read it."""
    kind = task_named(name)
    command = f"sweep {name}" if name in TASKS else f"sweep --task {name}"
    type_: Any = Sweep[kind]  # type: ignore[valid-type]

    def parsed(extra: Sequence[str]) -> Sweep[Any]:
        return parse(type_, command, [*rest, *extra], INTRODUCTION + help_text(kind))

    if {"-h", "--help"} & set(rest):
        parsed(())
    values = given(rest)
    known = options_of(kind)
    for option in values:
        if option not in known:
            raise UserError(
                f"--over {shortened(option)}: hrnn train {name} has no such option to vary; there are {', '.join(known)}"
            )
        if {f"--{option}", f"--no-{option}"} & {word.partition("=")[0].replace("_", "-") for word in rest}:
            raise UserError(f"--{option} is given, and varied by --over {option}; drop one of them")
    first = {option: words(option, several[0], known[option]) for option, several in values.items()}
    base = parsed([word for these in first.values() for word in these])
    if (most := max(map(len, values.values()), default=0)) > MOST_VALUES:
        raise UserError(f"--over names {most:,} values of one option; give at most {MOST_VALUES:,}")
    axes = []
    for option, several in values.items():
        found = []
        for value in several:
            these = {**first, option: words(option, value, known[option])}
            found.append(known[option].value(parsed([word for line in these.values() for word in line]).config))
        axes.append(Axis(option, known[option], found))
    if not axes:
        raise UserError("what is varied? Give --over OPTION=VALUE,VALUE,... such as --over learning-rate=1e-3,2e-3")
    return base, axes


def given(rest: Sequence[str]) -> dict[str, list[str]]:
    """The values after every --over, by option."""
    found: dict[str, list[str]] = {}
    for place, word in enumerate(rest):
        if word != "--over" and not word.startswith("--over="):
            continue
        text = word.removeprefix("--over=") if word != "--over" else "".join(rest[place + 1 : place + 2])
        option, equals, values = text.partition("=")
        option = option.strip().removeprefix("--").replace("_", "-")
        several = [value.strip() for value in values.split(",")]
        if not option or not equals or not all(several):
            raise UserError(f"--over {shortened(text)!r} should read OPTION=VALUE,VALUE,... such as learning-rate=1e-3,2e-3")
        if option in found:
            raise UserError(f"--over {option} is given twice; give all values at once: --over {option}={','.join(several)},...")
        found[option] = several
    return found


def words(option: str, value: str, kind: Option) -> list[str]:
    """A value as arguments."""
    if kind.flag:
        if value not in ("true", "false"):
            raise UserError(f"--over {option}: {shortened(value)!r} is neither true nor false")
        return [f"--{option}" if value == "true" else f"--no-{option}"]
    try:
        return [f"--{option}", *shlex.split(value)]
    except ValueError as error:
        raise UserError(f"--over {option}: {shortened(value)!r} cannot be read ({error})") from None


def report(folder: Path, found: Sequence[Point], ending: Ending, as_json: bool) -> int:
    """The table of these runs, written and shown; returns the exit code."""
    entries = entries_of(folder, found)
    table = table_of(entries, metric_of(found, entries["judged_on"]))
    write_atomically(folder / "table.json", json.dumps(entries, indent=1).encode() + b"\n")
    write_atomically(folder / "table.md", f"{table.markdown()}\n\n{NOTE}\n".encode())
    if as_json:
        print(json.dumps({"folder": str(folder), **entries, "failures": ending.failures}))
    else:
        console().print(table.terminal())
        print(f"{folder}: table.md, table.json, and every run in a folder of its own; hrnn runs {folder} lists them")
    return ended(ending, folder)
