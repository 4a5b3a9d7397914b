"""Run in two processes: gradients and moves of half the batch each, beside those of the whole batch.

Each process computes both, so the comparison needs nothing from outside. Differences go to the file named on the command
line, as JSON.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path

import torch
from torch import nn

import hrnn
from hrnn.parallel import ALONE, Group, join
from hrnn.state import State
from tests.user_cells import MinimalGRU

STEPS, BATCH = 24, 4
EXAMPLE = Path(__file__).parents[2] / "docs" / "distributed.md"
HIERARCHIES = {
    "fixed": ([3, 4], [4], "lstm"),
    "three levels": ([3, 4, 5], [2, 3], "gru"),
    "given": ([3, 4], [hrnn.Given(3)], "lstm"),
    "given, three levels": ([3, 4, 5], [hrnn.Given(3), 2], "rnn"),
    "own cell": ([3, 4], [4], MinimalGRU),
    "flat": ([3], [], "lstm"),
}
LOCKED = [("fixed", "plain"), ("given", "plain"), ("own cell", "reset in one"), ("three levels", "targets in one")]
CASES = [
    *((method, *case) for method in ("full", "restricted") for case in LOCKED),
    *(("unlocked", hierarchy, "plain") for hierarchy in HIERARCHIES),
    ("unlocked", "fixed", "reset in one"),
    ("unlocked", "own cell", "lengths in one"),
    ("unlocked", "given", "lengths in one"),
    *(("unlocked", hierarchy, "targets in one") for hierarchy in ("fixed", "given", "own cell")),
    *(("unlocked", hierarchy, "long segment in one") for hierarchy in ("given", "given, three levels")),
    *(("unlocked", hierarchy, f"{rows} in one") for hierarchy in ("fixed", "given") for rows in ("fewer rows", "no rows")),
]


class Problem:
    """A model in float64, its head, and two windows of data for all rows."""

    def __init__(self, hierarchy: str, data: str):
        sizes, periods, cell = HIERARCHIES[hierarchy]
        torch.manual_seed(0)
        self.model = hrnn.HRNN(hrnn.Tokens(3), sizes, periods, cell=cell, decoder_units=4).double()
        self.head = nn.Linear(sizes[0], 1).double()
        self.unused = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.parameters = [*self.model.parameters(), *self.head.parameters(), self.unused]
        self.x = torch.randint(3, (2, STEPS, BATCH))
        self.y = torch.randn(2, STEPS, BATCH).double()
        self.mask = self.boundaries = self.lengths = self.reset = None
        if isinstance(periods[0] if periods else None, hrnn.Given):
            self.boundaries = torch.rand(2, STEPS, BATCH) < 0.4
            self.boundaries[0, 0] = True
            if data == "long segment in one":
                self.boundaries[:, :, BATCH // 2 :] = False
        if data == "targets in one":
            self.mask = torch.zeros(2, STEPS, BATCH, dtype=torch.bool)
            self.mask[:, 5:, 0] = True
        self.left = {"fewer rows in one": BATCH - 1, "no rows in one": BATCH // 2}.get(data, BATCH)
        if data == "no rows in one":
            self.lengths = torch.tensor([STEPS] * self.left + [0] * (BATCH - self.left))
        if data == "lengths in one":
            self.lengths = torch.tensor([STEPS] * (BATCH - 1) + [STEPS - 5])
        if data == "reset in one":
            self.reset = torch.zeros(2, STEPS, BATCH, dtype=torch.bool)
            self.reset[:, 7, -1] = True

    def rows_of(self, group: Group) -> torch.Tensor:
        """This process's rows that are left; one that has none keeps one, of no length."""
        mine = torch.tensor(group.rows(BATCH))
        left = mine[mine < self.left]
        return left if len(left) else mine[:1]

    def backward(self, method: str, group: Group, betas: list[float]) -> tuple[State, list]:
        """Two windows, as a process of the group sees them; the state after them and what is to be compared."""
        rows = self.rows_of(group)
        updates = None
        if method == "unlocked":
            updates = hrnn.Updates(
                self.model,
                lambda p: torch.optim.SGD(p, lr=0.05),
                heads=self.head.parameters(),
                every=[1, 2, None][: len(self.model.cells)],
                clip=0.1,
                group=group,
            )
        gradient = hrnn.Full() if method == "full" else hrnn.Restricted(round_steps=6)
        state = self.model.initial_state(len(rows)).with_rows(rows)
        targets = STEPS * BATCH if self.mask is None else int(self.mask[0].sum())
        generator = torch.Generator().manual_seed(3)
        for window in range(2):

            def mine(values):
                return None if values is None else values[window][:, rows]  # noqa: B023

            result = gradient.backward(
                self.model,
                mine(self.x),
                mine(self.y),
                loss=lambda output, target: (self.head(output)[..., 0] - target) ** 2,
                betas=betas,
                state=state,
                mask=mine(self.mask),
                boundaries=mine(self.boundaries),
                lengths=None if self.lengths is None else self.lengths[rows],
                reset=mine(self.reset),
                weight=1 / targets,
                local_weight=1 / (STEPS * BATCH),
                generator=generator,
                updates=updates,
                group=None if updates is not None else group,
            )
            state = result.state
        if updates is not None:
            return state, [updates.moves, [p.detach() for p in self.parameters]]
        group.all_reduce_gradients(self.parameters)
        return state, [[p.grad is None for p in self.parameters], [p.grad for p in self.parameters if p.grad is not None]]


