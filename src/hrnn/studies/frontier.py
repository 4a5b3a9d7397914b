"""The frontier: what every gradient method comes to, against the bytes and the minutes that it takes, on two tasks.

Each method has a knob: how many steps it goes back, with which probability segments are run again, the period, the bytes. Its
learning rate and beta are the best of four trials on a seed that is not reported, at the middle value of the knob. Methods that
give the same gradient as another one are not trained: their bytes and seconds are measured, and their score is the other's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import hrnn.studies.recipes as recipes
from hrnn.files import write_atomically
from hrnn.formats import check_format, numbered
from hrnn.launching.measuring import batches, bytes_of, seconds_of
from hrnn.launching.units import Ending, Engine
from hrnn.studies.experiment import Experiment, Quantity, Record, Row, Search, Trial
from hrnn.studies.paper import ACCURACY, LENGTH, SOLVED_LENGTH, VALIDATED
from hrnn.studies.plan import Request, reproduce_in_order
from hrnn.studies.recipes import Change, Profile, locked, with_defaults, with_gradient, with_model
from hrnn.studies.results import environment, stored
from hrnn.training.config import Config, to_json

EQUAL = "equal.json"  # in a study's folder: what was measured of methods that are not trained
REPEATS = 5  # of the seconds of an update, in turn with those of the method that it is equal to


def copy(profile: Profile) -> Config[Any]:
    """The desk's, in smaller steps of length, so that there is more between two methods than one step."""
    config = recipes.copy_ours(profile)
    return replace(config, task=replace(config.task, step=3), budget=replace(config.budget, sequences=100_000))


def pixels(profile: Profile) -> Config[Any]:
    """The desk's, half as long: the methods differ in how soon they learn more than in where they end."""
    config = recipes.mnist_ours(profile)
    return replace(config, budget=replace(config.budget, sequences=40_000))


@dataclass(frozen=True)
class Task:
    """rates: four, for rows without a beta; the middle two go with both betas. The rest are values of the methods' knobs."""

    recipe: recipes.Recipe
    score: Quantity
    rates: tuple[float, float, float, float]
    betas: tuple[float, float]
    truncated: tuple[int, int, int]  # steps
    periods: tuple[int, int, int]
    bytes: tuple[int, int, int]  # megabytes


TASKS = {
    "copy": Task(copy, LENGTH, (1.5e-3, 3e-3, 6e-3, 1.2e-2), (0.1, 1.0), (10, 20, 40), (3, 5, 10), (7, 9, 12)),
    "pixels": Task(pixels, ACCURACY, (1e-3, 2e-3, 4e-3, 8e-3), (1.0, 10.0), (28, 56, 112), (7, 14, 28), (8, 12, 20)),
}
PROBABILITIES = (0.1, 0.2, 0.5)
MIDDLE = 1  # of the three values of a knob


@dataclass(frozen=True)
class Method:
    """A line of the figures. gradient: as --gradient has it, with {} for its knob; model: the one of the paper that it trains;
    knobs: the entry of a task with its values, or these; equal: the method whose gradients it gives; gone: `Row.gone`."""

    name: str
    title: str
    gradient: str
    model: Any = "ours"
    knobs: str | tuple[float, ...] = ()
    unlocked: bool = False
    equal: str = ""
    gone: str = ""

    def values(self, task: Task) -> Sequence[float]:
        return getattr(task, self.knobs) if isinstance(self.knobs, str) else self.knobs

    def changes(self, task: Task, value: float | None) -> tuple[Change, ...]:
        own: Change = with_gradient(self.gradient.format(f"{value:g}" if value else ""))
        if self.knobs == "periods" and value:
            own = partial(with_period, int(value))
        return (with_defaults, with_model(self.model), *(() if self.unlocked else (locked,)), own)


# In the order in which they are run: what the claim is about first.
METHODS = (
    Method("full", "full", "full", "hrnn"),
    Method("restricted", "restricted", "restricted", knobs="periods"),
    Method("unlocked", "restricted, unlocked", "restricted", unlocked=True),
    Method("no-local-loss", "restricted, no local loss", "restricted", "gr-hrnn"),
    Method("truncated", "truncated", "truncated:{}", "hrnn", "truncated"),
    Method("replay", "replay", "replay:{}", knobs=PROBABILITIES),
    Method("biased-replay", "biased replay", "replay:{}", knobs=PROBABILITIES, gone="biased-replay:{}"),
    Method("synthetic", "synthetic", "synthetic"),
    Method("synthetic-alone", "synthetic, no local loss", "synthetic", "gr-hrnn"),
    Method("checkpointed", "checkpointed", "checkpointed:{}MB", "hrnn", "bytes", equal="full"),
    Method("checkpointed-top", "checkpointed top", "checkpointed-top", equal="restricted"),
)


