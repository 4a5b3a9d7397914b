"""What a run is, as frozen dataclasses: the command line is made from them, and config.json holds them."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from hrnn import room
from hrnn.arguments import HUGE
from hrnn.errors import UserError, shortened
from hrnn.limits import LEVELS, Limit, above, at_least, built, fitted, option
from hrnn.metrics import Metric, Metrics
from hrnn.tasks import Task, name_of, task_named
from hrnn.training.methods import parsed

TaskT = TypeVar("TaskT", bound=Task)
T = TypeVar("T")
SUGGESTED: dict[str, Any] = {  # where a task has no opinion
    "hidden_sizes": (256, 256), "periods": (10,), "window": 200, "batch": 100, "learning_rate": 1e-3, "schedule": "constant",
}  # fmt: skip
NO_RUN = "the configuration does not describe a run that this version can do"
RESTRICTED = ("ours", "gr-hrnn")  # models with restricted gradients; those of the others are true
CELLS = ("lstm", "gru", "rnn")
THREADS = 1024  # far more, and the system cannot start them


@dataclass(frozen=True)
class Model:
    """The network and how its gradient is computed. Sizes and periods list the lowest level first."""

    model: Literal["ours", "hrnn", "gr-hrnn", "mr-hrnn", "lstm"] = "ours"
    """ours: restricted gradients and local losses; hrnn: true gradients; gr-hrnn: ours without local losses; mr-hrnn:
    hrnn in the memory of ours, by a shorter window; lstm: one flat level."""
    hidden_sizes: tuple[int, ...] | None = option(None, at_least(1, entries=LEVELS))
    """Units of each level; by default what suits the task (lstm: the size of the top level)."""
    periods: tuple[int, ...] | None = option(None, at_least(1, entries=LEVELS))
    """Ticks of a level to one tick of the level above, for each level but the top (text: for each one not ruled by
    --boundaries)."""
    window: int | None = option(None, at_least(1))
    """Steps over which a gradient is taken; states are carried from window to window."""
    gradient: str | None = None
    """restricted, full, truncated:STEPS, checkpointed or checkpointed:BYTES, checkpointed-top, replay:P, biased-replay:P or
    synthetic; by default restricted for ours and gr-hrnn, otherwise full. What each does: docs/methods.md."""
    cell: str = "lstm"
    """lstm, gru, rnn, or module:Name of your own."""
    betas: tuple[float, ...] | None = option(None, at_least(0, HUGE, entries=LEVELS))
    """Weight of the local loss of each level but the top, or one for all; 1 by default."""
    indices: Literal["sampled", "all"] = "all"
    """Whether a decoder recovers one random input of the segment (the paper) or all."""
    normalized: bool = True
    """Whether local losses are divided by the variance of what is to be decoded (the entropy of tokens), so that one of --betas
    suits all data."""
    symbol_weights: Literal["equal", "inverse"] = "equal"
    """inverse: in the lowest local loss, tokens count for the inverse of their frequency: for data where rare ones matter."""
    head: Literal["lowest", "all"] = "lowest"
    """What the linear head reads at every step: the state of the lowest level, as in the paper, or those of all levels."""
    decoder_layers: int = option(2, at_least(1, 100))
    """Layers of each decoder."""
    decoder_units: int = option(256, at_least(1))
    """Units of a decoder's hidden layers."""
    round_steps: int | None = option(None, at_least(1))
    """Where the data say when levels tick: steps run forward before what is complete is differentiated; by default four times
    what the lowest decoder reaches, with --update segment at most an eighth of the window (10 if that is less). It bounds the
    memory, and how often levels can move with --update segment."""
    segments_at_once: int | None = option(None, at_least(1, room.MOST_AT_ONCE))
    """With restricted gradients and fixed periods: segments of the lowest level run forward before they are differentiated, at
    most; by default as many as take 2.5 MB, 8 at most. More are quicker where networks are small, and change last bits."""

    @property
    def method(self) -> str:
        """How its gradient is computed, as --gradient has it."""
        return self.gradient or ("restricted" if self.model in RESTRICTED else "full")

    @property
    def restricted(self) -> bool:
        """Are its gradients restricted ones, complete when a segment ends?"""
        return self.method == "restricted"

    @property
    def has_local_losses(self) -> bool:
        return self.model not in ("gr-hrnn", "lstm")


