"""The paper's experiments, and two beyond it: their rows, what is read from a run, what is expected, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hrnn.studies.recipes as recipes
from hrnn.metrics import Metric
from hrnn.studies.experiment import Experiment, Panel, Quantity, Record, Row
from hrnn.studies.recipes import NEEDLE_BETAS, Recipe, inverse, permuted, then, unlocked, with_betas, with_defaults, with_model
from hrnn.studies.rules import Expectation, ahead, best_behind_best, close, every_run, on_par, spread_over
from hrnn.tasks import Copy, Needle, Text

CHANCE_BITS, SOLVED_BITS = 0.9, 0.15  # at least, at most, per recalled character
SOLVED_LENGTH, RECALLED, RIGHT, CHARACTERS = Copy().progress, Copy().score, Needle().score, Text().score  # metrics


def missed(result: Record) -> bool:
    """Did a curriculum solve not even its first length?"""
    return result.get(SOLVED_LENGTH.in_result) == 0


def _from(part: str, metric: Metric) -> Callable[[Record, Sequence[Record]], float | None]:
    return lambda result, records: result.get(part, {}).get(metric.name)


def _sequences_until_right(result: Record, records: Sequence[Record]) -> float | None:
    """Sequences seen at the first validation that was 90 % right."""
    reached = (one for one in records if one["kind"] == "validation" and one[RIGHT.name] >= 0.9)
    return next((float(record["sequences"]) for record in reached), None)


def _sequences_until_solved(result: Record, records: Sequence[Record]) -> float | None:
    return float(result["sequences"]) if result[SOLVED_LENGTH.in_result] else None


LENGTH = Quantity("length", "longest length solved", lambda result, _: float(result[SOLVED_LENGTH.in_result]), digits=1)
ACCURACY = Quantity("accuracy", "accuracy on test", _from("test", RIGHT))
VALIDATED = Quantity("validation-accuracy", "accuracy on validation", _from("validation", RIGHT))
PTB_VALID = Quantity("validation", "validation bits/char", _from("validation", CHARACTERS), higher_is_better=False)
PTB_TEST = Quantity("test", "test bits/char", _from("test", CHARACTERS), higher_is_better=False)
BITS = Quantity("bits", "bits per recalled character", _from("test", RECALLED), higher_is_better=False)
SOLVED = Quantity("learned", "sequences until solved", _sequences_until_solved, 0, higher_is_better=False)
LEARNED = Quantity("learned", "sequences until 90 % right", _sequences_until_right, 0, higher_is_better=False)


def ahead_of_both(quantity: str, words: str, **margin: float) -> tuple[Expectation, ...]:
    """Ours and HRNN against the two that should fall behind."""
    return tuple(
        ahead(f"{first} {words} {second}", first.lower(), second.lower(), quantity, **margin)  # type: ignore[arg-type]
        for first in ("ours", "HRNN")
        for second in ("mr-HRNN", "gr-HRNN")
    )


def accuracy(title: str = "", rows: tuple[str, ...] = (), lines: tuple[tuple[float, str], ...] = ()) -> Panel:
    return Panel(RIGHT.name, "accuracy on validation", title=title, rows=rows, lines=lines, top=1.01)


def default(recipe: Recipe) -> Row:
    """Ours as the library's defaults have it."""
    return Row("default", "ours, defaults", then(recipe, with_defaults))


def models(ours: Recipe) -> tuple[Row, ...]:
    """The paper's four: ours and those that it is compared with."""
    return (
        Row("ours", "ours", ours),
        Row("gr-hrnn", "gr-HRNN", then(ours, with_model("gr-hrnn"))),
        Row("hrnn", "HRNN", then(ours, with_model("hrnn"))),
        Row("mr-hrnn", "mr-HRNN", then(ours, with_model("mr-hrnn"))),
    )


COPY = Experiment(
    "copy",
    "Copy task: longest length solved",
    (
        *models(recipes.copy_ours),
        Row("mr-hrnn-bytes", "mr-HRNN, equal bytes", recipes.copy_mr_bytes),
        Row("unlocked", "ours, unlocked", then(recipes.copy_ours, unlocked)),
        default(recipes.copy_ours),
    ),
    (LENGTH,),
    (
        on_par("ours is on par with HRNN", "ours", "hrnn", "length", share=0.1),
        *ahead_of_both("length", "is well ahead of", times=1.5),
    ),
    (Panel(SOLVED_LENGTH.name, SOLVED_LENGTH.axis, kind="update", steps=True, end=SOLVED_LENGTH.in_result),),
    again=recipes.from_one_by_one,
)

MNIST = Experiment(
    "mnist",
    "Pixel MNIST: accuracy on test",
    (
        *models(recipes.mnist_ours),
        Row("unlocked", "ours, unlocked", then(recipes.mnist_ours, unlocked)),
        default(recipes.mnist_ours),
    ),
    (ACCURACY,),
    (
        on_par("ours is on par with HRNN", "ours", "hrnn", "accuracy", within=0.02),
        *ahead_of_both("accuracy", "is well ahead of", by=0.05),
    ),
    (accuracy(), Panel("loss", "training loss (nats)", kind="update")),
    data=("mnist",),
)

