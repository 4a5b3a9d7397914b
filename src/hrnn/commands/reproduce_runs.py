"""What hrnn reproduce does beyond showing what is there: the list of all studies, what they would cost, and their training."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hrnn.commands.options import console, ended, require_folder
from hrnn.commands.reproduce_options import Reproduce
from hrnn.errors import DONE, UserError, shortened
from hrnn.launching.measuring import batches, seconds_of
from hrnn.launching.where import cores, engine_of
from hrnn.report.committed import committed
from hrnn.report.experiments import write as write_experiment
from hrnn.report.frontier import write as write_frontier
from hrnn.report.table import Table
from hrnn.report.unlocked import write as write_unlocked
from hrnn.studies.catalogue import STUDIES, study
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.frontier import FRONTIER
from hrnn.studies.frontier import reproduce as reproduce_frontier
from hrnn.studies.plan import Request, reproduce
from hrnn.studies.searched import SEARCHED
from hrnn.studies.unlocked import UNLOCKED
from hrnn.studies.unlocked import reproduce as reproduce_unlocked
from hrnn.training.config import Budget, Config

OWN = {  # studies that are run and shown in a way of their own
    UNLOCKED.name: (reproduce_unlocked, write_unlocked),
    FRONTIER.name: (reproduce_frontier, write_frontier),
}


def train(options: Reproduce) -> int:
    """Run what is missing, then write and show the table of all that is there, unfinished runs included."""
    request = request_of(options)
    require_folder(request.folder, "--folder")
    run, _ = OWN.get(request.experiment.name, (reproduce, write_experiment))
    request, ending = run(request, engine_of(options.where))
    if not ending.interrupted or request.experiment.name not in OWN:
        show(request)
    return ended(ending, request.folder)


def without_results(options: Reproduce) -> UserError:
    """Why there is nothing to show: a mistake, or a study that has not been trained yet."""
    request = request_of(options)
    data, searched = " --data DATA" if request.experiment.data else "", ", with --search" if request.asked_for_search else ""
    what = f"{request.experiment.name}, profile {request.profile}{searched},"
    return UserError(
        f"no results of {what} come with this version of hrnn; train it: hrnn reproduce {request.called} --run{data}"
    )


def request_of(options: Reproduce) -> Request:
    """What the options ask for, checked."""
    experiment = experiment_named(options.name, options.search)
    rows = [row.name for row in experiment.offered]
    for model in options.models:
        if model not in rows:
            raise UserError(f"{experiment.name} has no model {shortened(model)!r}; there are {', '.join(rows)}")
    profile = options.profile or experiment.profiles[0]
    if profile not in experiment.profiles:
        search = " --search" if options.search else ""
        raise UserError(f"{experiment.name}{search} has no {profile} profile; drop --profile {profile}")
    if experiment.search and (both := set(options.seeds) & set(experiment.search.seeds)):
        raise UserError(f"settings are chosen on seed {min(both)}; report others than that: --seeds 0 1 2")
    if not options.seeds or len(set(options.seeds)) < len(options.seeds):
        raise UserError(f"--seeds is {shortened(options.seeds)}; give different ones")
    place = f"{experiment.name}-{profile}{'-searched' if options.search else ''}"
    folder = options.folder or Path("runs/reproduce") / (place + ("" if options.scale == 1 else f"-x{options.scale:g}"))
    return Request(experiment, folder, profile, options.seeds, options.models, options.data, options.scale)


def experiment_named(name: str | None, searched: bool) -> Experiment:
    there = ", ".join(STUDIES)
    if name is None:
        raise UserError(f"which experiment? There are {there}; hrnn reproduce --list says what each costs")
    if name not in STUDIES:
        raise UserError(f"no experiment is called {shortened(name)!r}; there are {there}")
    if searched and name not in SEARCHED:
        raise UserError(f"--search chooses settings for the rows of {', '.join(SEARCHED)}; {name} fixes or tunes its own")
    return study(name, searched)


def show(request: Request) -> None:
    """Tables and figure of everything in the folder, written there and to the terminal."""
    _, write = OWN.get(request.experiment.name, (reproduce, write_experiment))
    tables = write(request)
    for table in tables:
        console().print(table.terminal())
    if tables:
        print(f"{request.folder}: table.md, table.json, curves.png, curves.svg, curves.json, and every run in runs/")


def requests_of(options: Reproduce) -> list[Request]:
    """What --list lists: one experiment or all, with --search those that have a search."""
    if options.name is not None:
        return [request_of(options)]
    there = [one for one in (SEARCHED if options.search else STUDIES).values() if options.profile in (None, *one.profiles)]
    return [request_of(replace(options, name=one.name)) for one in there]


def list_experiments(options: Reproduce) -> int:
    """One line per experiment, from the recipes alone: at once, and without any data."""
    rows, requests = [], requests_of(options)
    for request in requests:
        experiment = request.experiment
        size = sizes([row.recipe(request.profile).budget for row in request.rows], request.scale)
        runs = f"{len(request.rows)} models x {len(request.seeds)} seeds"
        if tried := sum(trials_of(request, row) for row in request.rows):
            runs += f" + {tried} trials"
        if experiment.always_searched:
            runs = f"{len(request.rows)} models, {len(request.rows) * len(request.seeds) + tried} runs"
        data = ", ".join(f"{name}/" for name in experiment.data) or "its own"
        there = [one for one in experiment.profiles if committed(experiment.name, one, options.search)]
        starred = [one + "*" * (not options.search and bool(committed(experiment.name, one, searched=True))) for one in there]
        rows.append([experiment.name, experiment.title, request.profile, runs, size, data, ", ".join(starred) or "none"])
    heads = ["experiment", "", "profile", "runs", "sequences each", "data", "results"]
    console().print(Table(heads, rows, words=heads).terminal())
    if options.name is not None:
        print(f"Its rows, for --models: {' '.join(row.name for row in requests[0].experiment.offered)}")
    print("hrnn reproduce NAME shows the results that come with hrnn, hrnn reproduce NAME --run trains it here.")
    if any("*" in row[-1] for row in rows):
        print("* and with --search: a table for which beta and the learning rate of every row were chosen by trials.")
    print("hrnn reproduce --list --measure says what that would cost; measuring takes some minutes itself.")
    return DONE


def sizes(budgets: Sequence[Budget], scale: float) -> str:
    """The fewest and the most sequences, or epochs, that a run may see."""
    unit = "" if budgets[0].sequences else " epochs"
    several = sorted({(one.sequences or one.epochs or 0) * scale for one in budgets})
    ends = dict.fromkeys((several[0], several[-1]))
    return " to ".join(f"{end:,.0f}" if not unit else f"{end:g}" for end in ends) + unit


def trials_of(request: Request, row: Row) -> int:
    """Runs of the search for a row."""
    search = request.experiment.search
    return 0 if search is None else len(search.trials.get(row.name, ())) * len(search.seeds)


def list_costs(options: Reproduce) -> int:
    """One line per experiment: its runs, and the minutes of one core that they take here, learning alone."""
    jobs = options.where.jobs or cores()
    heads = ["experiment", "", "runs", "core-minutes", f"minutes, {jobs} jobs", "updates/s"]
    rows = []
    for request in requests_of(options):
        name, words = request.experiment.name, request.experiment.title
        runs = {row.name: len(request.seeds) + trials_of(request, row) for row in request.rows}
        counted = str(sum(runs.values()))
        try:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            costs = {row.name: cost(request.config(row, seed=0)) for row in request.rows}
        except UserError as error:
            rows.append([name, words, counted, "?", "?", "?"])
            print(f"{name}: {error}", file=sys.stderr)
            continue
        minutes = sum(seconds * updates * runs[row] for row, (seconds, updates) in costs.items()) / 60
        rates = [1 / seconds for seconds, _ in costs.values()]
        rate = " to ".join(dict.fromkeys(_rate(one) for one in (min(rates), max(rates))))
        rows.append([name, words, counted, f"{minutes:,.0f}", f"{minutes / jobs:,.0f}", rate])
    console().print(Table(heads, rows, words=heads[:2]).terminal())
    print("Measured on the longest sequences of a run; without validation and tests, and with no attempt repeated.")
    return DONE


def _rate(value: float) -> str:
    """Two digits, or as many as stand before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def cost(config: Config[Any]) -> tuple[float, float]:
    """Seconds of a batch, and how many batches the budget allows."""
    return seconds_of(config), batches(config) or 0.0
