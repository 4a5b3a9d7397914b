"""What a run is, as frozen dataclasses: the command line is made from them, and config.json holds them."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from hrnn.distributed import ALONE, Group
from hrnn.errors import UserError
from hrnn.tasks import Reading, Task, name_of, task_named

TaskT = TypeVar("TaskT", bound=Task)
SUGGESTED: dict[str, Any] = {"hidden_sizes": (256, 256), "periods": (10,), "window": 200}  # where a task has no opinion


@dataclass(frozen=True)
class Model:
    """The network and how its gradient is computed. Sizes and periods list the lowest level first."""

    model: Literal["ours", "hrnn", "gr-hrnn", "mr-hrnn", "lstm"] = "ours"
    """ours: restricted gradients and local losses; hrnn: true gradients; gr-hrnn: ours without local losses; mr-hrnn:
    hrnn in the memory of ours, by a shorter window; lstm: one flat level."""
    hidden_sizes: tuple[int, ...] | None = None
    """Units of each level; by default as in the paper (lstm: the size of the top level)."""
    periods: tuple[int, ...] | None = None
    """Ticks of a level to one tick of the level above, for each level but the top (text: for each one not ruled by
    --boundaries)."""
    window: int | None = None
    """Steps over which a gradient is taken; states are carried from window to window."""
    cell: str = "lstm"
    """lstm, gru, rnn, or module:Name of your own."""
    betas: tuple[float, ...] | None = None
    """Weight of the local loss of each level but the top, or one for all; 0.1 by default."""
    indices: Literal["sampled", "all"] = "sampled"
    """Whether a decoder recovers one random input of the segment (the paper) or all."""
    decoder_layers: int = 2
    """Layers of each decoder."""
    decoder_units: int = 256
    """Units of a decoder's hidden layers."""
    round_steps: int | None = None
    """Where the data say when levels tick: steps run forward before what is complete is differentiated; by default four times
    what the lowest decoder reaches. It bounds the memory, and how often levels can move with --update segment."""


@dataclass(frozen=True)
class Learning:
    """How weights move."""

    batch: int = 100
    """Rows of a batch."""
    update: Literal["batch", "window", "segment"] = "batch"
    """One update for all windows of a batch (the paper), or one for each window; segment: every level moves as soon as its own
    segments have been differentiated (ours and gr-hrnn), and an update is a window."""
    update_every: tuple[int, ...] | None = None
    """With --update segment: after how many of its segments each level moves, the lowest first, or one for all; 0: once a
    window. Where the data say when levels tick it counts rounds. 1 by default."""
    optimizer: Literal["adam", "adamw", "sgd", "rmsprop", "adagrad", "nadam", "radam", "adamax"] = "adam"
    """One of torch.optim."""
    learning_rate: float = 1e-3
    """Highest learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls to 0 over the budget."""
    warmup: int = 0
    """Updates over which the learning rate rises from 0."""
    momentum: float = 0.0
    """For sgd and rmsprop."""
    weight_decay: float = 0.0
    """As the optimizer defines it."""
    clip: float | None = None
    """Largest norm of the gradient over all parameters."""


@dataclass(frozen=True)
class Budget:
    """When a run is over; whichever comes first. Counts, not times: they mean the same on every machine."""

    updates: int | None = None
    """Updates of the weights."""
    sequences: int | None = None
    """Rows of all batches."""
    epochs: float | None = None
    """Passes over the training data."""
    validate_every: int | None = None
    """Updates between validations; by default one epoch."""
    stop_after: int | None = None
    """Stop after so many validations without gain."""


