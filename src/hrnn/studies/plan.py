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
from hrnn.launching.measuring import bytes_of
from hrnn.launching.run import run
from hrnn.launching.units import Ending, Engine, Unit
from hrnn.memory import exact_count, paper_count
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.paper import missed
from hrnn.studies.recipes import BETAS, Profile, complete, with_betas
from hrnn.studies.results import RunResult
from hrnn.training.config import Config
from hrnn.training.folder import read_result
from hrnn.training.network import unrolled

SEARCH_SEEDS = (100, 101, 102)  # of the search for beta; those reported are others
BORROWED = {"unlocked": "ours", "mr-hrnn-bytes": "mr-hrnn"}  # rows that take the beta of another
AGAIN = "-from-1"  # at the end of the name of a second attempt


@dataclass(frozen=True)
class Request:
    """What to reproduce, and where. betas: those found by a search, by row."""

    experiment: Experiment
    folder: Path
    profile: Profile = "desk"
    seeds: tuple[int, ...] = (0, 1, 2)
    models: tuple[str, ...] = ()  # all where empty
    data: Path | None = None
    scale: float = 1.0
    grid: bool = False
    betas: dict[str, float] = field(default_factory=dict)

    @property
    def setting(self) -> dict[str, Any]:
        """What a result must belong to, beside its configuration."""
        return {"experiment": self.experiment.name, "profile": self.profile, "scale": self.scale, "grid": self.grid}

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for row in self.experiment.rows if not self.models or row.name in self.models)

    def config(self, row: Row, seed: int, beta: float | None = None) -> Config[Any]:
        beta = self.betas.get(row.name) if beta is None else beta
        config = row.recipe(self.profile)
        return complete(config if beta is None else with_betas(beta)(config), seed, self.data, self.scale)

    def unit(self, row: Row, seed: int) -> Unit:
        return Unit(f"{row.name}/seed-{seed}", self.config(row, seed))

    def again(self, unit: Unit) -> Unit:
        """The second attempt of a model that missed the first length."""
        assert self.experiment.again is not None
        return Unit(unit.name + AGAIN, self.experiment.again(unit.config))

    def searched(self, rows: Sequence[Row]) -> dict[str, dict[float, list[Unit]]]:
        """The runs of the search for beta: by row and beta. gr-HRNN has none, and some rows borrow that of another."""
        names = {BORROWED.get(row.name, row.name) for row in rows if row.recipe(self.profile).model.model != "gr-hrnn"}

        def units(row: Row, beta: float) -> list[Unit]:
            place = f"grid/{row.name}/beta-{beta:g}"
            return [Unit(f"{place}/seed-{seed}", self.config(row, seed, beta)) for seed in SEARCH_SEEDS]

        rows = [row for row in self.experiment.rows if row.name in names]
        return {row.name: {beta: units(row, beta) for beta in BETAS} for row in rows}


def reproduce(request: Request, engine: Engine) -> tuple[Request, Ending]:
    """Run whatever is missing and write down what was found. Returns the request with the betas that a search chose."""
    collect(request)  # what is in the folder must fit, before anything is run
    if request.grid:
        searched = [unit for betas in request.searched(request.rows).values() for units in betas.values() for unit in units]
        ending = run_missing(request, searched, engine)
        if ending.interrupted or ending.failures:
            return request, ending
        request = with_chosen(request)
    # Seed by seed, so that a table can be compared before all of them are done.
    units = [request.unit(row, seed) for seed in request.seeds for row in request.rows]
    ending = run_missing(request, units, engine)
    if not ending.interrupted and request.experiment.again:
        again = [request.again(unit) for unit in units if _missed(request, unit)]
        second = run_missing(request, again, engine)
        ending = Ending({**ending.failures, **second.failures}, second.interrupted, second.code)
    return request, ending


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
    if ending.interrupted:
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


def _memory(request: Request, row: str, config: Config[Any]) -> dict[str, Any]:
    """What the runs of a row need; measured once."""
    if not request.experiment.with_memory:
        return {}
    for path in sorted((request.folder / results.RUNS / row).glob("seed-*.json")):
        return dict(results.entries_of(path)["memory"])
    return memory_of(config, children=3 if request.scale == 1 else 1)


def memory_of(config: Config[Any], children: int = 3) -> dict[str, Any]:
    """Vectors by the paper's count and by the exact one, where periods are fixed, and measured bytes."""
    counts: dict[str, Any] = {"paper_count": None, "exact_count": None}
    if not config.reaches:
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
    if request.grid and not request.betas and (request.folder / results.RUNS / "grid").exists():
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


def search_results(request: Request) -> dict[str, dict[float, list[float]]]:
    """What the search for beta found: by row and beta the values of its finished runs. A run that failed counts as worst."""
    quantity = request.experiment.chosen_by
    assert quantity is not None
    worst = -math.inf if quantity.higher_is_better else math.inf
    values: dict[str, dict[float, list[float]]] = {}
    for row, betas in request.searched(request.experiment.rows).items():
        for beta, units in betas.items():
            runs = [results.read(request.folder, unit, request.setting) for unit in units]
            read = [quantity.read(one.result, one.records) if not one.failure else worst for one in runs if one is not None]
            values.setdefault(row, {})[beta] = [worst if value is None else value for value in read]
    return values


def with_chosen(request: Request) -> Request:
    """The request with the best beta of each row; among equals the recipe's own, then the first of the list."""
    quantity = request.experiment.chosen_by
    assert quantity is not None
    sign = 1 if quantity.higher_is_better else -1
    chosen: dict[str, float] = {}
    for row, by_beta in search_results(request).items():
        own = request.experiment.row(row).recipe(request.profile).betas[0]
        complete_ones = {beta: sign * fmean(values) for beta, values in by_beta.items() if len(values) == len(SEARCH_SEEDS)}
        if complete_ones:
            chosen[row] = max(complete_ones, key=lambda beta: (complete_ones[beta], beta == own))
    chosen.update({row: chosen[other] for row, other in BORROWED.items() if other in chosen})
    return replace(request, betas=chosen)