def with_period(period: int, config: Config[Any]) -> Config[Any]:
    return replace(config, model=replace(config.model, gradient="restricted", periods=(period,)))


@dataclass(frozen=True)
class Point:
    """A method on a task at a value of its knob. leader: the row whose settings it takes, its own where that is searched."""

    task: str
    method: Method
    value: float | None
    name: str
    leader: str

    @property
    def gone(self) -> str:
        return self.method.gone.format(f"{self.value:g}" if self.value else "")

    def recipe(self, profile: Profile) -> Config[Any]:
        return recipes.then(TASKS[self.task].recipe, *self.method.changes(TASKS[self.task], self.value))(profile)


def _points() -> Iterator[Point]:
    for name, task in TASKS.items():
        for method in METHODS:
            values = method.values(task) or (None,)
            names = [f"{name}/{method.name}" + ("" if value is None else f"-{value:g}") for value in values]
            for value, own in zip(values, names, strict=True):
                yield Point(name, method, value, own, names[MIDDLE if len(names) > 1 else 0])


POINTS = {point.name: point for point in _points()}
TRAINED = [point for point in POINTS.values() if not point.method.equal]


def _score(result: Record, records: Sequence[Record], pixels: Quantity = VALIDATED) -> float | None:
    return (LENGTH if SOLVED_LENGTH.in_result in result else pixels).read(result, records)


def trials_of(point: Point) -> tuple[Trial, ...]:
    """Four: two betas with two rates, or four rates where there is no local loss. Moves within a window are as many times more;
    their rates are half as large."""
    task, rates = TASKS[point.task], TASKS[point.task].rates
    if point.method.model == "gr-hrnn":
        return tuple(map(Trial, rates))
    share = 0.5 if point.method.unlocked else 1.0
    return tuple(Trial(share * rate, (beta,)) for beta in task.betas for rate in rates[1:3])


FRONTIER = Experiment(
    "frontier",
    "The frontier: gradient methods against bytes and minutes",
    tuple(Row(point.name, point.method.title, point.recipe, point.gone) for point in TRAINED),
    (Quantity("score", "longest length solved, or accuracy on test", partial(_score, pixels=ACCURACY)),),
    data=("mnist",),
    profiles=("desk",),
    search=Search(
        {point.name: trials_of(point) for point in TRAINED if point.name == point.leader},
        Quantity("score", "longest length solved, or accuracy on validation", _score),
        shared={point.name: point.leader for point in TRAINED if point.name != point.leader},
    ),
    always_searched=True,
)


def stages(request: Request) -> list[tuple[str, ...]]:
    """Rows in the order in which they are run, each with its search and all seeds before the next: method by method at the
    middle of their knobs, on both tasks; then the other values."""
    asked = [POINTS[row.name] for row in request.rows]
    parts = [
        [one.name for one in asked if (one.task, one.method) == (task, method) and (one.name == one.leader) == leads]
        for leads in (True, False)
        for method in METHODS
        for task in TASKS
    ]
    return [tuple(part) for part in parts if part]


def reproduce(request: Request, engine: Engine) -> tuple[Request, Ending]:
    """Run whatever is missing, stage by stage, then measure the methods that are not trained."""
    request, ending = reproduce_in_order(request, engine, stages(request))
    if not ending.interrupted:
        measure_equal(request)
    return request, ending


def equals(request: Request) -> dict[str, Any]:
    """What was measured of methods that are not trained, by row."""
    path = request.folder / EQUAL
    if not path.exists():
        return {}
    return check_format("study", json.loads(path.read_text()), path)


def measure_equal(request: Request) -> None:
    """Bytes and seconds of an update, beside those of the method with the same gradients, in which it was trained."""
    there = equals(request)
    for point in (one for one in POINTS.values() if one.method.equal):
        other = next(one for one in TRAINED if one.task == point.task and one.method.name == point.method.equal
                     and one.name == one.leader)  # fmt: skip
        trained = stored(request.folder, f"{other.name}/seed-{request.seeds[0]}")
        if point.name in there or trained is None or trained.failure:
            continue
        row = FRONTIER.row(other.name)
        config = request.config(row, request.seeds[0])
        own = replace(config, model=replace(config.model, gradient=point.recipe(request.profile).model.gradient))
        seconds = [(seconds_of(own), seconds_of(config)) for _ in range(REPEATS if request.scale == 1 else 1)]
        there[point.name] = {
            "as": other.name,
            "measured_bytes": bytes_of(own, children=3 if request.scale == 1 else 1),
            "seconds": min(one for one, _ in seconds),
            "seconds_of_equal": min(one for _, one in seconds),
            "updates": batches(own),
            "environment": environment(),
            "model": to_json(own)["model"],
        }
        write_atomically(request.folder / EQUAL, json.dumps(numbered("study", there), indent=1).encode() + b"\n")
