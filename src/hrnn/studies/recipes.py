"""The recipes: one function per row of the tables, from a profile to a run; `complete` adds seed, data, scale and runtime.

"paper": the paper's settings. Budgets, and patience where there is a curriculum, are ours: the paper gives none but for Penn
TreeBank. "desk": the same structure in minutes. Every setting that was tried for it is in docs/paper.md. All rows of an
experiment share one learning rate, one beta and one budget in sequences, but for `with_defaults`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from hrnn.errors import UserError
from hrnn.tasks import Copy, Needle, Pixels, Text
from hrnn.tasks.idx import MIRROR
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, TaskT, resolved

Profile = Literal["desk", "paper"]
Recipe = Callable[[Profile], Config[Any]]
Change = Callable[[Config[Any]], Config[Any]]

# What the recipes are changes of: every option is spelled out, so that new defaults change no row and no table that is there.
MODEL = Model(
    model="ours", hidden_sizes=None, periods=None, window=None, gradient=None, cell="lstm", reads=("summary",),
    reader=("linear",), context=("input",), burn_in=0, segments=None, betas=None, indices="sampled",
    normalized=False, symbol_weights="equal", output_levels="lowest", decoder_layers=2, decoder_units=256,
)  # fmt: skip
LEARNING = Learning(
    batch=100, update="batch", update_every=None, optimizer="adam", learning_rate=1e-3, schedule="constant", warmup=0,
    momentum=0.0, weight_decay=0.0, clip=None, average=None,
)  # fmt: skip
BUDGET = Budget(updates=None, sequences=None, epochs=None, validate_every=None, stop_after=None)
RUNTIME = Runtime(
    seed=0, threads=1, checkpoint_seconds=60.0, checkpoints=3, journal_every=25, tensorboard=False, frozen_every=0, tracker=None
)
COPY = Copy(length=None, start=1, step=1, until=None, patience=None, solved=0.15, test_sequences=1000)
PIXELS = Pixels(data=Path("mnist"), download=False, mirror=MIRROR, permuted=False, pool=1, order=())
TEXT = Text(
    data=(), validation=None, test=None, held_out=0.05, symbols="characters", boundaries=("word",), reach=20, unknown=False,
    vocabulary="",
)  # fmt: skip
NEEDLE = Needle(steps=1000, symbols=8, within=0.1, flagged=True, decoys=0, test_sequences=1000)

NEEDLE_BETAS = (0.0, 0.1, 1.0, 10.0)


# Variants: each changes one thing of a run, and `then` makes a recipe of a recipe by such a change.


def then(recipe: Callable[[Profile], Config[TaskT]], *changes: Callable[[Config[TaskT]], Config[TaskT]]) -> Recipe:
    """The same recipe, changed."""

    def changed(profile: Profile) -> Config[TaskT]:
        config = recipe(profile)
        for change in changes:
            config = change(config)
        return config

    return changed


def with_model(model: Literal["ours", "hrnn", "gr-hrnn", "mr-hrnn"]) -> Change:
    """Another of the paper's models; gr-HRNN has no local loss. mr-HRNN: true gradients over as many steps as ours stores
    vectors."""

    def change(config: Config[Any]) -> Config[Any]:
        betas = config.model.betas if model != "gr-hrnn" else (0.0,) * (len(config.hidden_sizes) - 1)
        return replace(config, model=replace(config.model, model=model, betas=betas))

    return change


def with_betas(*betas: float) -> Change:
    return lambda config: replace(config, model=replace(config.model, betas=betas))


def unlocked(config: Config[TaskT]) -> Config[TaskT]:
    """Every level moves as soon as its own segments have been differentiated; as many sequences as the others."""
    return replace(config, learning=replace(config.learning, update="segment", update_every=(1,)))


def locked(config: Config[TaskT]) -> Config[TaskT]:
    """One update a batch."""
    return replace(config, learning=replace(config.learning, update="batch", update_every=None))


def with_gradient(gradient: str) -> Change:
    """Another gradient method, as --gradient has it."""
    return lambda config: replace(config, model=replace(config.model, gradient=gradient))


def with_defaults(config: Config[TaskT]) -> Config[TaskT]:
    """The same task, sizes, learning rate and budget as a user learns it who sets nothing else; spelled out, too."""
    model = replace(config.model, betas=(1.0,) * (len(config.hidden_sizes) - 1), indices="all", normalized=True)
    learning = replace(config.learning, clip=1.0, average=5.0)
    if model.restricted:
        learning = replace(learning, update="segment", update_every=(1,))
    return replace(config, model=model, learning=learning)


def inverse(config: Config[TaskT]) -> Config[TaskT]:
    """Symbols count for the inverse of their frequency in the lowest local loss."""
    return replace(config, model=replace(config.model, symbol_weights="inverse"))


def permuted(config: Config[Pixels]) -> Config[Pixels]:
    """In one fixed random order of the pixels."""
    return replace(config, task=replace(config.task, permuted=True))


# Copy: Table 1.


def copy_ours(profile: Profile) -> Config[Copy]:
    if profile == "paper":
        return Config(
            replace(COPY, start=1, step=1, patience=5_000),
            replace(MODEL, hidden_sizes=(256, 256), periods=(10,), window=200, betas=(1.0,)),
            replace(LEARNING, batch=100, learning_rate=1e-3),
            replace(BUDGET, sequences=2_000_000),
        )
    return Config(
        replace(COPY, start=5, step=5, patience=1_000),
        replace(MODEL, hidden_sizes=(64, 64), periods=(5,), window=60, betas=(1.0,)),
        replace(LEARNING, batch=50, learning_rate=3e-3),
        replace(BUDGET, sequences=150_000),
    )


def copy_mr_bytes(profile: Profile) -> Config[Copy]:
    """True gradients over as many steps as fit the bytes that ours takes, measured rather than counted.

    The longest windows of HRNN with no more than ours, by hrnn.launching.measuring.bytes_of: at paper size 52.9 MB at 28 and
    59.4 at 32 beside 53.7 of ours; at the desk 6.0 at 12 and 6.4 at 14 beside 6.3.
    """
    config = with_model("hrnn")(copy_ours(profile))
    return replace(config, model=replace(config.model, window={"paper": 28, "desk": 13}[profile]))


def from_one_by_one(config: Config[Copy]) -> Config[Copy]:
    """What a model that misses the first length of the curriculum is given once more, at the same budget."""
    return replace(config, task=replace(config.task, start=1, step=1))


# Pixel MNIST, in order and permuted: Table 2.


def mnist_ours(profile: Profile) -> Config[Pixels]:
    if profile == "paper":
        return Config(
            PIXELS,
            replace(MODEL, hidden_sizes=(256, 256), periods=(10,), window=784, betas=(0.1,)),
            replace(LEARNING, batch=100, learning_rate=1e-3),
            replace(BUDGET, sequences=1_100_000, validate_every=550),
        )
    return Config(
        replace(PIXELS, pool=2),
        replace(MODEL, hidden_sizes=(64, 64), periods=(14,), window=196, betas=(0.1,)),
        replace(LEARNING, batch=50, learning_rate=2e-3, clip=1.0),
        replace(BUDGET, sequences=80_000, validate_every=160),
    )


# Penn TreeBank: Table 3.


def ptb_ours(profile: Profile) -> Config[Text]:
    if profile == "paper":
        return Config(
            TEXT,
            replace(MODEL, hidden_sizes=(256, 512), periods=(), window=50, betas=(0.1,)),
            replace(LEARNING, batch=100, learning_rate=1e-3),
            replace(BUDGET, epochs=100, stop_after=5),
        )
    return Config(
        TEXT,
        replace(MODEL, hidden_sizes=(128, 256), periods=(), window=50, betas=(0.1,)),
        replace(LEARNING, batch=100, learning_rate=2e-3),
        replace(BUDGET, sequences=50_000, validate_every=100),
    )


def ptb_default(profile: Profile) -> Config[Text]:
    """At the paper's size in longer windows, with a learning rate that falls, and for twelve epochs."""
    config = ptb_ours(profile)
    if profile == "paper":
        model, learning = replace(config.model, window=200), replace(config.learning, learning_rate=2e-3, schedule="cosine")
        config = replace(config, model=model, learning=learning, budget=replace(BUDGET, epochs=12))
    return with_defaults(config)


