"""From a request to its runs and back: which there are to be, which of them are missing, and the results of the others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import hrnn.studies.results as results
from hrnn.formats import numbered
from hrnn.launching.measuring import bytes_of
from hrnn.launching.run import run
from hrnn.launching.units import Ending, Engine, Unit
from hrnn.memory import exact_count, paper_count
from hrnn.studies import SEEDS
from hrnn.studies.experiment import Experiment, Row, Trial
from hrnn.studies.paper import missed
from hrnn.studies.recipes import Profile, complete
from hrnn.studies.results import RunResult
from hrnn.training.config import Config
from hrnn.training.folder import read_result
from hrnn.training.journal import read as read_journal
from hrnn.training.network import unrolled

AGAIN = "-from-1"  # at the end of the name of a second attempt


@dataclass(frozen=True)
class Request:
    """What to reproduce, and where. chosen: what a search found, by row."""

    experiment: Experiment
    folder: Path
    profile: Profile = "desk"
    seeds: tuple[int, ...] = SEEDS
    models: tuple[str, ...] = ()  # all where empty
    data: Path | None = None
    scale: float = 1.0
    chosen: dict[str, Trial] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        return self.experiment.search is not None

    @property
    def setting(self) -> dict[str, Any]:
        """What a result must belong to, beside its configuration."""
        return {"experiment": self.experiment.name, "profile": self.profile, "scale": self.scale, "searched": self.searched}

    @property
    def called(self) -> str:
        """How `hrnn reproduce` is asked for its table."""
        profile = "" if self.profile == self.experiment.profiles[0] else f" --profile {self.profile}"
        return f"{self.experiment.name}{profile}{' --search' if self.asked_for_search else ''}"

    @property
    def asked_for_search(self) -> bool:
        """Is it the second of two tables of an experiment?"""
        return self.searched and not self.experiment.always_searched

    @property
    def shown(self) -> dict[str, Any]:
        """What a table says of itself."""
        said = {"searched": self.asked_for_search, "called": self.called, "data": list(self.experiment.data)}
        return numbered("study", {**self.setting, **said})

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for row in self.experiment.offered if not self.models or row.name in self.models)

    def config(self, row: Row, seed: int, trial: Trial | None = None) -> Config[Any]:
        trial, config = trial or self.chosen.get(row.name), row.recipe(self.profile)
        config = complete(config if trial is None else trial.of(config), seed, self.data, self.scale)
        return replace(config, model=replace(config.model, gradient=row.gone)) if row.gone else config

    def unit(self, row: Row, seed: int) -> Unit:
        return Unit(f"{row.name}/seed-{seed}", self.config(row, seed))

    def again(self, unit: Unit) -> Unit:
        """The second attempt of a model that missed the first length."""
        assert self.experiment.again is not None
        return Unit(unit.name + AGAIN, self.experiment.again(unit.config))

    def trials(self, rows: Sequence[Row]) -> dict[str, dict[Trial, list[Unit]]]:
        """The runs of the search: by row and trial."""
        search = self.experiment.search
        if search is None:
            return {}

        def units(row: Row, trial: Trial) -> list[Unit]:
            place = f"{results.SEARCH}/{row.name}/{trial.name}"
            return [Unit(f"{place}/seed-{seed}", self.config(row, seed, trial)) for seed in search.seeds]

        wanted = {search.shared.get(row.name, row.name) for row in rows}
        searched = [row for row in self.experiment.rows if row.name in search.trials and row.name in wanted]
        return {row.name: {one: units(row, one) for one in search.trials[row.name]} for row in searched}


def reproduce(request: Request, engine: Engine) -> tuple[Request, Ending]:
    """Run whatever is missing and write down what was found. Returns the request with what a search chose.

    A trial that fails has lost; a row whose every trial failed is not run. Runs that are stopped on their way, other than
    trials, are written down as far as they are.
    """
    collect(request)  # what is in the folder must fit, before anything is run
    first, rows = Ending(), request.rows
    if request.searched:
        trials = request.trials(rows)
        tried = [unit for by_trial in trials.values() for units in by_trial.values() for unit in units]
        first = run_missing(request, tried, engine)
        if first.interrupted:
            return request, first
        request = with_chosen(request)
        shared = request.experiment.search.shared if request.experiment.search else {}
        rows = tuple(row for row in rows if shared.get(row.name, row.name) not in trials or row.name in request.chosen)
    # Seed by seed, so that a table can be compared before all of them are done.
    units = [request.unit(row, seed) for seed in request.seeds for row in rows]
    second = run_missing(request, units, engine)
    ending = Ending({**first.failures, **second.failures}, second.interrupted, second.code)
    if not ending.interrupted and request.experiment.again:
        again = [request.again(unit) for unit in units if _missed(request, unit)]
        third = run_missing(request, again, engine)
        ending = Ending({**ending.failures, **third.failures}, third.interrupted, third.code)
        units += again
    if ending.interrupted:
        write_unfinished(request, [unit for unit in units if unit.name not in ending.failures])
    return request, ending


def reproduce_in_order(request: Request, engine: Engine, stages: Sequence[tuple[str, ...]]) -> tuple[Request, Ending]:
    """Some rows after the others, with their searches, so that what is there is of use before all is."""
    ending, models = Ending(), request.models
    for names in stages:
        request, one = reproduce(replace(request, models=names), engine)
        ending = Ending({**ending.failures, **one.failures}, one.interrupted, one.code)
        if ending.interrupted:
            break
    return replace(request, models=models), ending


def _missed(request: Request, unit: Unit) -> bool:
    there = results.read(request.folder, unit, request.setting)
    return there is not None and not there.failure and missed(there.result) and unit.config.task.start > 1


def run_missing(request: Request, units: Sequence[Unit], engine: Engine) -> Ending:
    """Train those that have no result yet, then write down the results of all that are over, and of those that failed."""
    known = {unit.name: results.read(request.folder, unit, request.setting) for unit in units}
    missing = [unit for unit in units if (there := known[unit.name]) is None or there.failure]
    if not missing:
        return Ending()
    work = request.folder / results.WORK
    ending = run(work, missing, engine)
    if ending.interrupted and not ending.late:  # memory would have to be measured, and somebody waits
        return ending
    memories: dict[str, dict[str, Any]] = {}
    for unit in missing:
        failure = ending.failures.get(unit.name)
        if failure is None and read_result(work / unit.name) is None:
            continue
        row = unit.name.rpartition("/")[0]
        if row not in memories:
            memories[row] = _memory(request, row, unit.config)
        results.export(request.folder, unit, request.setting, memories[row], failure)
    return ending


def write_unfinished(request: Request, units: Sequence[Unit]) -> None:
    """Runs that have begun and have no result: their journals, and in words how far they are."""
    panel = next(iter(request.experiment.panels), None)
    for unit in units:
        work = request.folder / results.WORK / unit.name
        if not work.exists() or read_result(work) is not None:
            continue
        last, score = None, ""
        for record in read_journal(work):
            last = record if "cpu_seconds" in record else last
            if panel is not None and record["kind"] == panel.kind and panel.entry in record:
                score = f"; {panel.label} so far: {record[panel.entry]:.4g}"
        if last is not None:
            words = f"unfinished after {last['sequences']:,} sequences and {last['cpu_seconds'] / 60:.1f} core-minutes{score}"
            results.export(request.folder, unit, request.setting, {}, words, last)


def _memory(request: Request, row: str, config: Config[Any]) -> dict[str, Any]:
    """What the runs of a row need; measured once, and not of a search, whose runs need no more."""
    if not request.experiment.with_memory or row.startswith(f"{results.SEARCH}/"):
        return {}
    for path in sorted((request.folder / results.RUNS / row).glob("seed-*.json")):
        if memory := results.entries_of(path)["memory"]:
            return dict(memory)
    return memory_of(config, children=3 if request.scale == 1 else 1)


def memory_of(config: Config[Any], children: int = 3) -> dict[str, Any]:
    """Vectors by the paper's count and by the exact one, where periods are fixed and the method is one of the paper's two, and
    measured bytes."""
    counts: dict[str, Any] = {"paper_count": None, "exact_count": None}
    if not config.reaches and config.model.method in ("restricted", "full"):
        window, restricted = unrolled(config), config.model.restricted
        counts["paper_count"] = paper_count(config.periods, window) if restricted else window
        counts["exact_count"] = exact_count(config.hidden_sizes, config.periods, window) if restricted else window
    return {**counts, "measured_bytes": bytes_of(config, children)}


@dataclass(frozen=True)
class SeedRun:
    """The run of a row and seed: the attempt that counts, and the first one where that missed the first length."""

    seed: int
    counted: RunResult
    first: RunResult | None = None

    @property
    def batch(self) -> int:
        return int(self.counted.entries["config"]["learning"]["batch"])


Runs = dict[str, list[SeedRun]]
"""By row."""


def collect(request: Request) -> Runs:
    """Every run in the folder, whatever seeds and models were asked for now; another recipe's is refused."""
    if request.searched and not request.chosen:
        request = with_chosen(request)
    runs: Runs = {}
    expected = []
    for row in request.experiment.rows:
        paths = (request.folder / results.RUNS / row.name).glob("seed-*.json")
        for seed in sorted({int(match[1]) for path in paths if (match := re.fullmatch(r"seed-(\d+)", path.stem))}):
            unit = request.unit(row, seed)
            first = results.read(request.folder, unit, request.setting)
            assert first is not None
            second = None
            expected.append(unit.name)
            if request.experiment.again:
                second = results.read(request.folder, request.again(unit), request.setting)
                expected.append(unit.name + AGAIN)
            runs.setdefault(row.name, []).append(SeedRun(seed, second or first, first if second else None))
    results.refuse_strangers(request.folder, expected)
    return runs


