"""What a run is: its task and its options, completed, checked, and as config.json holds them."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from hrnn import room
from hrnn.errors import UserError, shortened
from hrnn.limits import built, fitted
from hrnn.metrics import Metric, Metrics
from hrnn.tasks import Task, name_of, task_named
from hrnn.training import edges
from hrnn.training.methods import parsed
from hrnn.training.options import RESTRICTED as RESTRICTED
from hrnn.training.options import SUGGESTED as SUGGESTED
from hrnn.training.options import Budget as Budget
from hrnn.training.options import Learning as Learning
from hrnn.training.options import Model as Model
from hrnn.training.options import Runtime as Runtime

TaskT = TypeVar("TaskT", bound=Task)
T = TypeVar("T")
NO_RUN = "the configuration does not describe a run that this version can do"
CELLS = tuple(room.CELLS)
PARTS: dict[str, type] = {"model": Model, "learning": Learning, "budget": Budget, "upkeep": Runtime}  # of a Config, by name


@dataclass(frozen=True)
class Config(Generic[TaskT]):
    """A run: a function of this and of nothing else."""

    task: TaskT
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    upkeep: Runtime = field(default_factory=Runtime)

    def share_done(self, updates: int, sequences: float, per_epoch: int | None = None) -> float:
        """The share of the budget that so many updates and sequences use up, 1 at the end; per_epoch: batches of the task."""
        batches = self.batches_allowed(per_epoch)
        limits = ((updates, self.budget.updates), (sequences, batches and batches * self.batch))
        return max([0.0, *(now / limit for now, limit in limits if limit is not None)])

    def batches_allowed(self, per_epoch: int | None) -> int | None:
        """By sequences and epochs: whole batches, at least one; None: by neither."""
        sequences, epochs = self.budget.sequences, self.budget.epochs
        limits = [] if sequences is None else [-(-sequences // self.batch)]
        limits += [] if epochs is None or per_epoch is None else [max(1, round(epochs * per_epoch))]
        return min(limits, default=None)

    @property
    def flat(self) -> bool:
        return self.model.model == "lstm"

    @property
    def reaches(self) -> tuple[int, ...]:
        return () if self.flat else self.task.reaches

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        return _known(self.model.hidden_sizes)

    @property
    def output_size(self) -> int:
        """Numbers that the head reads at a step."""
        return room.output_size(self.hidden_sizes, self.model.output_levels)

    @property
    def periods(self) -> tuple[int, ...]:
        return _known(self.model.periods)

    @property
    def measured(self) -> Metrics:
        """What the task is measured by; local losses that are divided by what guessing costs have no unit of the data's."""
        found = self.task.measured
        return replace(found, local=replace(found.local, unit="of 1 by guessing")) if self.model.normalized else found

    @property
    def betas(self) -> tuple[float, ...]:
        return _known(self.model.betas)

    @property
    def window(self) -> int:
        return _known(self.model.window)

    @property
    def batch(self) -> int:
        return _known(self.learning.batch)


def _known(value: T | None) -> T:
    if value is None:
        raise UserError("the configuration has open entries; complete it with hrnn.training.config.resolved(config)")
    return value


def resolved(config: Config[TaskT]) -> Config[TaskT]:
    """The same with every open entry filled in, and checked: what config.json holds."""
    config = fitted(config)
    suggested = {**SUGGESTED, **config.task.suggestions()}
    model, learning, budget = config.model, config.learning, config.budget
    if config.flat:
        sizes = model.hidden_sizes or tuple(suggested["hidden_sizes"])[-1:]
        model = replace(model, hidden_sizes=sizes, periods=model.periods or ())
    levels = sizes_for(config, tuple(suggested["hidden_sizes"])) if model.hidden_sizes is None else model.hidden_sizes
    periods = tuple(suggested["periods"]) if model.periods is None else model.periods
    window = suggested["window"] if model.window is None else model.window
    model = replace(model, hidden_sizes=levels, periods=periods, window=window)
    learning = replace(learning, update=learning.update or ("segment" if model.restricted else "batch"))
    every = (1,) if learning.update == "segment" and learning.update_every is None else learning.update_every
    learning = replace(learning, update_every=every and _for_each(every, len(levels)))
    named = ("batch", "learning_rate", "schedule")
    learning = replace(learning, **{name: suggested[name] for name in named if getattr(learning, name) is None})
    model = edges.completed(model, (*config.reaches, *periods), _known(learning.batch))
    if budget.updates is None and budget.sequences is None and budget.epochs is None:
        budget = replace(budget, **{k: suggested[k] for k in ("updates", "sequences", "epochs") if k in suggested})
    if budget.validate_every is None and "validate_every" in suggested:
        budget = replace(budget, validate_every=suggested["validate_every"])
    task = config.task.suited(periods, _known(window))
    config = checked(replace(config, task=task, model=model, learning=learning, budget=budget))
    return fitted(replace(config, task=config.task.resolved()))  # late, because it may read data


