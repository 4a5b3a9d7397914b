"""The paper's sizes, learned in ways that come to their end in hours: another start of the curriculum, one image row a period,
a learning rate that falls, and our defaults. The recipes that follow the paper to the letter are in paper.py."""

from __future__ import annotations

from dataclasses import replace

from hrnn.studies.experiment import Experiment, Quantity, Record, Row
from hrnn.studies.paper import ACCURACY, COPY, LENGTH, MNIST, SOLVED_LENGTH, default, models
from hrnn.studies.recipes import (
    BUDGET,
    LEARNING,
    MODEL,
    PIXELS,
    Profile,
    permuted,
    then,
    with_betas,
    with_defaults,
    with_model,
)
from hrnn.studies.recipes import COPY as COPY_TASK
from hrnn.studies.rules import ahead, every_run, on_par
from hrnn.tasks import Copy, Pixels
from hrnn.training.config import Config

LONGEST = 108  # what ours solves in the paper


# The copy task from 20 by 4, each length until it is solved.


def copy_from_20(profile: Profile) -> Config[Copy]:
    return Config(
        replace(COPY_TASK, start=20, step=4, until=LONGEST),
        replace(MODEL, hidden_sizes=(256, 256), periods=(10,), window=200, betas=(1.0,)),
        replace(LEARNING, batch=100, learning_rate=1e-3),
        replace(BUDGET, sequences=2_000_000),
    )


def _sequences_until_longest(result: Record, records: object) -> float | None:
    return float(result["sequences"]) if result[SOLVED_LENGTH.in_result] >= LONGEST else None


UNTIL_LONGEST = Quantity("learned", f"sequences until {LONGEST}", _sequences_until_longest, 0, higher_is_better=False)

COPY_FROM_20 = Experiment(
    "copy-from-20",
    "Copy from length 20 by 4: longest length solved",
    (default(copy_from_20), *models(copy_from_20)),
    (LENGTH, UNTIL_LONGEST),
    (
        every_run(f"ours with defaults solves {LONGEST} on every run", "default", "length", at_least=LONGEST),
        on_par("ours with defaults is on par with HRNN", "default", "hrnn", "length", share=0.1),
        on_par("ours is on par with HRNN", "ours", "hrnn", "length", share=0.1),
        ahead("ours with defaults is well ahead of mr-HRNN", "default", "mr-hrnn", "length", times=1.5),
        ahead("ours with defaults is well ahead of gr-HRNN", "default", "gr-hrnn", "length", times=1.5),
    ),
    COPY.panels,
    profiles=("paper",),
)


# Pixel MNIST, all 784 steps, ten epochs; a period is one row of the image.


def mnist_rows(profile: Profile) -> Config[Pixels]:
    return Config(
        PIXELS,
        replace(MODEL, hidden_sizes=(128, 256), periods=(28,), window=784, betas=(1.0,)),
        replace(LEARNING, batch=50, learning_rate=2e-3, schedule="cosine"),
        replace(BUDGET, sequences=550_000, validate_every=550),
    )


def of_the_paper(config: Config[Pixels]) -> Config[Pixels]:
    """The paper's levels and period."""
    return replace(config, model=replace(config.model, hidden_sizes=(256, 256), periods=(10,)))


HRNN_ROWS = then(mnist_rows, with_model("hrnn"), with_defaults)  # true gradients, and all else that needs none of ours

MNIST_784 = Experiment(
    "mnist-784",
    "Pixel MNIST, 784 steps: accuracy on test",
    (
        Row("default", "ours, defaults, k 28", then(mnist_rows, with_defaults)),
        Row("hrnn", "HRNN, k 28", HRNN_ROWS),
        Row("default-10", "ours, defaults, k 10", then(mnist_rows, of_the_paper, with_defaults)),
    ),
    (ACCURACY,),
    (
        every_run("ours with defaults has the published 98.86 % on every run", "default", "accuracy", at_least=0.9886),
        on_par("ours with defaults is on par with HRNN", "default", "hrnn", "accuracy", within=0.003),
    ),
    (replace(MNIST.panels[0], bottom=0.9), *MNIST.panels[1:]),  # what matters here is above
    data=("mnist",),
    profiles=("paper",),
)

PERMUTED_784 = replace(
    MNIST_784,
    name="permuted-mnist-784",
    title="Permuted pixel MNIST, 784 steps: accuracy on test",
    rows=tuple(Row(row.name, row.title, then(row.recipe, permuted)) for row in MNIST_784.rows[:2]),
    expectations=(
        every_run("ours with defaults has the published 96.80 % on every run", "default", "accuracy", at_least=0.9680),
        on_par("ours with defaults is on par with HRNN", "default", "hrnn", "accuracy", within=0.01),
    ),
)


# Three levels, by a curriculum towards the length of the paper's figure.


def deep_from_50(profile: Profile) -> Config[Copy]:
    return Config(
        replace(COPY_TASK, start=50, step=50, until=500),
        replace(MODEL, hidden_sizes=(64, 256, 1024), periods=(5, 5), window=1000, betas=(0.1, 1.0)),
        replace(LEARNING, batch=100, learning_rate=1e-3),
        replace(BUDGET, sequences=500_000),
    )


DEEP_FROM_50 = Experiment(
    "deep-copy-from-50",
    "Three levels, copy from 50 by 50: longest length solved",
    (
        Row("default", "defaults, both losses", then(deep_from_50, with_defaults)),
        Row("lowest", "defaults, lowest only", then(deep_from_50, with_defaults, with_betas(1.0, 0.0))),
    ),
    (LENGTH,),
    (
        every_run("both losses solve length 200 on every run", "default", "length", at_least=200),
        ahead("both losses are well ahead of the lowest only", "default", "lowest", "length", times=1.5),
    ),
    COPY.panels,
    profiles=("paper",),
)

EXPERIMENTS = {one.name: one for one in (COPY_FROM_20, MNIST_784, PERMUTED_784, DEEP_FROM_50)}
