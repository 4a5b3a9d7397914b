"""What estimators share: from plain arguments to a run in a folder, and from the run to a trained model in memory."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hrnn import arguments
from hrnn.arguments import path_of, shown
from hrnn.data.source import paths_in
from hrnn.errors import UserError
from hrnn.estimators.given import as_arrow, is_frame, sequences_in, write_table
from hrnn.files import remove_tree
from hrnn.limits import checked_path, fitted
from hrnn.tasks import Series
from hrnn.tasks.series.opened import NONE
from hrnn.training.config import PARTS, Config, to_json
from hrnn.training.display import Display, Lines
from hrnn.training.edges import PER_LEVEL
from hrnn.training.folder import CONFIG
from hrnn.training.identity import own_names
from hrnn.training.loop import start
from hrnn.training.run import Run
from hrnn.training.trained import Trained, load

OF_SERIES = (
    "kind", "id", "time", "values", "group", "categorical", "labels", "split_by", "normalise", "patch", "intervals", "readout",
    "crop", "class_weights", "memory", "held_out",
)  # fmt: skip
SHOWN = ("hidden_sizes", "periods", "window", "batch", "learning_rate", "schedule", "epochs", "updates", "normalise", "patch")
DATA = "data.parquet"


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Arguments:
    """Those that all estimators have. Each is stored as it is, as scikit-learn wants it."""

    hidden_sizes: Sequence[int] | None = None
    periods: Sequence[int] | None = None
    window: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    reads: str | Sequence[str] | None = None
    reader: str | Sequence[str] | None = None
    context: str | Sequence[str] | None = None
    output_levels: str | None = None
    burn_in: int | None = None
    segments: int | Sequence[int] | None = None
    epochs: float | None = None
    updates: int | None = None
    normalise: str | None = None
    patch: int | None = None
    memory: str | None = None
    held_out: float = 0.1
    options: Mapping[str, Any] | None = None
    run: str | Path | None = None
    random_state: Any = None
    verbose: bool | int = False


class Estimator(Arguments, BaseEstimator):  # type: ignore[misc]
    """What is None is chosen from the data when it is fitted.

    trained_: the run's network with head and preprocessing, as `hrnn.load` gives it; `trained_.stream()` takes a step at a time
    chosen_:  options that were given or chosen, by name
    result_:  how training ended: updates, seconds, the score on what was held out
    """

    own: tuple[str, ...] = ()  # arguments that are no options of a run
    trained_: Trained
    chosen_: dict[str, Any]
    result_: dict[str, Any]
    table_: bool

    def _fit(self, make: Callable[[Path], Series]) -> None:
        """Train on the data of a task, which `make` writes below a folder."""
        with folder_for(self.run) as folder, in_python(folder / DATA), threads_kept():
            given = self._options()
            of_data = _some(given, OF_SERIES)
            fitted(Series(**of_data))  # before anything is written
            task = fitted(dataclasses.replace(make(folder), test=(Path(NONE),), cache=folder / "cache", **of_data))
            self._look_at(task)
            sections = {name: kind(**_some(given, _names(kind))) for name, kind in PARTS.items()}
            config = Config(task, **sections)
            outcome = start(config, folder, display=Lines() if self.verbose else Spoken())
            if outcome.result is None:
                raise KeyboardInterrupt
            own = own_names(to_json(config))
            self.trained_ = load(folder, cell=next(iter(own.get("cell", ())), None), reader=own.get("reader"))
        known = self.trained_.config
        chosen = {**vars(known.task), **vars(known.model), **vars(known.learning), **vars(known.budget)}
        self.chosen_ = {name: chosen[name] for name in SHOWN}
        self.result_ = outcome.result

    def _look_at(self, task: Series) -> None:
        """Refuse data that are not what the estimator is for, before it learns."""

    def _options(self) -> dict[str, Any]:
        """Options of the run by name, without those that are left open."""
        if not isinstance(self.verbose, int | np.bool_):
            raise TypeError(f"verbose is {shown(self.verbose)}; give True or False")
        given = {name: value for name, value in self.get_params(deep=False).items() if name not in self.own}
        others = (
            {} if (options := given.pop("options")) is None else dict(arguments.named("options", options, "{'cell': 'gru'}"))
        )
        known = [*OF_SERIES, *(name for kind in PARTS.values() for name in _names(kind) if name not in ("seed", "tracker"))]
        for name in others:
            if name in self.get_params(deep=False):
                raise UserError(f"options has {name!r}, which is an argument of its own; give it as such")
            if name not in known:
                near = get_close_matches(str(name), known, n=1) or [", ".join(known)]
                raise UserError(f"options has {shown(name)}, which is no option of a run; did you mean {near[0]}?")
        no_options = ("run", "random_state", "verbose")
        given = {name: value for name, value in given.items() if value is not None and name not in no_options}
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        quiet = {"tensorboard": False, "checkpoints": 1, "frozen_every": 0, "seed": int(seed)}
        found = {name: plain(value) for name, value in (given | others).items()}
        for name in PER_LEVEL:  # one value for all levels need not be a list
            if isinstance(found.get(name), str | int):
                found[name] = (found[name],)
        return {**quiet, **found}

    def _from_source(self, X: Any, target: str | None, **options: Any) -> Callable[[Path], Series]:
        """A table in memory or paths, as the task reads them."""

        def make(folder: Path) -> Series:
            data = paths_in(X)
            if not data:
                data = (folder / DATA,)
                write_table(data[0], as_arrow(X))
            return Series(data=data, target=target, **options)

        return make

    def _given(self, X: Any) -> Any:
        """Data to predict on, as a trained run takes them."""
        check_is_fitted(self)
        if paths := paths_in(X):
            return paths
        return as_arrow(X) if is_frame(X) and self.table_ else sequences_in(self, X, reset=False)

    @contextmanager
    def _answering(self) -> Iterator[Trained]:
        check_is_fitted(self)
        with in_python(), threads_kept():
            torch.set_num_threads(self.trained_.config.upkeep.threads)
            yield self.trained_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _some(given: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def plain(value: Any) -> Any:
    """As options have it: whatever comes from numpy as Python's own."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(plain(one) for one in value)
    return value.item() if isinstance(value, np.generic) else value


class Spoken(Display):
    """What may be wrong with a run, as Python's warnings."""

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        for words in run.warnings:
            warnings.warn(named(words), UserWarning, stacklevel=8)
        yield


def named(words: str) -> str:
    """A sentence with options as Python has them."""
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda found: found[1].replace("-", "_"), words)


@contextmanager
def in_python(data: Path | None = None) -> Iterator[None]:
    """Errors in the caller's terms. data: a file of which the caller knows nothing"""
    try:
        yield
    except UserError as error:
        words = str(error) if data is None else str(error).replace(str(data), "X")
        raise UserError(named(words)) from None


@contextmanager
def threads_kept() -> Iterator[None]:
    """A run sets the threads of torch, which are the caller's afterwards."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def folder_for(run: Any) -> Iterator[Path]:
    """The folder of a run: the one that is named, without a trace if no run begins; or one that goes afterwards."""
    if run is None:
        with tempfile.TemporaryDirectory(prefix="hrnn-", ignore_cleanup_errors=True) as place:
            yield Path(place) / "run"
        return
    folder = checked_path(path_of("run", run), "run").expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"run is {folder}, which is there already; give a new folder, or remove it")
    try:
        yield folder
    except BaseException:
        if folder.is_dir() and not (folder / CONFIG).exists():
            with suppress(OSError):
                remove_tree(folder)
        raise
