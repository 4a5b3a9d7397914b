"""What crosses the upward edges, and what is learned of it: needle, which restricted gradients do not solve, with replayed and
predicted gradients beside true ones, and beside a local loss that counts rare symbols for more."""

from __future__ import annotations

import hrnn.studies.defaults as defaults
from hrnn.studies.experiment import Experiment, Row
from hrnn.studies.paper import ACCURACY, CHANCE, LEARNED, accuracy
from hrnn.studies.recipes import Recipe, inverse, locked, then, with_defaults, with_gradient, with_model
from hrnn.studies.rules import ahead, every_run


def _locked(gradient: str) -> Recipe:
    """The defaults, one update a batch: a method that runs segments again has its gradients at the window's end only."""
    return then(defaults.needle, with_defaults, locked, with_gradient(gradient))


LOCKED = ("restricted", "replay", "biased-replay", "synthetic", "hrnn", "inverse")
UNLOCKED = ("unlocked", "inverse-unlocked")
REPLAY = Experiment(
    "needle-replay",
    "Needle: replayed and predicted gradients",
    (
        Row("restricted", "restricted", _locked("restricted")),
        Row("replay", "replay 0.2", _locked("replay:0.2")),
        Row("biased-replay", "biased replay 0.2", _locked("replay:0.2"), gone="biased-replay:0.2"),
        Row("synthetic", "synthetic", _locked("synthetic")),
        Row("hrnn", "HRNN", then(defaults.needle, with_model("hrnn"), with_defaults)),
        Row("inverse", "restricted, inverse frequency", then(_locked("restricted"), inverse)),
        Row("unlocked", "restricted, unlocked", then(defaults.needle, with_defaults)),
        Row("inverse-unlocked", "restricted, unlocked, inverse frequency", then(defaults.needle, with_defaults, inverse)),
    ),
    (ACCURACY, LEARNED),
    (
        every_run("replay at 0.2 finds the needle on every run", "replay", "accuracy", at_least=0.99),
        every_run("so does its biased variant", "biased-replay", "accuracy", at_least=0.99),
        every_run("so do predicted gradients", "synthetic", "accuracy", at_least=0.99),
        every_run("so do true gradients", "hrnn", "accuracy", at_least=0.99),
        ahead("replay at 0.2 is well ahead of restricted gradients", "replay", "restricted", "accuracy", by=0.3),
    ),
    (accuracy("one update a batch", LOCKED, CHANCE), accuracy("updates within the window", UNLOCKED, CHANCE)),
    profiles=("desk",),
)

EXPERIMENTS = {REPLAY.name: REPLAY}
