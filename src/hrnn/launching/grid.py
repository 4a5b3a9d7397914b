"""A grid of runs: some options with several values each, all combinations of them or a random sample."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hrnn.training.folder as folders
from hrnn.errors import UserError, shortened
from hrnn.files import write_atomically
from hrnn.formats import check_format, numbered
from hrnn.launching.units import Unit
from hrnn.limits import NAME_BYTES
from hrnn.tasks import Task
from hrnn.training.config import PARTS, Config, resolved, to_json
from hrnn.training.entries import SWEEP, in_words

SEED = "seed"
NAME_LENGTH = 40  # characters of a value in the name of a run
MOST_RUNS = 10_000


@dataclass(frozen=True)
class Option:
    """An option of a run, and where it stands in a configuration."""

    section: str
    field: str
    flag: bool

    def value(self, config: Config[Any]) -> Any:
        return getattr(getattr(config, self.section), self.field)

    def put(self, config: Config[Any], value: Any) -> Config[Any]:
        changed = replace(getattr(config, self.section), **{self.field: value})
        return replace(config, **{self.section: changed})


@dataclass(frozen=True)
class Axis:
    """An option, by its name on the command line without dashes, and the values that it takes."""

    name: str
    option: Option
    values: Sequence[Any]


@dataclass(frozen=True)
class Point:
    """A run of the grid: the value of every varied option, by the option's name."""

    values: dict[str, Any]
    unit: Unit

    @property
    def setting(self) -> dict[str, Any]:
        """The same without the seed, over which a table takes the mean."""
        return {option: value for option, value in self.values.items() if option != SEED}


def options_of(task: type[Task]) -> dict[str, Option]:
    """Every option of a run that can vary, by its name on the command line."""
    sections: dict[str, Any] = {"task": task, **PARTS}
    return {
        field.name.replace("_", "-"): Option(section, field.name, typing.get_type_hints(kind)[field.name] is bool)
        for section, kind in sections.items()
        for field in dataclasses.fields(kind)
        if field.init
    }


def points(base: Config[Any], axes: Sequence[Axis], sample: int | None = None, seed: int = 0) -> list[Point]:
    """The runs of a grid, every one of them resolved; sample: take so many settings, each with all seeds, instead of all."""
    settings = [axis for axis in axes if axis.name != SEED]
    seeds = [axis for axis in axes if axis.name == SEED]
    total = math.prod(len(axis.values) for axis in settings)
    repeats = math.prod(len(axis.values) for axis in seeds)
    if sample is not None and not 1 <= sample <= total:
        raise UserError(f"--random is {sample} and the grid has {total} settings; give 1 to {total}, or drop it for all")
    if (sample or total) * repeats > MOST_RUNS:
        raise UserError(f"the grid has {(sample or total) * repeats:,} runs; give fewer values, or --random for some of them")
    chosen = range(total) if sample is None else sampled(total, sample, seed)
    grid = []
    for number in (setting * repeats + place for setting in chosen for place in range(repeats)):
        values = _combination([*settings, *seeds], number)
        grid.append(_point(base, axes, {axis.name: values[axis.name] for axis in axes}))
    _check_different(grid)
    return grid


def sampled(total: int, count: int, seed: int) -> list[int]:
    """Different numbers below `total`. The first of them do not depend on how many there are: more can be asked for later."""
    source = random.Random(seed)
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[source.randrange(total)] = None
    return list(numbers)


def _combination(axes: Sequence[Axis], number: int) -> dict[str, Any]:
    """The combination of this number; the last option varies fastest."""
    values = {}
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        values[axis.name] = axis.values[place]
    return values


def _point(base: Config[Any], axes: Sequence[Axis], values: dict[str, Any]) -> Point:
    config, name = base, name_of(values)
    if len(os.fsencode(name)) > NAME_BYTES:
        raise UserError(f"a run would be called {shortened(name)}, which is too long for a folder; vary fewer options")
    for axis in axes:
        config = axis.option.put(config, values[axis.name])
    try:
        return Point(values, Unit(name, resolved(config)))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def name_of(values: dict[str, Any]) -> str:
    """A folder's name that says what is special about a run: learning-rate=0.001,hidden-sizes=64-64,seed=0."""
    slugs = {option: re.sub(r"[^\w.+-]+", "-", shown(value)) for option, value in values.items()}
    return ",".join(f"{option}={slug[-NAME_LENGTH:]}" for option, slug in slugs.items())


def shown(value: Any) -> str:
    """A value as one would write it on the command line."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _check_different(grid: Sequence[Point]) -> None:
    """Two combinations that come to the same run would be trained twice, and two runs need two folders."""
    runs: dict[str, str] = {}
    names: set[str] = set()
    for point in grid:
        name, content = point.unit.name, json.dumps(to_json(point.unit.config))
        if content in runs:
            raise UserError(f"{runs[content]} and {name} are the same run; drop one of the values")
        if name in names:
            raise UserError(f"two runs would be called {name}; give values whose names differ")
        runs[content] = name
        names.add(name)


def common(base: Config[Any], axes: Sequence[Axis]) -> dict[str, Any]:
    """What sweep.json holds."""
    over = {axis.name: [shown(value) for value in axis.values] for axis in axes}
    return numbered("sweep", {"over": over, "options": to_json(base)})


def fitted(folder: Path, grid: Sequence[Point], here: dict[str, Any], base: Config[Any]) -> list[Point]:
    """The same runs, each under the name that it has in the folder already, from whatever grid that came.

    A folder with runs that are no sweep, or with a sweep that differs in an option that neither varies, is refused.
    """
    there = [path.parent for path in sorted(folder.rglob(folders.CONFIG))]
    wanted = {folder / point.unit.name for point in grid}
    before = read_common(folder)
    if before is None:
        if others := [place for place in there if place not in wanted]:
            raise UserError(f"{folder} holds runs of something else, such as {others[0]}; give another --folder")
        return list(grid)
    over = {*before["over"], *here["over"]}
    varied = [f"{one.section}.{one.field}" for name, one in options_of(type(base.task)).items() if name in over]
    if difference := in_words(before["options"], here["options"], varied):
        raise UserError(f"{folder} holds a sweep with other options ({difference}); give another --folder")
    names = {json.dumps(folders.read_entries(place), sort_keys=True): str(place.relative_to(folder)) for place in there}
    known = [names.get(json.dumps(to_json(point.unit.config), sort_keys=True), point.unit.name) for point in grid]
    return [replace(point, unit=replace(point.unit, name=name)) for point, name in zip(grid, known, strict=True)]


def read_common(folder: Path) -> dict[str, Any] | None:
    """What an earlier sweep of this folder wrote down."""
    path = folder / SWEEP
    try:
        entries = check_format("sweep", dict(json.loads(path.read_text())), path)
        return {"over": dict(entries["over"]), "options": dict(entries["options"])}
    except FileNotFoundError:
        return None
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}: {error}); give another --folder") from None


def write_common(folder: Path, here: dict[str, Any]) -> None:
    """Remember what was varied, now and earlier."""
    before = read_common(folder)
    over = here["over"] if before is None else {**before["over"], **here["over"]}
    write_atomically(folder / SWEEP, json.dumps({**here, "over": over}, indent=2).encode() + b"\n")


def rows(grid: Sequence[Point]) -> list[list[Point]]:
    """The runs of every setting of a grid, in the order of the grid."""
    groups: dict[str, list[Point]] = {}
    for point in grid:
        groups.setdefault(name_of(point.setting), []).append(point)
    return list(groups.values())
