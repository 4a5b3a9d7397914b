"""hrnn reproduce: the paper's tables and figures, beside its own numbers; and two experiments beyond it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from hrnn.commands.options import console, parse, require_folder
from hrnn.errors import DONE, FAILED, UserError, shortened
from hrnn.launching.engines import Where, cores, engine_of
from hrnn.launching.measuring import seconds_of
from hrnn.limits import above, at_least, option
from hrnn.report.figures import draw
from hrnn.report.reproduction import markdown, table_of, terminal
from hrnn.studies.paper import EXPERIMENTS, Experiment
from hrnn.studies.plan import SEARCH_SEEDS, Request, collect, reproduce
from hrnn.studies.recipes import BETAS
from hrnn.tasks import Pixels, Text
from hrnn.training.config import Config
from hrnn.training.files import write_atomically

DATA = ((Pixels, "mnist/"), (Text, "ptb/"))  # in the folder that --data names


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper, all models and seeds, and set the table beside the published one.

    Experiments: copy, mnist, permuted-mnist, ptb, deep-copy; beyond the paper: needle, needle-long. Whatever is in the
    folder already is kept: interrupted, or asked for more seeds or models later, it runs only what is missing.

    Examples:
        hrnn reproduce --list
        hrnn reproduce copy --list --measure
        hrnn reproduce copy
        hrnn reproduce mnist --data data --seeds 0 1 2 --jobs 2
        hrnn reproduce copy --profile paper --models ours hrnn
        hrnn reproduce copy --engine ray --address 10.0.0.1:6379 --folder /shared/copy
    """

    name: Annotated[str | None, tyro.conf.Positional] = None
    """The experiment."""
    profile: Literal["desk", "paper"] = "desk"
    """desk: small, in minutes; paper: the paper's own settings."""
    seeds: tuple[int, ...] = option((0, 1, 2), at_least(0, entries=1000))
    """One run of each model for each seed."""
    models: tuple[str, ...] = ()
    """Rows of the table, by name; all by default."""
    where: Where = field(default_factory=Where)
    data: Path | None = None
    """Folder that holds mnist/ and ptb/."""
    folder: Path | None = None
    """Where results go; by default runs/reproduce/NAME-PROFILE."""
    grid: bool = False
    """Choose beta for each model first, from the paper's grid, on validation and on seeds 100 to 102."""
    scale: float = option(1.0, above(0, 1000))
    """Multiply every budget; anything but 1 marks the table as a trial."""
    list: bool = False
    """What there is, and how many runs of what size each experiment takes."""
    measure: bool = False
    """With --list: what they would cost here, measured seconds per update times the budget. That itself takes minutes."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Reproduce, "reproduce", arguments)
    if options.list:
        return list_costs(options) if options.measure else list_experiments(options)
    if options.measure:
        raise UserError("--measure is for --list: hrnn reproduce --list --measure")
    request = request_of(options)
    require_folder(request.folder, "--folder")
    request, ending = reproduce(request, engine_of(options.where))
    if ending.interrupted:
        print(f"interrupted; the same command goes on from here: {request.folder}", file=sys.stderr)
        return ending.code
    show(request)
    for name, sentence in ending.failures.items():
        print(f"hrnn: {name} failed: {sentence}", file=sys.stderr)
    return FAILED if ending.failures else DONE


def request_of(options: Reproduce) -> Request:
    """What the options ask for, checked."""
    experiment = experiment_named(options.name)
    rows = [row.name for row in experiment.rows]
    for model in options.models:
        if model not in rows:
            raise UserError(f"{experiment.name} has no model {shortened(model)!r}; there are {', '.join(rows)}")
    if options.profile == "paper" and not experiment.in_paper:
        raise UserError(f"{experiment.name} goes beyond the paper and has no paper profile; drop --profile paper")
    if options.grid and experiment.chosen_by is None:
        searched = ", ".join(one.name for one in EXPERIMENTS.values() if one.chosen_by)
        raise UserError(f"--grid searches beta where the paper did ({searched}); {experiment.name} fixes or varies it itself")
    if options.grid and set(options.seeds) & set(SEARCH_SEEDS):
        raise UserError(f"--grid chooses beta on seeds {SEARCH_SEEDS}; report others than those: --seeds 0 1 2")
    if not options.seeds or len(set(options.seeds)) < len(options.seeds):
        raise UserError(f"--seeds is {shortened(options.seeds)}; give different ones")
    place = f"{experiment.name}-{options.profile}"
    place += ("-grid" if options.grid else "") + ("" if options.scale == 1 else f"-x{options.scale:g}")
    return Request(
        experiment,
        options.folder or Path("runs/reproduce") / place,
        options.profile,
        options.seeds,
        options.models,
        options.data,
        options.scale,
        options.grid,
    )


def experiment_named(name: str | None) -> Experiment:
    there = ", ".join(EXPERIMENTS)
    if name is None:
        raise UserError(f"which experiment? There are {there}; hrnn reproduce --list says what each costs")
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment is called {shortened(name)!r}; there are {there}")
    return EXPERIMENTS[name]


def show(request: Request) -> None:
    """Tables and pictures of everything in the folder, written there and to the terminal."""
    found = collect(request)
    table = table_of(request, found)
    write_atomically(request.folder / "table.json", json.dumps(table, indent=1).encode() + b"\n")
    write_atomically(request.folder / "table.md", markdown(table).encode())
    scaled = "" if request.scale == 1 else f"scaled: {request.scale:g} of the budget, a trial"
    draw(request.experiment, found, [request.folder / f"curves.{kind}" for kind in ("png", "svg")], scaled)
    screen = console()
    for grid in terminal(table):
        screen.print(grid)
    print(f"{request.folder}: table.md, table.json, curves.png, curves.svg, and every run in runs/")


def requests_of(options: Reproduce) -> list[Request]:
    """What --list lists: one experiment or all."""
    names = list(EXPERIMENTS) if options.name is None else [experiment_named(options.name).name]
    there = [name for name in names if options.profile == "desk" or EXPERIMENTS[name].in_paper]
    return [request_of(replace(options, name=name, grid=False)) for name in there]


def list_experiments(options: Reproduce) -> int:
    """One line an experiment, from the recipes alone: at once, and without any data."""
    made = Table("experiment", "", "runs", "each of", "data", box=None, header_style="bold")
    for request in requests_of(options):
        config = request.rows[0].recipe(request.profile)
        budget = config.budget
        sequences, epochs = ((value or 0) * request.scale for value in (budget.sequences, budget.epochs))
        size = f"{sequences:,.0f} sequences" if sequences else f"{epochs:g} epochs"
        runs = f"{len(request.rows)} models x {len(request.seeds)} seeds"
        data = next((folder for task, folder in DATA if isinstance(config.task, task)), "its own")
        made.add_row(request.experiment.name, request.experiment.title, runs, size, data)
    console().print(made)
    print("hrnn reproduce --list --measure says what they would cost here; measuring takes some minutes itself.")
    return DONE


def list_costs(options: Reproduce) -> int:
    """One line an experiment: its runs, and the minutes of one core that they take here, learning alone."""
    jobs = options.where.jobs or cores()
    made = Table("experiment", "", box=None, header_style="bold")
    for head in ("runs", "core-minutes", f"minutes, {jobs} jobs", "updates/s", "with --grid"):
        made.add_column(head, justify="right")
    for request in requests_of(options):
        experiment, name = request.experiment, request.experiment.name
        runs, words = len(request.rows) * len(request.seeds), experiment.title
        try:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            costs = {row.name: cost(request.config(row, seed=0)) for row in request.rows}
        except UserError as error:
            made.add_row(name, words, str(runs), "?", "?", "?", "")
            print(f"{name}: {error}", file=sys.stderr)
            continue
        minutes = sum(seconds * updates for seconds, updates in costs.values()) * len(request.seeds) / 60
        rates = [1 / seconds for seconds, _ in costs.values()]
        rate = " to ".join(dict.fromkeys(_rate(one) for one in (min(rates), max(rates))))
        names_searched = request.searched(request.rows) if experiment.chosen_by else {}
        searched = [costs.get(row) or cost(request.config(experiment.row(row), seed=0)) for row in names_searched]
        grid = minutes + sum(s * n for s, n in searched) * len(BETAS) * len(SEARCH_SEEDS) / 60
        shown = f"{grid:,.0f}" if searched else ""
        made.add_row(name, words, str(runs), f"{minutes:,.0f}", f"{minutes / jobs:,.0f}", rate, shown)
    console().print(made)
    print("Measured on the longest sequences of a run; without validation and tests, and with no attempt repeated.")
    return DONE


def _rate(value: float) -> str:
    """Two digits, or as many as stand before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def cost(config: Config[Any]) -> tuple[float, float]:
    """Seconds of a batch, and how many batches the budget allows."""
    from hrnn.training.config import reading
    from hrnn.training.network import unrolled

    budget, batch = config.budget, config.learning.batch
    if budget.sequences is not None:
        batches = budget.sequences / batch
    else:
        per_epoch = config.task.batches_per_epoch(reading(config, unrolled(config))) or 0
        batches = (budget.epochs or 0) * per_epoch
    return seconds_of(config), batches