# Deeper hierarchies: Section 4.4. The weights are 0.1 for the lowest level and 1 for the middle one.


def deep_both(profile: Profile) -> Config[Copy]:
    if profile == "paper":
        return Config(
            replace(COPY, length=500),
            replace(MODEL, hidden_sizes=(64, 256, 1024), periods=(5, 5), window=1000, betas=(0.1, 1.0)),
            replace(LEARNING, batch=100, learning_rate=1e-3),
            replace(BUDGET, sequences=500_000),
        )
    return Config(
        replace(COPY, length=24),
        replace(MODEL, hidden_sizes=(32, 64, 128), periods=(4, 4), window=48, betas=(0.1, 1.0)),
        replace(LEARNING, batch=50, learning_rate=3e-3),
        replace(BUDGET, sequences=180_000),
    )


# Needle: beyond the paper, so at the desk only.


def needle_ours(profile: Profile) -> Config[Needle]:
    """A lowest level so narrow that it cannot keep all the noise that its decoder asks for."""
    return Config(
        replace(NEEDLE, steps=50),
        replace(MODEL, hidden_sizes=(32, 64), periods=(10,), window=50, betas=(0.1,)),
        replace(LEARNING, batch=50, learning_rate=3e-3, clip=1.0),
        replace(BUDGET, sequences=120_000, validate_every=120),
    )