def search_results(request: Request) -> dict[str, dict[Trial, list[float]]]:
    """What a search found: by row and trial the values of its finished runs. A run that failed counts as worst."""
    search = request.experiment.search
    assert search is not None
    worst = -math.inf if search.quantity.higher_is_better else math.inf
    values: dict[str, dict[Trial, list[float]]] = {}
    for row, by_trial in request.trials(request.experiment.rows).items():
        for trial, units in by_trial.items():
            runs = [results.read(request.folder, unit, request.setting) for unit in units]
            read = [None if run.failure else search.quantity.read(run.result, run.records) for run in runs if run is not None]
            values.setdefault(row, {})[trial] = [worst if value is None else value for value in read]
    return values


def with_chosen(request: Request) -> Request:
    """The request with the best trial of each row that has been searched to its end and not failed throughout."""
    search = request.experiment.search
    assert search is not None
    sign, chosen = 1 if search.quantity.higher_is_better else -1, {}
    for name, by_trial in search_results(request).items():
        recipe = request.experiment.row(name).recipe(request.profile)
        means = {trial: sign * fmean(values) for trial, values in by_trial.items() if len(values) == len(search.seeds)}
        if len(means) == len(by_trial) and max(means.values()) > -math.inf:
            chosen[name] = max(means, key=lambda trial: (means[trial], trial.of(recipe) == recipe))
    chosen |= {name: chosen[other] for name, other in search.shared.items() if other in chosen}
    return replace(request, chosen=chosen)
