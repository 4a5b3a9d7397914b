"""The demo: what the paper claims, on a copy task so small that all models take minutes."""

from __future__ import annotations

from dataclasses import replace

from hrnn.launching.units import Unit
from hrnn.memory import measure, paper_count
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.recipes import BUDGET, COPY, LEARNING, MODEL, then, with_model
from hrnn.training.config import Budget, Config, Learning, Model, resolved

LONG = 1000  # steps of the window whose bytes are measured
LITERAL = Config(  # one core and half a minute; the window allows lengths a little above 20
    replace(COPY, start=2, step=2),
    replace(MODEL, hidden_sizes=(32, 32), periods=(4,), window=40, betas=(1.0,)),
    replace(LEARNING, batch=30, learning_rate=5e-3),
    replace(BUDGET, updates=2000),
)
OURS = Config(  # whatever the defaults are
    LITERAL.task,
    Model("ours", hidden_sizes=(32, 32), periods=(4,), window=40),
    Learning(batch=30, learning_rate=5e-3),
    LITERAL.budget,
)


DEMO = Experiment(
    "demo",
    "The paper's four models on a small copy task, and ours with our defaults",
    (
        Row("ours", "restricted gradients and local losses, our defaults", lambda profile: OURS),
        Row("ours-literal", "the same, locked and sampled as in the paper", lambda profile: LITERAL),
        Row("hrnn", "true gradients and local losses", then(lambda profile: LITERAL, with_model("hrnn"))),
        Row("gr-hrnn", "restricted gradients alone", then(lambda profile: LITERAL, with_model("gr-hrnn"))),
        Row("mr-hrnn", "true gradients in the memory of ours", then(lambda profile: LITERAL, with_model("mr-hrnn"))),
    ),
    profiles=("desk",),
)


def units(updates: int, seed: int) -> list[Unit]:
    """The runs, each under the name of its row. An update is a batch for all but ours, which moves more often: they have as
    many sequences."""
    configs = {row.name: row.recipe("desk") for row in DEMO.rows}
    budget = Budget(sequences=updates * LITERAL.batch)
    return [
        Unit(name, resolved(replace(one, budget=budget, upkeep=replace(one.upkeep, seed=seed))))
        for name, one in configs.items()
    ]


def vectors(row: Row) -> int:
    """That an update stores for each batch row, by the paper's count."""
    window, model = LITERAL.window, row.recipe("desk").model.model
    return window if model == "hrnn" else paper_count(LITERAL.periods, window)


def measured_bytes(row: Row) -> int:
    """Peak bytes of a longer window, where they can be told from the process's own."""
    model = row.recipe("desk").model
    window = paper_count(LITERAL.periods, LONG) if model.model == "mr-hrnn" else LONG
    method = "restricted" if model.restricted else "full"
    sizes, periods, batch = LITERAL.hidden_sizes, LITERAL.periods, LITERAL.batch
    return measure(children=1, method=method, hidden_sizes=sizes, periods=periods, window=window, batch=batch)