@dataclass(frozen=True)
class Upkeep:
    """What does not change the result, except that the seed and the thread count do, in the last bit."""

    seed: int = 0
    """Of weights, data and decoded indices."""
    threads: int = 1
    """Of torch; more than one can be slower when the machine is busy, and differs in the last bit."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    checkpoints: int = 3
    """How many of the last checkpoints are kept."""
    journal_every: int = 10
    """Updates between records of the journal."""
    tensorboard: bool = True
    """Write TensorBoard events."""
    frozen_every: int = 50
    """With --update segment: every so many updates the window is also scored before it is learned, all weights as they are
    then (frozen_loss in the journal); 0: never."""


@dataclass(frozen=True)
class Config(Generic[TaskT]):
    """A run: a function of this and of nothing else."""

    task: TaskT
    model: Model = field(default_factory=Model)
    learning: Learning = field(default_factory=Learning)
    budget: Budget = field(default_factory=Budget)
    upkeep: Upkeep = field(default_factory=Upkeep)

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
    def periods(self) -> tuple[int, ...]:
        return _known(self.model.periods)

    @property
    def betas(self) -> tuple[float, ...]:
        return _known(self.model.betas)

    @property
    def window(self) -> int:
        return _known(self.model.window)


def _known(value: Any) -> Any:
    if value is None:
        raise UserError("the configuration has open entries; complete it with hrnn.training.settled(config)")
    return value


def settled(config: Config[TaskT]) -> Config[TaskT]:
    """The same with every open entry filled in, and checked: what config.json holds."""
    config = replace(config, task=config.task.settled())
    suggested = {**SUGGESTED, **config.task.suggested}
    model, budget = config.model, config.budget
    if config.flat:
        if model.periods or (model.hidden_sizes and len(model.hidden_sizes) > 1) or model.cell != "lstm":
            raise UserError("--model lstm is one flat LSTM; give one of --hidden-sizes and neither --periods nor --cell")
        sizes = model.hidden_sizes or tuple(suggested["hidden_sizes"])[-1:]
        model = replace(model, hidden_sizes=sizes, periods=())
    levels = tuple(suggested["hidden_sizes"]) if model.hidden_sizes is None else model.hidden_sizes
    periods = tuple(suggested["periods"]) if model.periods is None else model.periods
    below_top = len(config.reaches) + len(periods)
    if len(levels) != below_top + 1:
        given = f" and {len(config.reaches)} of --boundaries" if config.reaches else ""
        raise UserError(
            f"--hidden-sizes has {len(levels)} entries for {len(periods)} of --periods{given}; "
            "every level but the top needs one"
        )
    if min((*levels, *periods)) < 1:
        raise UserError(f"--hidden-sizes {levels} --periods {periods}: give numbers of at least 1")
    betas = _betas(model, below_top)
    window = suggested["window"] if model.window is None else model.window
    if model.model == "mr-hrnn" and (config.reaches or not periods):
        raise UserError("--model mr-hrnn takes its window from fixed periods; use --model hrnn with a --window")
    model = replace(model, hidden_sizes=levels, periods=periods, betas=betas, window=window)
    learning = replace(config.learning, update_every=_update_every(config, len(levels)))
    if budget.updates is None and budget.sequences is None and budget.epochs is None:
        budget = replace(budget, **{k: suggested[k] for k in ("updates", "sequences", "epochs") if k in suggested})
    if budget.validate_every is None and "validate_every" in suggested:
        budget = replace(budget, validate_every=suggested["validate_every"])
    config = replace(config, model=model, learning=learning, budget=budget)
    _check_numbers(config)
    return config


def _betas(model: Model, below_top: int) -> tuple[float, ...]:
    if model.model in ("gr-hrnn", "lstm"):
        if model.betas is not None and any(model.betas):
            raise UserError(f"--model {model.model} has no local loss and --betas {model.betas} weighs one; drop either")
        return (0.0,) * below_top
    betas = (0.1,) if model.betas is None else model.betas
    betas = betas * below_top if len(betas) == 1 else betas
    if len(betas) != below_top or any(beta < 0 for beta in betas):
        raise UserError(f"--betas is {betas}; give one for each of the {below_top} levels below the top, none negative")
    return betas


def _update_every(config: Config[Any], levels: int) -> tuple[int, ...] | None:
    every, model = config.learning.update_every, config.model.model
    if config.learning.update != "segment":
        if every is not None:
            raise UserError(f"--update-every {every} is for --update segment; give that, or drop it")
        return None
    if model not in ("ours", "gr-hrnn"):
        raise UserError(
            f"--update segment needs gradients that are complete when a segment ends, which --model {model} has not; "
            "use --model ours or gr-hrnn, or --update window"
        )
    every = (1,) if every is None else every
    every = every * levels if len(every) == 1 else every
    if len(every) != levels or any(n < 0 for n in every):
        raise UserError(f"--update-every is {every}; give one for each of the {levels} levels, none negative")
    return every


def _check_numbers(config: Config[Any]) -> None:
    learning, budget, upkeep = config.learning, config.budget, config.upkeep
    at_least_1 = {
        "window": config.window,
        "batch": learning.batch,
        "decoder-layers": config.model.decoder_layers,
        "decoder-units": config.model.decoder_units,
        "round-steps": config.model.round_steps,
        "updates": budget.updates,
        "sequences": budget.sequences,
        "validate-every": budget.validate_every,
        "stop-after": budget.stop_after,
        "threads": upkeep.threads,
        "checkpoints": upkeep.checkpoints,
        "journal-every": upkeep.journal_every,
    }
    above_0: dict[str, float | None] = {
        "learning-rate": learning.learning_rate,
        "clip": learning.clip,
        "epochs": budget.epochs,
    }
    for name, count in at_least_1.items():
        if count is not None and count < 1:
            raise UserError(f"--{name} is {count}; give at least 1")
    if upkeep.frozen_every < 0:
        raise UserError(f"--frozen-every is {upkeep.frozen_every}; give a number of updates, or 0 for never")
    for name, number in above_0.items():
        if number is not None and not number > 0:
            raise UserError(f"--{name} is {number}; give a number above 0")
    if config.model.round_steps is not None and not config.reaches:
        raise UserError("--round-steps is for levels that tick where the data say (text with --boundaries); drop it")
    if learning.momentum and learning.optimizer not in ("sgd", "rmsprop"):
        raise UserError(f"--momentum is for sgd and rmsprop; {learning.optimizer} has its own")
    if budget.updates is None and budget.sequences is None and budget.epochs is None:
        raise UserError("the run has no end; give --updates, --sequences or --epochs")


def reading(config: Config[Any], window: int, group: Group = ALONE) -> Reading:
    """How the run reads its task: this process's share of the rows."""
    batch = config.learning.batch
    return Reading(seed=config.upkeep.seed, batch=batch, window=window, rows=group.rows(batch))


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


def from_json(entries: dict[str, Any]) -> Config[Any]:
    """The reverse of `to_json`."""
    task = dict(entries["task"])
    kind = task_named(task.pop("name"))
    sections = {"model": Model, "learning": Learning, "budget": Budget, "upkeep": Upkeep}
    return Config(_build(kind, task), **{name: _build(section, entries[name]) for name, section in sections.items()})


def _build(kind: type, entries: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    return kind(**{name: _typed(hints[name], value) for name, value in entries.items()})


def _typed(hint: Any, value: Any) -> Any:
    """JSON knows neither tuples nor paths; the annotation says where they were."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _typed(next(one for one in arguments if one is not type(None)), value)
    if origin is tuple:
        return tuple(_typed(arguments[0], entry) for entry in value)
    return Path(value) if hint is Path else value
