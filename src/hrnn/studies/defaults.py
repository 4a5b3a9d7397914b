"""Is there one default for all? The library's defaults with four betas on five tasks, at the desk's sizes and budgets; and
where counting symbols by their rarity ends: rare symbols that do not matter, and a needle that looks like the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import hrnn.studies.recipes as recipes
from hrnn.studies.experiment import Experiment, Quantity, Record, Row
from hrnn.studies.paper import (
    ACCURACY,
    BITS,
    CHANCE,
    COPY,
    DEEP_COPY,
    LEARNED,
    LENGTH,
    MNIST,
    NEEDLE,
    PTB,
    PTB_TEST,
    PTB_VALID,
    SOLVED,
    accuracy,
)
from hrnn.studies.recipes import Change, Recipe, inverse, then, with_betas, with_defaults, with_model
from hrnn.studies.rules import every_run, near_best
from hrnn.tasks import Needle
from hrnn.training.config import Config

BETAS = (0.1, 1.0, 10.0, 100.0)
ROWS = tuple(f"beta-{beta:g}" for beta in BETAS)
THIRTY = 30  # as many bits as the desk's window of 60 holds


def _until_thirty(result: Record, records: Sequence[Record]) -> float | None:
    solved = (one for one in records if one["kind"] == "length" and one["outcome"] == "solved" and one["length"] >= THIRTY)
    update = next((one["update"] for one in solved), math.inf)
    later = (one for one in records if one["kind"] == "update" and one["update"] >= update)
    return next((float(one["sequences"]) for one in later), None)


UNTIL_THIRTY = Quantity("learned", f"sequences until {THIRTY}", _until_thirty, 0, higher_is_better=False)


def _by_beta(recipe: Recipe) -> tuple[Row, ...]:
    """The defaults with every beta, for all levels the same."""

    def with_all(beta: float) -> Change:
        return lambda config: with_betas(*[beta] * (len(config.hidden_sizes) - 1))(config)

    return tuple(
        Row(name, f"beta {beta:g}", then(recipe, with_defaults, with_all(beta))) for name, beta in zip(ROWS, BETAS, strict=True)
    )


def _of(base: Experiment, recipe: Recipe, quantities: tuple[Quantity, ...], within: float) -> Experiment:
    first = quantities[0]
    words = f"beta 1 is at most {within:g} behind the best beta"
    return replace(
        base,
        name=f"beta-{base.name}",
        title=f"{base.title.partition(':')[0]}: defaults, four betas",
        rows=_by_beta(recipe),
        quantities=quantities,
        expectations=(near_best(words, "beta-1", ROWS, first.name, within=within, higher_is_better=first.higher_is_better),),
        panels=tuple(replace(panel, rows=(), title="") for panel in base.panels[:1]),
        profiles=("desk",),
        again=None,
        with_memory=False,
    )


def needle(profile: recipes.Profile) -> Config[Needle]:
    """Half of the needle's budget: what finds it, finds it by then."""
    config = recipes.needle_ours(profile)
    return replace(config, budget=replace(config.budget, sequences=60_000))


BY_BETA = (
    _of(COPY, recipes.copy_ours, (LENGTH, UNTIL_THIRTY), within=1.5),
    _of(MNIST, recipes.mnist_ours, (ACCURACY,), within=0.01),
    _of(PTB, recipes.ptb_ours, (PTB_TEST, PTB_VALID), within=0.03),
    _of(DEEP_COPY, recipes.deep_both, (BITS, SOLVED), within=0.01),
    _of(NEEDLE, then(needle, inverse), (ACCURACY, LEARNED), within=0.01),
)


# Rarity: what is flagged is rare and matters; decoys are as rare and do not; without a flag the first symbol matters.


def with_decoys(config: Config[Needle]) -> Config[Needle]:
    """Five rare symbols a sequence that do not matter."""
    return replace(config, task=replace(config.task, decoys=5))


def unflagged(config: Config[Needle]) -> Config[Needle]:
    """The first symbol is to be remembered, and looks like all the others; what is rare are decoys."""
    return replace(config, task=replace(config.task, flagged=False, decoys=5))


def _variant(name: str, title: str, *changes: Change) -> tuple[Row, ...]:
    recipe = then(needle, with_defaults, *changes)
    return (
        Row(f"{name}-equal", f"{title}, equal weights", recipe),
        Row(f"{name}-inverse", f"{title}, inverse frequency", then(recipe, inverse)),
        Row(f"{name}-hrnn", f"{title}, HRNN", then(needle, with_model("hrnn"), with_defaults, *changes)),
    )


VARIANTS = {"flagged": "flagged", "decoys": "flagged among decoys", "unflagged": "unflagged, with decoys"}
RARITY = Experiment(
    "needle-rarity",
    "Needle: where counting symbols by their rarity ends",
    (
        *_variant("flagged", VARIANTS["flagged"]),
        *_variant("decoys", VARIANTS["decoys"], with_decoys),
        *_variant("unflagged", VARIANTS["unflagged"], unflagged),
    ),
    (ACCURACY, LEARNED),
    tuple(
        every_run(f"inverse frequency finds the needle ({title})", f"{name}-inverse", "accuracy", at_least=0.99)
        for name, title in VARIANTS.items()
    ),
    tuple(
        accuracy(title, tuple(f"{name}-{kind}" for kind in ("equal", "inverse", "hrnn")), CHANCE)
        for name, title in VARIANTS.items()
    ),
    profiles=("desk",),
    with_memory=False,
)

EXPERIMENTS = {one.name: one for one in (*BY_BETA, RARITY)}