@dataclass(frozen=True)
class Learning:
    """How weights move."""

    batch: int | None = option(None, at_least(1))
    """Rows of a batch; 100 by default, or what suits the task."""
    update: Literal["batch", "window", "segment"] | None = None
    """One update for all windows of a batch (the paper), or one for each window; segment: every level moves as soon as its own
    segments have been differentiated, and an update is a window. By default segment with restricted
    gradients (ours and gr-hrnn, unless --gradient says otherwise), otherwise batch."""
    update_every: tuple[int, ...] | None = option(None, at_least(0, entries=LEVELS))
    """With --update segment: after how many of its segments each level moves, the lowest first, or one for all; 0: once per
    window. Where the data say when levels tick it counts rounds. 1 by default."""
    optimizer: Literal["adam", "adamw", "sgd", "rmsprop", "adagrad", "nadam", "radam", "adamax"] = "adam"
    """One of torch.optim."""
    learning_rate: float | None = option(None, above(0, HUGE))
    """Highest learning rate; 1e-3 by default, or what suits the task."""
    schedule: Literal["constant", "linear", "cosine"] | None = None
    """How the learning rate falls to 0 over the budget; constant by default, or what suits the task."""
    warmup: int = option(0, at_least(0))
    """Updates over which the learning rate rises from 0."""
    momentum: float = option(0.0, Limit(0, 1, below=True))
    """For sgd and rmsprop."""
    weight_decay: float = option(0.0, at_least(0, HUGE))
    """As the optimizer defines it."""
    clip: float | None = option(1.0, above(0, HUGE))
    """Largest norm of the gradient, over all parameters or, with --update segment, those of the level that moves; None: any."""
    average: float | None = option(5.0, at_least(1, HUGE))
    """Time constant, in updates, of a moving average of the weights, with which the run is validated, tested and used; None: no
    average. Training itself goes on with the weights."""

    @property
    def rate(self) -> float:
        """The learning rate; where none is given, that of a task without an opinion."""
        return float(SUGGESTED["learning_rate"] if self.learning_rate is None else self.learning_rate)


@dataclass(frozen=True)
class Budget:
    """When a run is over; whichever comes first. Counts, not times: they mean the same on every machine."""

    updates: int | None = option(None, at_least(1))
    """Updates of the weights."""
    sequences: int | None = option(None, at_least(1))
    """Rows of all batches."""
    epochs: float | None = option(None, above(0, 1e9))
    """Passes over the training data."""
    validate_every: int | None = option(None, at_least(1))
    """Updates between validations; by default one epoch."""
    stop_after: int | None = option(None, at_least(1))
    """Stop after so many validations without gain."""


@dataclass(frozen=True)
class Runtime:
    """What does not change the result, except that the seed and the thread count do, in the last bit."""

    seed: int = 0
    """Of weights, data and decoded indices."""
    threads: int = option(1, at_least(1, THREADS))
    """Of torch; more than one can be slower when the machine is busy, and differs in the last bit."""
    checkpoint_seconds: float = option(60.0, at_least(0))
    """Seconds between checkpoints."""
    checkpoints: int = option(3, at_least(1))
    """How many of the last checkpoints are kept."""
    journal_every: int = option(10, at_least(1))
    """Updates between records of the journal."""
    tensorboard: bool = True
    """Write TensorBoard events."""
    frozen_every: int = option(50, at_least(0))
    """With --update segment: every so many updates the window is also scored before it is learned, all weights as they are
    then (frozen_loss in the journal); 0: never."""
    tracker: Literal["wandb", "trackio", "mlflow"] | None = None
    """Who else is told what the journal records; to be installed, and logged in to, by yourself."""


PARTS: dict[str, type] = {"model": Model, "learning": Learning, "budget": Budget, "upkeep": Runtime}  # of a Config, by name


