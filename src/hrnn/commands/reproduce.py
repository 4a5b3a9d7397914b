"""hrnn reproduce: the paper's tables and figures, beside its own numbers; and our own studies beyond it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from hrnn.commands.options import console, ended, parse, require_folder
from hrnn.errors import DONE, UserError, shortened
from hrnn.launching.measuring import batches, seconds_of
from hrnn.launching.where import Where, cores, engine_of
from hrnn.limits import above, at_least, option
from hrnn.report.experiments import write as write_experiment
from hrnn.report.table import Table
from hrnn.report.unlocked import write as write_unlocked
from hrnn.studies.experiment import Experiment
from hrnn.studies.paper import EXPERIMENTS
from hrnn.studies.plan import SEARCH_SEEDS, Request, reproduce
from hrnn.studies.recipes import BETAS
from hrnn.studies.unlocked import UNLOCKED
from hrnn.studies.unlocked import reproduce as reproduce_unlocked
from hrnn.training.config import Config

STUDIES: dict[str, Experiment] = {**EXPERIMENTS, UNLOCKED.name: UNLOCKED}


@dataclass(frozen=True)
class Reproduce:
    """Run an experiment of the paper, all models and seeds, and set the table beside the published one.

    Experiments: copy, mnist, permuted-mnist, ptb, deep-copy; beyond the paper: needle, needle-long, unlocked. Whatever is in
    the folder already is kept: interrupted, or asked for more seeds or models later, it runs only what is missing.

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
    run = reproduce_unlocked if request.experiment is UNLOCKED else reproduce
    request, ending = run(request, engine_of(options.where))
    if not ending.interrupted:
        show(request)
    return ended(ending, request.folder)


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
        searched = ", ".join(one.name for one in STUDIES.values() if one.chosen_by)
        raise UserError(f"--grid searches beta where the paper did ({searched}); {experiment.name} fixes or varies it itself")
    if options.grid and set(options.seeds) & set(SEARCH_SEEDS):
        raise UserError(f"--grid chooses beta on seeds {SEARCH_SEEDS}; report others than those: --seeds 0 1 2")
    if not options.seeds or len(set(options.seeds)) < len(options.seeds):
        raise UserError(f"--seeds is {shortened(options.seeds)}; give different ones")
    place = f"{experiment.name}-{options.profile}"
    place += ("-grid" if options.grid else "") + ("" if options.scale == 1 else f"-x{options.scale:g}")
    folder = options.folder or Path("runs/reproduce") / place
    return Request(
        experiment, folder, options.profile, options.seeds, options.models, options.data, options.scale, options.grid
    )


def experiment_named(name: str | None) -> Experiment:
    there = ", ".join(STUDIES)
    if name is None:
        raise UserError(f"which experiment? There are {there}; hrnn reproduce --list says what each costs")
    if name not in STUDIES:
        raise UserError(f"no experiment is called {shortened(name)!r}; there are {there}")
    return STUDIES[name]


def show(request: Request) -> None:
    """Tables and figure of everything in the folder, written there and to the terminal."""
    write = write_unlocked if request.experiment is UNLOCKED else write_experiment
    tables = write(request)
    for table in tables:
        console().print(table.terminal())
    if tables:
        print(f"{request.folder}: table.md, table.json, curves.png, curves.svg, and every run in runs/")


def requests_of(options: Reproduce) -> list[Request]:
    """What --list lists: one experiment or all."""
    names = list(STUDIES) if options.name is None else [experiment_named(options.name).name]
    there = [name for name in names if options.profile == "desk" or STUDIES[name].in_paper]
    return [request_of(replace(options, name=name, grid=False)) for name in there]


def list_experiments(options: Reproduce) -> int:
    """One line per experiment, from the recipes alone: at once, and without any data."""
    rows = []
    for request in requests_of(options):
        budget = request.rows[0].recipe(request.profile).budget
        sequences, epochs = ((value or 0) * request.scale for value in (budget.sequences, budget.epochs))
        size = f"{sequences:,.0f} sequences" if sequences else f"{epochs:g} epochs"
        runs = f"{len(request.rows)} models x {len(request.seeds)} seeds"
        data = ", ".join(f"{name}/" for name in request.experiment.data) or "its own"
        rows.append([request.experiment.name, request.experiment.title, runs, size, data])
    heads = ["experiment", "", "runs", "each of", "data"]
    console().print(Table(heads, rows, words=heads).terminal())
    print("hrnn reproduce --list --measure says what they would cost here; measuring takes some minutes itself.")
    return DONE


def list_costs(options: Reproduce) -> int:
    """One line per experiment: its runs, and the minutes of one core that they take here, learning alone."""
    jobs = options.where.jobs or cores()
    heads = ["experiment", "", "runs", "core-minutes", f"minutes, {jobs} jobs", "updates/s", "with --grid"]
    rows = []
    for request in requests_of(options):
        experiment, name = request.experiment, request.experiment.name
        runs, words = len(request.rows) * len(request.seeds), experiment.title
        try:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            costs = {row.name: cost(request.config(row, seed=0)) for row in request.rows}
        except UserError as error:
            rows.append([name, words, str(runs), "?", "?", "?", ""])
            print(f"{name}: {error}", file=sys.stderr)
            continue
        minutes = sum(seconds * updates for seconds, updates in costs.values()) * len(request.seeds) / 60
        rates = [1 / seconds for seconds, _ in costs.values()]
        rate = " to ".join(dict.fromkeys(_rate(one) for one in (min(rates), max(rates))))
        names_searched = request.searched(request.rows) if experiment.chosen_by else {}
        searched = [costs.get(row) or cost(request.config(experiment.row(row), seed=0)) for row in names_searched]
        grid = minutes + sum(s * n for s, n in searched) * len(BETAS) * len(SEARCH_SEEDS) / 60
        shown = f"{grid:,.0f}" if searched else ""
        rows.append([name, words, str(runs), f"{minutes:,.0f}", f"{minutes / jobs:,.0f}", rate, shown])
    console().print(Table(heads, rows, words=heads[:2]).terminal())
    print("Measured on the longest sequences of a run; without validation and tests, and with no attempt repeated.")
    return DONE


def _rate(value: float) -> str:
    """Two digits, or as many as stand before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def cost(config: Config[Any]) -> tuple[float, float]:
    """Seconds of a batch, and how many batches the budget allows."""
    return seconds_of(config), batches(config) or 0.0
