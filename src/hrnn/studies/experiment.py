"""What an experiment is made of, as data: rows with their recipes, quantities, expectations, panels of its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hrnn.studies.recipes import Profile, Recipe
from hrnn.studies.rules import Expectation
from hrnn.training.config import Config

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of a table. name: as --models and the folders have it; title: as the table has it. gone: the gradient method that
    its runs were trained with, where this version no longer has it; they are shown, and no more are run."""

    name: str
    title: str
    recipe: Recipe
    gone: str = ""


@dataclass(frozen=True)
class Quantity:
    """What a run is judged by, read from its result and its journal; None: it did not get there."""

    name: str
    title: str
    read: Callable[[Record, Sequence[Record]], float | None]
    digits: int = 4
    higher_is_better: bool = True


@dataclass(frozen=True)
class Trial:
    """A setting that a search tries: a learning rate, and the weights of the local losses, for models that have some."""

    learning_rate: float
    betas: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        betas = f"beta-{'-'.join(f'{beta:g}' for beta in self.betas)}-" if self.betas else ""
        return f"{betas}rate-{self.learning_rate:g}"

    @property
    def words(self) -> str:
        betas = f"beta {', '.join(f'{beta:g}' for beta in self.betas)}; " if self.betas else ""
        return f"{betas}rate {self.learning_rate:g}"

    def of(self, config: Config[Any]) -> Config[Any]:
        """A run, changed to this setting."""
        model = replace(config.model, betas=self.betas) if self.betas else config.model
        return replace(config, model=model, learning=replace(config.learning, learning_rate=self.learning_rate))


@dataclass(frozen=True)
class Search:
    """What is tried before the seeds that are reported, by row, and what decides; rows without trials are as their recipe has
    them. The best mean over the seeds is chosen; among equals the recipe's own setting, then the first of the list. shared:
    rows that take what was chosen for another."""

    trials: Mapping[str, Sequence[Trial]]
    quantity: Quantity
    seeds: tuple[int, ...] = (100,)
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """A picture of learning: an entry of the journal's records, for some rows or all."""

    entry: str
    label: str
    kind: str = "validation"  # of the records
    title: str = ""
    rows: tuple[str, ...] = ()
    steps: bool = False  # the value holds until the next record
    lines: tuple[tuple[float, str], ...] = ()  # levels to compare with, dotted, and what they are
    every_run: bool = False  # one line per run instead of mean and spread
    top: float | None = None  # of the axis; single steps far above it would press the rest together
    bottom: float = 0.0  # of an axis that has a top
    end: str = ""  # the entry of a run's result that is its last value; it may be found after the last record


@dataclass(frozen=True)
class Experiment:
    """An experiment; the first quantity is the one of the table. profiles: the sizes that it has, the usual one first."""

    name: str
    title: str
    rows: tuple[Row, ...]
    quantities: tuple[Quantity, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    panels: tuple[Panel, ...] = ()
    data: tuple[str, ...] = ()  # folders that --data must hold
    profiles: tuple[Profile, ...] = ("desk", "paper")
    search: Search | None = None
    always_searched: bool = False  # there is no table without the search, and it is not asked for by --search
    with_memory: bool = True  # measure the peak bytes of an update of every row
    again: Callable[[Any], Any] | None = None  # from a configuration to that of a second attempt, see `missed`

    @property
    def offered(self) -> tuple[Row, ...]:
        """The rows that can be run."""
        return tuple(row for row in self.rows if not row.gone)

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)