def sizes_for(config: Config[Any], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes that nobody gave: given periods say how many levels there are."""
    if config.model.periods is None:
        return sizes
    count = len(config.reaches) + len(config.model.periods) + 1
    return (sizes + sizes[-1:] * count)[:count]


def _for_each(values: tuple[T, ...], levels: int) -> tuple[T, ...]:
    """One entry stands for all levels."""
    return values * levels if len(values) == 1 else values


def checked(config: Config[TaskT]) -> Config[TaskT]:
    """A resolved configuration, from wherever it comes, or a UserError: types, ranges, and options that contradict each other.

    It looks at no data and imports no module. Whether the run fits this machine is asked where it is begun.
    """
    config = fitted(config)
    if not isinstance(config.task, Task):
        raise UserError(f"the task is {shortened(config.task)}; give one of hrnn.tasks, or your own subclass of its Task")
    if not config.task.metrics or not all(isinstance(metric, Metric) for metric in config.task.metrics):
        raise UserError(
            f"the task's metrics are {shortened(config.task.metrics)}; give some hrnn.tasks.Metric, the score first"
        )
    config.task.check()
    model, learning, budget = config.model, config.learning, config.budget
    sizes, periods = config.hidden_sizes, config.periods
    _known(model.segments)
    _known(config.window and config.batch and learning.learning_rate and learning.schedule and learning.update)  # none is open
    if config.flat and (periods or len(sizes) != 1 or model.cell != "lstm"):
        raise UserError("--model lstm is one flat LSTM; give one of --hidden-sizes and neither --periods nor --cell")
    if len(sizes) != len(config.reaches) + len(periods) + 1:
        given = f" and {len(config.reaches)} of --boundaries" if config.reaches else ""
        raise UserError(
            f"--hidden-sizes has {len(sizes)} entries for {len(periods)} of --periods{given}; every level but the top needs one"
        )
    if model.cell not in CELLS and ":" not in model.cell:
        raise UserError(f"--cell is {shortened(model.cell)!r}; give {', '.join(CELLS)}, or module:Name of your own")
    edges.check(model, (*config.reaches, *periods))
    betas = config.betas
    if not model.has_local_losses and any(betas):
        raise UserError(f"--model {model.model} has no local loss and --betas {betas} weighs one; drop either")
    if model.symbol_weights != "equal" and not any(betas):
        raise UserError(f"--symbol-weights {model.symbol_weights} weighs a local loss, and there is none; drop it")
    if len(betas) != len(sizes) - 1:
        raise UserError(f"--betas is {betas}; give one for each of the {len(sizes) - 1} levels below the top")
    method, _ = parsed(model.method)
    if model.gradient is not None and (model.model == "mr-hrnn" or (config.flat and method.restricted)):
        raise UserError(
            f"--gradient is {model.gradient}, which --model {model.model} does not take; use --model ours or hrnn with it"
        )
    if model.model == "mr-hrnn" and (config.reaches or not periods):
        raise UserError("--model mr-hrnn takes its window from fixed periods; use --model hrnn with a --window")
    _check_learning(model, learning, len(sizes))
    if budget.updates is None and budget.sequences is None and budget.epochs is None:
        raise UserError("the run has no end; give --updates, --sequences or --epochs")
    return config


def _check_learning(model: Model, learning: Learning, levels: int) -> None:
    every = learning.update_every
    if learning.update != "segment" and every is not None:
        raise UserError(f"--update-every {every} is for --update segment; give that, or drop it")
    if learning.update == "segment" and not model.restricted:
        raise UserError(
            f"--update segment needs gradients that are complete when a segment ends, which {model.method} ones of --model "
            f"{model.model} are not; use --model ours or gr-hrnn without --gradient, or --update window"
        )
    if learning.update == "segment" and len(every or ()) != levels:
        raise UserError(f"--update-every is {every}; give one for each of the {levels} levels")
    if learning.momentum and learning.optimizer not in ("sgd", "rmsprop"):
        raise UserError(f"--momentum is for sgd and rmsprop; {learning.optimizer} has its own")


def to_json(config: Config[Any]) -> dict[str, Any]:
    """The configuration as plain JSON; the task by its name and its options."""
    entries = dataclasses.asdict(config)
    entries["task"] = {"name": name_of(config.task), **entries["task"]}
    return typing.cast(dict[str, Any], _plain(entries))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def from_json(entries: Any) -> Config[Any]:
    """The reverse of `to_json`, checked: a file may hold anything."""
    if not isinstance(entries, dict) or set(entries) != {"task", *PARTS}:
        raise UserError(f"{NO_RUN} (entries {shortened(list(entries) if isinstance(entries, dict) else entries)})")
    task = entries["task"]
    if not isinstance(task, dict) or not isinstance(task.get("name"), str):
        raise UserError(f"{NO_RUN} (its task is {shortened(task)})")
    kind = task_named(task["name"])
    options = {name: value for name, value in task.items() if name != "name"}
    try:
        made = built(kind, options, "the task")
        return checked(Config(made, **{name: built(part, entries[name], name) for name, part in PARTS.items()}))
    except UserError as error:
        raise UserError(f"{NO_RUN}: {error}") from None
