"""The demo: what the paper claims, on a copy task so small that four models take minutes."""

from __future__ import annotations

from dataclasses import replace

from hrnn.launching.units import Unit
from hrnn.memory import measure, paper_count
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.recipes import then, with_model
from hrnn.tasks import Copy
from hrnn.training.config import RESTRICTED, Budget, Config, Learning, Model, resolved

LONG = 1000  # steps of the window whose bytes are measured
OURS = Config(  # one core and half a minute; the window allows lengths a little above 20
    Copy(start=2, step=2),
    Model("ours", hidden_sizes=(32, 32), periods=(4,), window=40, betas=(1.0,)),
    Learning(batch=30, learning_rate=5e-3),
    Budget(updates=2000),
)


DEMO = Experiment(
    "demo",
    "The paper's four models on a small copy task",
    (
        Row("ours", "restricted gradients and local losses", then(lambda profile: OURS, with_model("ours"))),
        Row("hrnn", "true gradients and local losses", then(lambda profile: OURS, with_model("hrnn"))),
        Row("gr-hrnn", "restricted gradients alone", then(lambda profile: OURS, with_model("gr-hrnn"))),
        Row("mr-hrnn", "true gradients in the memory of ours", then(lambda profile: OURS, with_model("mr-hrnn"))),
    ),
    in_paper=False,
)


def units(updates: int, seed: int) -> list[Unit]:
    """The runs, each under the name of its model."""
    configs = {row.name: row.recipe("desk") for row in DEMO.rows}
    return [
        Unit(name, resolved(replace(one, budget=Budget(updates=updates), upkeep=replace(one.upkeep, seed=seed))))
        for name, one in configs.items()
    ]


def vectors(model: str) -> int:
    """That an update stores for each row of a batch, by the paper's count."""
    window = OURS.model.window or 0
    return window if model == "hrnn" else paper_count(OURS.periods, window)


def measured_bytes(model: str) -> int:
    """Peak bytes of a longer window, where they can be told from the process's own."""
    window = paper_count(OURS.periods, LONG) if model == "mr-hrnn" else LONG
    method = "restricted" if model in RESTRICTED else "full"
    sizes, periods, batch = OURS.hidden_sizes, OURS.periods, OURS.learning.batch
    return measure(children=1, method=method, hidden_sizes=sizes, periods=periods, window=window, batch=batch)