PERMUTED = Experiment(
    "permuted-mnist",
    "Permuted pixel MNIST: accuracy on test",
    tuple(Row(row.name, row.title, then(row.recipe, permuted)) for row in MNIST.rows),
    (ACCURACY,),
    (
        on_par("ours is on par with HRNN", "ours", "hrnn", "accuracy", within=0.01),
        *ahead_of_both("accuracy", "is ahead, by a point or more, of", by=0.01),
    ),
    MNIST.panels,
    data=("mnist",),
)

PTB = Experiment(
    "ptb",
    "Penn TreeBank: bits per character",
    (
        *models(recipes.ptb_ours)[:3],
        Row("unlocked", "ours, unlocked", recipes.then(recipes.ptb_ours, recipes.unlocked)),
        Row("default", "ours, defaults", recipes.ptb_default),
    ),
    (PTB_VALID, PTB_TEST),
    (
        close("all three are within 0.03 bits on validation", ("ours", "gr-hrnn", "hrnn"), "validation", 0.03),
        close("all three are within 0.03 bits on test", ("ours", "gr-hrnn", "hrnn"), "test", 0.03),
    ),
    (
        Panel(CHARACTERS.name, "validation (bits per character)"),
        Panel(CHARACTERS.name, "training (bits per character)", kind="update"),
    ),
    data=("ptb",),
)

DEEP_COPY = Experiment(
    "deep-copy",
    "Deeper hierarchies: copy at one length, three levels",
    (
        Row("both", "both losses", recipes.deep_both),
        Row("lowest", "lowest only", then(recipes.deep_both, with_betas(0.1, 0.0))),
        Row("unlocked", "both, unlocked", then(recipes.deep_both, unlocked)),
        default(recipes.deep_both),
    ),
    (BITS, SOLVED),
    (
        ahead("both losses are ahead of the lowest only", "both", "lowest", "bits", by=0.1, higher_is_better=False),
        every_run("both losses solve the task on every run", "both", "bits", at_most=SOLVED_BITS),
        every_run("the lowest only stays close to chance", "lowest", "bits", at_least=CHANCE_BITS),
    ),
    (Panel(RECALLED.name, "loss (bits per recalled character)", "update", lines=RECALLED.levels, every_run=True, top=1.5),),
)

NEEDLE_HRNN = then(recipes.needle_ours, with_model("hrnn"))
CHANCE = ((1 / Needle.symbols, "chance"),)
OURS_BY_BETA = tuple(f"ours-{beta:g}" for beta in NEEDLE_BETAS if beta)
HRNN_BY_BETA = tuple(f"hrnn-{beta:g}" for beta in NEEDLE_BETAS)

NEEDLE = Experiment(
    "needle",
    "Needle: one flagged symbol in noise, a narrow lowest level",
    (
        *(Row(f"ours-{beta:g}", f"ours, beta {beta:g}", then(recipes.needle_ours, with_betas(beta))) for beta in NEEDLE_BETAS),
        *(Row(f"hrnn-{beta:g}", f"HRNN, beta {beta:g}", then(NEEDLE_HRNN, with_betas(beta))) for beta in NEEDLE_BETAS),
        Row("unlocked", "ours, unlocked, beta 0.1", then(recipes.needle_ours, unlocked)),
        default(recipes.needle_ours),
    ),
    (ACCURACY, LEARNED),
    (
        best_behind_best("ours at its best beta is behind HRNN at its best", OURS_BY_BETA, HRNN_BY_BETA, "accuracy", by=0.02),
        spread_over("ours is sensitive to beta", OURS_BY_BETA, "accuracy", at_least=0.2),
    ),
    (
        accuracy("ours", ("ours-0", *OURS_BY_BETA, "unlocked", "default"), CHANCE),
        accuracy("HRNN", HRNN_BY_BETA, CHANCE),
    ),
    profiles=("desk",),
)

LONG = {1_000: recipes.needle_1e3, 10_000: recipes.needle_1e4, 100_000: recipes.needle_1e5}

NEEDLE_LONG = Experiment(
    "needle-long",
    "Needle over long sequences: three to five levels",
    tuple(
        row
        for steps, ours in LONG.items()
        for row in (
            Row(f"ours-{steps}", f"ours, {steps:,} steps", ours),
            Row(f"unlocked-{steps}", f"ours, unlocked, {steps:,} steps", then(ours, unlocked)),
            Row(f"inverse-{steps}", f"defaults, inverse frequency, {steps:,} steps", then(ours, with_defaults, inverse)),
        )
    ),
    (ACCURACY, LEARNED),
    tuple(
        every_run(f"{words} finds the needle over {steps:,} steps", f"{row}-{steps}", "accuracy", at_least=0.9)
        for steps in LONG
        for row, words in (("ours", "ours"), ("inverse", "ours with defaults and inverse frequency"))
    ),
    tuple(
        accuracy(f"{steps:,} steps", tuple(f"{row}-{steps}" for row in ("ours", "unlocked", "inverse")), CHANCE)
        for steps in LONG
    ),
    profiles=("desk",),
)

EXPERIMENTS = {one.name: one for one in (COPY, MNIST, PERMUTED, PTB, DEEP_COPY, NEEDLE, NEEDLE_LONG)}
