"""Rows in another order, shared out over processes: together these give what one process gives. The processes are threads, with
`torch.distributed` replaced by what they have in memory, so that many cases can be tried; tests/parallel has real ones."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

import hrnn
from hrnn import parallel
from tests.conformance.cases import Built, Case, batched, build
from tests.conformance.moving import EXACT as MOVING
from tests.conformance.moving import OPTIMIZERS, by_hand, diverged
from tests.conformance.suite import EXACT, EXECUTORS, METHODS, Executors, Outcome, compare, expected, named, run, weights
from tests.waiting import PATIENCE


class Threads:
    """`torch.distributed` for the threads of one process; each says once who it is."""

    ReduceOp = dist.ReduceOp

    def __init__(self, size: int):
        self.barrier, self.own = threading.Barrier(size, timeout=PATIENCE), threading.local()
        self.places = [torch.empty(0)] * size

    def all_reduce(self, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        self.places[self.own.rank] = tensor.clone()
        self.barrier.wait()
        total = torch.stack(self.places)
        self.barrier.wait()  # all have read
        tensor.copy_(total.amax(0) if op == dist.ReduceOp.MAX else total.sum(0))

    def all_gather(self, places: list[Tensor], tensor: Tensor) -> None:
        self.places[self.own.rank] = tensor.clone()
        self.barrier.wait()
        for place, value in zip(places, self.places, strict=True):
            place.copy_(value)
        self.barrier.wait()

    def run(self, work: Callable[[parallel.Group], Any]) -> list[Any]:
        """What each of them returns."""
        size, errors = len(self.places), []
        found: list[Any] = [None] * size

        def one(rank: int) -> None:
            self.own.rank = rank
            try:
                found[rank] = work(parallel.Group(rank, size))
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        with patch.object(parallel, "dist", self):
            threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
        return found


def share(whole: Built, rows: Tensor) -> Built:
    """What a process has that has these rows. Its state is given; where cells may learn what they start from, its sequences
    begin with a reset."""
    part = {"x", "y", "mask", "boundaries", "reset"}
    windows = [
        {n: v if v is None else v[:, rows] if n in part else v[rows] for n, v in window.items()} for window in whole.windows
    ]
    first = windows[0]
    if first["reset"] is not None or not whole.model.builtin:
        first["reset"] = torch.zeros(first["y"].shape, dtype=torch.bool) if first["reset"] is None else first["reset"].clone()
        first["reset"][0] = True
    return Built(whole.model, whole.head, windows, [weights(window) for window in whole.windows])


def together(case: Case, shares: list[Tensor], found: list[list[Outcome]]) -> list[Outcome]:
    """The outcomes of all processes as one."""
    order, outcomes = torch.cat(shares).argsort(), []
    for parts in zip(*found, strict=True):
        gradients: dict[str, Tensor | None] = {}
        for name in parts[0].gradients:
            some = [part.gradients[name] for part in parts if part.gradients[name] is not None]
            gradients[name] = None if not some else torch.cat(some, 1)[:, order] if name == "x" else sum(some)
        values = dict(parts[0].values)
        for name in ("loss", "local_losses", "targets", "steps", "right"):
            values[name] = sum(part.values[name] for part in parts)
        for name in values:
            if name.startswith("cells.") or name in ("position", "span", "ordinal", "skipped"):
                values[name] = torch.cat([part.values[name] for part in parts])[order]
            elif name in ("inputs", "recent"):
                values[name] = torch.cat([part.values[name] for part in parts], 1)[:, order]
        outcomes.append(Outcome(gradients, values))
    return outcomes


def check_shared(
    case: Case, method: str = "restricted", moves: bool = False,
    executors: Executors = EXECUTORS,
) -> float:  # fmt: skip
    """The largest error."""
    if case.batch < 2:  # made simpler
        return 0.0
    case = batched(case) if moves else case
    if moves and not build(case).model.builtin:  # where a reset is given rows may part, and batches are those of a round
        windows = tuple(replace(window, cuts=(), once=False) for window in case.windows)
        case = replace(case, windows=windows, round_steps=None)
    r = random.Random(case.seed)
    order = torch.tensor(r.sample(range(case.batch), case.batch))
    shares = list(order.tensor_split([r.randint(1, case.batch - 1)]))
    truth, count = by_hand(case) if moves else (expected(case, METHODS[method].truth_of(case)), None)
    if moves and diverged(case, truth):
        return 0.0
    worst = 0.0
    for executor, force in executors.items():
        wholes = [build(case) for _ in shares]
        makers = [METHODS[method].make(case, whole.model) for whole in wholes]

        def work(group: parallel.Group) -> list[Outcome]:
            whole, rows = wholes[group.rank], shares[group.rank]  # noqa: B023
            own = METHODS[method]._replace(make=lambda case, model: makers[group.rank])  # noqa: B023
            state = whole.model.initial_state(len(rows)).with_rows(rows)
            if not moves:
                return run(case, share(whole, rows), own, state, group=group)
            updates = hrnn.Updates(
                whole.model, OPTIMIZERS[case.optimizer], heads=whole.head.parameters(), every=list(case.every),
                clip=case.clip, group=group,
            )  # fmt: skip
            found = run(case, share(whole, rows), own, state, updates=updates)
            assert updates.moves == count, f"{updates.moves} moves, by hand {count}\n{case}"
            return found

        with force():
            found = together(case, shares, Threads(len(shares)).run(work))
        if moves:
            start = named(model=(built := build(case)).model, head=built.head)
            for outcome in found:
                outcome.values.update({name: outcome.values[name] - weight.detach() for name, weight in start.items()})
        who = f"{'moving' if moves else method} in {len(shares)} processes, {executor}"
        worst = max(worst, compare(case, who, found, truth, MOVING[case.optimizer] if moves else EXACT))
    return worst
