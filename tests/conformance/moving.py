"""Levels that move within a window, beside the loop by hand."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

import hrnn
from tests.conformance.cases import Case, batched, build
from tests.conformance.suite import (
    EXECUTORS,
    METHODS,
    DisagreementError,
    Executors,
    Outcome,
    asked,
    compare,
    expected,
    known_of,
    loss_of,
    named,
    oracle,
    plain,
    run,
    state_of,
)
from tests.moves_by_hand import Moves

OPTIMIZERS = {
    "sgd": partial(torch.optim.SGD, lr=0.05),
    "momentum": partial(torch.optim.SGD, lr=0.02, momentum=0.9),
    "adam": partial(torch.optim.Adam, lr=0.01, eps=1e-4),
}
EXACT = {"sgd": 1e-12, "momentum": 1e-12, "adam": 1e-9}  # of the movement
LARGE = 100.0  # weights that have diverged: small errors grow


def by_hand(case: Case) -> tuple[list[Outcome], list[int]]:
    """What each window gives, how far the weights have come included, and how often each level has moved."""
    built, found = build(case), []
    one, loss, weights = oracle(case, built.model, "restricted"), loss_of(built.head), named(model=built.model, head=built.head)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    levels = Moves(
        one,
        list(built.head.parameters()),
        OPTIMIZERS[case.optimizer],
        list(case.every),
        case.clip,
        case.round_steps if case.apart else None,
    )
    for number, window in enumerate(built.windows):
        x = window["x"].clone().requires_grad_(not case.tokens)
        levels.window(x, window["y"], loss=lambda *a: loss(*a)[0], **asked(case, window, number))
        values = {name: weight - before[name] for name, weight in weights.items()} | state_of(one) | known_of(one)
        found.append(Outcome({"x": x.grad}, {name: plain(value) for name, value in values.items()}))
    return found, levels.moves


def diverged(case: Case, truth: list[Outcome]) -> bool:
    """Are there weights so large that small errors grow?"""
    moved = [value for outcome in truth for name, value in outcome.values.items() if name.startswith(("model", "head"))]
    return any(not bool((value.abs() < LARGE).all()) for value in moved)


def check_moves(case: Case, executors: Executors = EXECUTORS) -> float:
    """The largest error; 0 if the weights have diverged."""
    case = batched(case)
    truth, moves = by_hand(case)
    weights = named(model=(built := build(case)).model, head=built.head)
    if any(
        float(outcome.values[name].abs().max()) > LARGE for outcome in truth for name, one in weights.items() if one.numel()
    ):
        return 0.0
    worst = 0.0
    for executor, force in executors.items():
        built, who = build(case), f"moving, {executor}"
        updates = hrnn.Updates(
            built.model, OPTIMIZERS[case.optimizer], heads=built.head.parameters(), every=list(case.every), clip=case.clip
        )
        with force():
            found = run(case, built, METHODS["restricted"], updates=updates)
        if updates.moves != moves:
            raise DisagreementError(case, who, f"{updates.moves} moves, by hand {moves}")
        for outcome in found:
            outcome.values.update({name: outcome.values[name] - weight.detach() for name, weight in weights.items()})
        worst = max(worst, compare(case, who, found, truth, EXACT[case.optimizer]))
    return worst


class Standing(hrnn.Updates):
    """Levels that move wherever they can, by nothing: what they would have moved by goes into `.grad`."""

    def move(self, level: int, gradients: dict[Tensor, Tensor], scale: float | None) -> None:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient


def check_standing(case: Case, executors: Executors = EXECUTORS) -> float:
    """Levels that may move wherever they can, and stand still, get the gradient of the window."""
    worst = 0.0
    for executor, force in executors.items():
        built = build(case)
        updates = Standing(built.model, OPTIMIZERS["sgd"], heads=built.head.parameters(), every=list(case.every))
        with force():
            found = run(case, built, METHODS["restricted"], updates=updates)
        worst = max(worst, compare(case, f"standing, {executor}", found, expected(case, METHODS["restricted"].truth_of(case))))
    return worst
