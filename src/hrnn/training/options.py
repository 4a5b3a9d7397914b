"""The options of a run, whatever its task: the network, how it learns, when it is over. The command line is made from them.
Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hrnn.arguments import HUGE
from hrnn.limits import LEVELS, Limit, above, at_least, option
from hrnn.room import MOST_AT_ONCE

SUGGESTED: dict[str, Any] = {  # where a task has no opinion
    "hidden_sizes": (256, 256), "periods": (10,), "window": 200, "batch": 100, "learning_rate": 1e-3, "schedule": "constant",
}  # fmt: skip
RESTRICTED = ("ours", "gr-hrnn")  # models with restricted gradients; those of the others are true
THREADS = 1024  # far more, and the system cannot start them
ENTRIES = Limit(entries=LEVELS)


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
    """restricted, full, truncated:STEPS, checkpointed or checkpointed:BYTES, checkpointed-top, replay:P or
    synthetic; by default restricted for ours and gr-hrnn, otherwise full. What each does: docs/methods.md."""
    cell: str = "lstm"
    """lstm, gru, rnn, or module:Name of your own."""
    reads: tuple[Literal["summary", "inputs", "both"], ...] = option(("summary",), ENTRIES)
    """What each level above the lowest reads, or one for all. summary: the hidden state of the level below, as in the paper;
    inputs: the raw inputs of its segment that has just ended, so that no gradient has to come down; both."""
    reader: tuple[str, ...] = option(("linear",), ENTRIES)
    """What makes a vector of those raw inputs, for each level above the lowest or one for all. linear: a linear layer
    and ReLU; maximum: half of it is instead the largest that a linear layer gives for any part, for rare events; or module:Name
    of your own."""
    context: tuple[Literal["input", "state"], ...] = option(("input",), ENTRIES)
    """Where the hidden state above enters a segment, for each level below the top or one for all. input: as an input of its
    first tick, as in the paper; state: as its initial state."""
    output_levels: Literal["lowest", "all"] = "lowest"
    """What the linear head reads at every step: the state of the lowest level, as in the paper, or those of all levels."""
    burn_in: int = option(0, at_least(0))
    """So many inputs before each segment are read once more by the lowest level, from the context on, where its summary is not
    read."""
    segments: tuple[int, ...] | None = option(None, at_least(1, MOST_AT_ONCE, entries=LEVELS))
    """How many consecutive segments of a row share a batch, for each level below the top or one for all those that send and
    read no summary; by default as many as take about 8 MB."""
    betas: tuple[float, ...] | None = option(None, at_least(0, HUGE, entries=LEVELS))
    """Weight of the local loss of each level but the top, or one for all whose summary is read; 1 by default."""
    indices: Literal["sampled", "all"] = "all"
    """Whether a decoder recovers one random input of the segment (the paper) or all."""
    normalized: bool = True
    """Whether local losses are divided by the variance of what is to be decoded (the entropy of tokens), so that one of --betas
    suits all data."""
    symbol_weights: Literal["equal", "inverse"] = "equal"
    """inverse: in the lowest local loss, tokens count for the inverse of their frequency: for data where rare ones matter."""
    decoder_layers: int = option(2, at_least(1, 100))
    """Layers of each decoder."""
    decoder_units: int = option(256, at_least(1))
    """Units of a decoder's hidden layers."""

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
    window. Where rows tick at different steps, or several segments share a batch, it counts batches. 1 by default."""
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
    """Updates of the weights; with --update window or segment one for each window of a batch."""
    sequences: int | None = option(None, at_least(1))
    """Rows of all batches; the last batch is a whole one."""
    epochs: float | None = option(None, above(0, 1e9))
    """Passes over the training data, to the nearest whole batch."""
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
    tracker: Literal["wandb"] | None = None
    """Who else is told what the journal records; to be installed, and logged in to, by yourself."""