def difference(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    return max([0.0, *(float((one - other).abs().max()) for one, other in zip(a, b, strict=True) if one.numel())])


def compared(group: Group, method: str, hierarchy: str, data: str) -> dict:
    """The largest differences between the group and one process with everything, of numbers and of states."""
    problem = Problem(hierarchy, data)
    other = copy.deepcopy(problem)
    betas = [0.0 if data == "targets in one" else 0.5] * len(problem.model.periods)
    whole, expected = other.backward(method, ALONE, betas)
    mine, found = problem.backward(method, group, betas)
    if problem.left < BATCH:  # different numbers of rows cannot be gathered
        rows = problem.rows_of(group)
        whole = whole.select(rows) if bool((rows < problem.left).all()) else mine
    else:
        mine = State.together([State.from_tensors(one) for one in group.all_gather(mine.tensors())])
    return {
        "numbers": difference(found[1], expected[1]),
        "scale": max(float(value.abs().max()) for value in expected[1]),
        "exact": found[0] == expected[0],
        "moves": found[0] if method == "unlocked" else None,
        "state": difference(list(mine.tensors().values()), list(whole.tensors().values())),
    }


def verbs(group: Group) -> dict:
    """What the group's other verbs give."""
    odd = {"a": 1.5, "b": float(group.rank)} if group.rank else {"c": 2.0}
    left = {
        "numbers": group.all_reduce_numbers(odd),
        "again": group.all_reduce_numbers({"a": 1.0}),
        "any": group.any(group.rank == 1, False),
    }
    left["same"] = [group.all_equal(4, 5), group.all_equal(4, group.rank)]
    left["text"] = group.all_gather_text("x" * group.rank)
    left["broadcast"] = group.broadcast(b"of the first" if group.first else None).decode()
    left["parts"] = [list(group.shard(3)), group.rank]
    values = torch.tensor([float("nan"), 1.0, 0.0]) if group.rank else torch.tensor([1.0, 2.0, 0.0])
    left["nan"] = [bool(value.isnan()) for value in group.all_reduce(values)]
    mixed = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3, dtype=torch.float64)), nn.Parameter(torch.zeros(1))]
    if group.rank:
        mixed[1].grad = torch.ones(3, dtype=torch.float64)
    else:
        mixed[0].grad = torch.ones(2)
    group.all_reduce_gradients(mixed)
    left["mixed"] = [None if p.grad is None else p.grad.tolist() for p in mixed]
    return left


def main() -> None:
    torch.set_num_threads(1)
    example: dict = {}
    exec(re.search(r"```python\n(.*?)```", EXAMPLE.read_text(), re.DOTALL)[1], example)
    with join() as group:
        found = {"example": example["losses"]}
        for method, hierarchy, data in CASES:
            found[f"{method}, {hierarchy}, {data}"] = compared(group, method, hierarchy, data)
        found["verbs"] = verbs(group)
    Path(f"{sys.argv[1]}.{group.rank}").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