def needle_over(steps: int, levels: int, sequences: int, validate_every: int) -> Recipe:
    """One window for the whole sequence; every level ticks ten times slower than the one below. Equal steps, not sequences."""
    return lambda profile: Config(
        replace(NEEDLE, steps=steps, test_sequences=min(1_000, 2_000_000 // steps)),
        replace(MODEL, hidden_sizes=(32, *[64] * (levels - 1)), periods=(10,) * (levels - 1), window=steps, betas=(0.1,)),
        replace(LEARNING, batch=10, learning_rate=3e-3, clip=1.0),
        replace(BUDGET, sequences=sequences, validate_every=validate_every),
    )


needle_1e3 = needle_over(1_000, levels=3, sequences=6_000, validate_every=50)
needle_1e4 = needle_over(10_000, levels=4, sequences=600, validate_every=10)
needle_1e5 = needle_over(100_000, levels=5, sequences=60, validate_every=2)


def complete(config: Config[TaskT], seed: int, data: Path | None, scale: float = 1.0, journal_every: int = 25) -> Config[TaskT]:
    """The run of a recipe for a seed, its data in the folders `data`/mnist and `data`/ptb, its budget times `scale`.

    Patience is not scaled: how long a length may take says nothing of how many there is time for.
    """
    task: Any = config.task
    if isinstance(task, Pixels):
        task = replace(task, data=_folder(data, "mnist"))
    elif isinstance(task, Text):
        task = replace(task, data=(_folder(data, "ptb"),))
    config = replace(config, task=task, upkeep=replace(RUNTIME, seed=seed, journal_every=journal_every))
    return resolved(config if scale == 1 else replace(config, budget=scaled(config.budget, config.batch, scale)))


def scaled(budget: Budget, batch: int, scale: float) -> Budget:
    """A share of the budget, in whole batches, with as many validations on the way."""
    return replace(
        budget,
        updates=None if budget.updates is None else max(1, round(budget.updates * scale)),
        sequences=None if budget.sequences is None else max(1, round(budget.sequences * scale / batch)) * batch,
        epochs=None if budget.epochs is None else budget.epochs * scale,
        validate_every=None if budget.validate_every is None else max(1, round(budget.validate_every * scale)),
    )


def _folder(data: Path | None, name: str) -> Path:
    """Where the data are, or a sentence that says where to put them."""
    what = {
        "mnist": "MNIST's four idx files, gzip or not",
        "ptb": "Penn TreeBank's ptb.train.txt, ptb.valid.txt and ptb.test.txt, gzip or not",
    }[name]
    if data is None:
        raise UserError(f"this experiment needs data; put {what} into DATA/{name} and give --data DATA")
    if not (data / name).is_dir():
        raise UserError(f"{data / name} is not a folder; put {what} there, or give another --data")
    return data / name