@dataclass(frozen=True)
class Config(Generic[TaskT]):
    """A run: a function of this and of nothing else."""

    task: TaskT
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    upkeep: Runtime = field(default_factory=Runtime)

    def share_done(self, updates: int, sequences: int, per_epoch: int | None = None) -> float:
        """The share of the budget that so many updates and sequences use up, 1 at the end; per_epoch: batches of the task."""
        limits = ((updates, self.budget.updates), (sequences, self.budget.sequences))
        shares = [0.0, *(now / limit for now, limit in limits if limit is not None)]
        if self.budget.epochs is not None and per_epoch is not None:
            shares.append(sequences / self.batch / max(1, round(self.budget.epochs * per_epoch)))
        return max(shares)

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
        return room.output_size(self.hidden_sizes, self.model.head)

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

    @property
    def segments_at_once(self) -> int:
        return _known(self.model.segments_at_once)

    @property
    def grouped(self) -> bool:
        """Can several segments of the lowest level be differentiated together?"""
        return self.model.restricted and self.model.cell in CELLS and bool(self.periods) and not self.reaches


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
    levels = tuple(suggested["hidden_sizes"]) if model.hidden_sizes is None else model.hidden_sizes
    if model.hidden_sizes is None and model.periods is not None:  # then the periods say how many levels there are
        count = len(config.reaches) + len(model.periods) + 1
        levels = (levels + levels[-1:] * count)[:count]
    periods = tuple(suggested["periods"]) if model.periods is None else model.periods
    below_top = max(len(levels) - 1, 0)
    window = suggested["window"] if model.window is None else model.window
    default = 1.0 if model.has_local_losses else 0.0
    betas = _for_each((default,) if model.betas is None else model.betas, below_top)
    at_once = model.segments_at_once  # if it is open, it waits for the task to know its inputs
    model = replace(model, hidden_sizes=levels, periods=periods, betas=betas, window=window, segments_at_once=at_once or 1)
    learning = replace(learning, update=learning.update or ("segment" if model.restricted else "batch"))
    if learning.update == "segment" and config.reaches and model.round_steps is None:
        rounds = min(4 * config.reaches[0], max(10, window // 8))  # several to a window, if it is long
        model = replace(model, round_steps=rounds)
    every = (1,) if learning.update == "segment" and learning.update_every is None else learning.update_every
    learning = replace(learning, update_every=every and _for_each(every, len(levels)))
    named = ("batch", "learning_rate", "schedule")
    learning = replace(learning, **{name: suggested[name] for name in named if getattr(learning, name) is None})
    if budget.updates is None and budget.sequences is None and budget.epochs is None:
        budget = replace(budget, **{k: suggested[k] for k in ("updates", "sequences", "epochs") if k in suggested})
    if budget.validate_every is None and "validate_every" in suggested:
        budget = replace(budget, validate_every=suggested["validate_every"])
    task = config.task.suited(periods, _known(window))
    config = checked(replace(config, task=task, model=model, learning=learning, budget=budget))
    config = fitted(replace(config, task=config.task.resolved()))  # late, because it may read data
    return config if at_once else replace(config, model=replace(config.model, segments_at_once=_segments_at_once(config)))


def _segments_at_once(config: Config[Any]) -> int:
    """By the rows of the whole batch, so that the number is the same however many processes share it."""
    if not config.grouped:
        return 1
    inputs, (size, *_), (period, *_) = config.task.inputs, config.hidden_sizes, config.periods
    numbers = inputs if isinstance(inputs, int) else 1
    most = room.segments_at_once(config.model.cell, size, period, config.batch, numbers)
    return min(most, (config.learning.update_every or (0,))[0] or most)  # no more than it runs before it moves


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
    sizes, periods, betas = config.hidden_sizes, config.periods, config.betas
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
    if model.round_steps is not None and not config.reaches:
        raise UserError("--round-steps is for levels that tick where the data say (text with --boundaries); drop it")
    if config.segments_at_once > 1 and not config.grouped:
        raise UserError(
            f"--segments-at-once is {config.segments_at_once}, which is for --model ours and gr-hrnn with built-in cells and "
            "fixed --periods only; drop it"
        )
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
    if every is not None and every[0] == 1 and (at_once := model.segments_at_once or 1) > 1:
        raise UserError(
            f"--segments-at-once is {at_once} and the lowest level moves after each; give --update-every {at_once}, or drop it"
        )
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
