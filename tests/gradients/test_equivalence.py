"""Both gradient methods against the literal oracle, in float64, over everything that can be combined.

A comparison counts where there is a gradient to compare; each kind of window must have been compared often enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given, settings
from torch.nn import functional as F

import hrnn
from tests.helpers import CELLS, PROPERTY
from tests.oracle import Oracle

pytestmark = pytest.mark.usefixtures("engine")


@dataclass
class Case:
    seed: int
    sizes: list[int]
    periods: list
    cells: list[str]
    tokens: bool
    indices: str
    betas: list[float]
    batch: int
    windows: list[int]  # steps of each
    extra_row: bool
    lengths: bool
    reset: bool
    masked: bool
    chunks: int
    round_steps: int | None
    segments_at_once: int | None


@st.composite
def cases(draw):
    levels = draw(st.integers(1, 4))
    period = st.one_of(st.integers(1, 5), st.integers(1, 4).map(hrnn.Given))
    fixed = draw(st.booleans())
    periods = draw(st.lists(st.integers(1, 5) if fixed else period, min_size=levels - 1, max_size=levels - 1))
    own = draw(st.sampled_from(["lstm", "gru", "rnn"]))
    mixed = draw(st.booleans())
    cells = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=levels, max_size=levels)) if mixed else [own] * levels
    return Case(
        seed=draw(st.integers(0, 2**31)),
        sizes=draw(st.lists(st.integers(1, 4), min_size=levels, max_size=levels)),
        periods=periods,
        cells=cells,
        tokens=draw(st.booleans()),
        indices=draw(st.sampled_from(["sampled", "all"])),
        betas=draw(st.lists(st.sampled_from([0.0, 0.3, 2.0]), min_size=levels - 1, max_size=levels - 1)),
        batch=draw(st.integers(1, 3)),
        windows=draw(st.lists(st.integers(1, 14), min_size=1, max_size=3)),
        extra_row=draw(st.booleans()),
        lengths=draw(st.integers(0, 2)) == 0,
        reset=draw(st.integers(0, 2)) == 0,
        masked=draw(st.booleans()),
        chunks=draw(st.integers(0, 3)),
        round_steps=draw(st.sampled_from([None, 1, 3, 7])),
        segments_at_once=draw(st.sampled_from([None, 1, 2])),
    )


def make_boundaries(periods, steps, batch, extra, generator):
    """Random, nested as far as the levels with given boundaries go; a fixed level between two makes that depend on it."""
    given_levels = [i for i, p in enumerate(periods) if isinstance(p, hrnn.Given)]
    if not given_levels:
        return None
    flags = torch.rand(steps + extra, batch, len(given_levels), generator=generator) < 0.4
    return flags


def nest(model, oracle, boundaries, lengths, reset, steps):
    """Clear flags where the level below does not tick, by running the periods of each row."""
    given_levels = [i for i, p in enumerate(model.periods) if isinstance(p, hrnn.Given)]
    for b, row in enumerate(oracle.rows):
        ticks_so_far = [s.ticks for s in row.segments]
        for t in range(boundaries.shape[0]):
            if t < steps and reset is not None and bool(reset[t, b]):
                ticks_so_far = [0] * len(ticks_so_far)
            ticking = True
            length = steps if lengths is None else int(lengths[b])
            for i, period in enumerate(model.periods):
                if isinstance(period, hrnn.Given):
                    j = given_levels.index(i)
                    boundaries[t, b, j] &= ticking
                    starts = ticking and (bool(boundaries[t, b, j]) or ticks_so_far[i] == 0)
                else:
                    starts = ticking and ticks_so_far[i] in (0, period)
                if t < length:
                    ticks_so_far[i] = 1 if starts else ticks_so_far[i] + ticking
                ticking = starts
    return boundaries


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    scale = max(1e-3, float(b.detach().abs().max()) if b.numel() else 0.0)
    return float((a.detach() - b.detach()).abs().max()) / scale if a.numel() else 0.0


def some(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool(gradient.any())


def run_case(case: Case, restricted: bool) -> Counter[str]:
    """Compares window after window; returns how many windows of each kind had a gradient to compare."""
    compared: Counter[str] = Counter()
    torch.manual_seed(case.seed % 2**31)
    generator = torch.Generator().manual_seed(case.seed)
    inputs = hrnn.Tokens(3) if case.tokens else 2
    model = hrnn.HRNN(
        inputs, case.sizes, case.periods, cell=[CELLS[c] for c in case.cells], indices=case.indices, decoder_units=3
    ).double()
    head = torch.nn.Linear(case.sizes[0], 3).double()

    def loss(output, target):
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    oracle = Oracle(model, case.batch, restricted)
    method = hrnn.Restricted(case.round_steps, case.segments_at_once) if restricted else hrnn.Full()
    state, parameters = None, [*model.parameters(), *head.parameters()]
    for steps in case.windows:
        shape = (steps, case.batch)
        x = (
            torch.randint(3, shape, generator=generator)
            if case.tokens
            else torch.randn(*shape, 2, generator=generator).double()
        )
        y = torch.randint(3, shape, generator=generator)
        mask = torch.rand(shape, generator=generator) < 0.5 if case.masked else None
        lengths = torch.randint(steps + 1, (case.batch,), generator=generator) if case.lengths else None
        reset = torch.rand(shape, generator=generator) < 0.15 if case.reset else None
        boundaries = make_boundaries(case.periods, steps, case.batch, case.extra_row, generator)
        if boundaries is not None:
            boundaries = nest(model, oracle, boundaries, lengths, reset, steps)
        valid = torch.ones(shape, dtype=torch.bool) if lengths is None else torch.arange(steps)[:, None] < lengths
        counted = valid if mask is None else valid & mask
        seeds = torch.Generator().manual_seed(case.seed)
        seed = int(torch.randint(2**63 - 1, (), generator=seeds))
        seeds.manual_seed(case.seed)
        weight = 1 / max(1, int(counted.sum()))
        local_weight = 1 / max(1, int(valid.sum()))
        want_x = not case.tokens and case.chunks <= 1
        x_own = x.clone().requires_grad_(want_x)

        plain, after_plain = model(x, state, boundaries=boundaries, lengths=lengths, reset=reset)
        before = None if state is None else {k: v.clone() for k, v in state.tensors().items()}
        options = {"mask": mask, "boundaries": boundaries, "lengths": lengths, "reset": reset}
        if case.chunks > 1:
            chunks = []
            for part in torch.arange(steps).chunk(case.chunks):
                a, b = int(part[0]), int(part[-1]) + 1
                last = b == steps
                chunks.append(
                    hrnn.Chunk(
                        x[a:b],
                        y[a:b],
                        None if mask is None else mask[a:b],
                        None if boundaries is None else boundaries[a : len(boundaries) if last else b],
                        None if lengths is None else (lengths - a).clamp(0, b - a),
                        None if reset is None else reset[a:b],
                    )
                )
            result = method.backward(
                model,
                iter(chunks),
                loss=loss,
                betas=case.betas,
                state=state,
                generator=seeds,
                weight=weight,
                local_weight=local_weight,
            )
        else:
            result = method.backward(model, x_own, y, loss=loss, betas=case.betas, state=state, generator=seeds, **options)
        x_oracle = x.clone().requires_grad_(want_x)
        outputs, total, task, local = oracle.window(
            x_oracle, y, loss=loss, betas=case.betas, seed=seed, weight=weight, local_weight=local_weight,
            mask=mask, boundaries=boundaries, lengths=lengths, reset=reset,
        )  # fmt: skip
        assert relative(plain, outputs) < 1e-9
        assert abs(float(result.loss) - float(torch.as_tensor(task).detach())) < 1e-9 * max(
            1, abs(float(torch.as_tensor(task).detach()))
        )
        for i, beta in enumerate(case.betas):
            assert bool(result.local_losses[i].isnan()) == (beta == 0)
            if beta:
                assert abs(float(result.local_losses[i]) - float(torch.as_tensor(local[i]).detach())) < 1e-9 * max(
                    1, abs(float(torch.as_tensor(local[i]).detach()))
                )
        leaves = [*parameters, x_oracle] if want_x else parameters
        if isinstance(total, torch.Tensor) and total.requires_grad:
            expected = torch.autograd.grad(total, leaves, allow_unused=True)
        else:
            expected = [None] * len(leaves)
        scale = max([1e-3, *(float(e.abs().max()) for e in expected if e is not None and e.numel())])
        for leaf, e in zip([*parameters, x_own] if want_x else parameters, expected, strict=True):
            got = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            e = torch.zeros_like(leaf) if e is None else e
            assert float((got - e).abs().max()) < 1e-9 * scale
            leaf.grad = None
        if any(map(some, expected)):
            lowest = len(list(model.cells[0].parameters()))
            kinds = {
                "windows": True,
                "fixed periods": bool(case.periods) and boundaries is None,
                "given boundaries": boundaries is not None,
                "a state from before": state is not None,
                "cells of a user": not {"lstm", "gru", "rnn"} >= set(case.cells),
                "local losses": any(isinstance(value, torch.Tensor) for value in local),
                "levels above": any(map(some, expected[lowest : len(list(model.cells.parameters()))])),
                "inputs": want_x and some(expected[-1]),
                "chunks": case.chunks > 1 and steps > 1,
                "rows that end": lengths is not None and bool((lengths < steps).any()),
                "resets": reset is not None and bool(reset[1:].any()),
                "masks": mask is not None and not bool(mask.all()),
            }
            compared.update({kind: int(there) for kind, there in kinds.items()})
        if before is not None:
            for name, tensor in state.tensors().items():
                assert torch.equal(tensor, before[name]), f"the state passed in was modified: {name}"
        state = result.state
        check_state(state, oracle)
        named = state.tensors()
        for name, tensor in after_plain.tensors().items():
            if name != "skipped":
                assert relative(tensor.double(), named[name].double()) < 1e-9, name
    return compared


def check_state(state, oracle) -> None:
    for b, row in enumerate(oracle.rows):
        for i, cell in enumerate(row.cells):
            for j, part in enumerate(cell):
                assert relative(state.cells[i][j][b], part) < 1e-9
        for i, segment in enumerate(row.segments):
            assert int(state.clock.position[b, i]) == segment.ticks
            assert int(state.clock.span[b, i]) == segment.span
            assert int(state.clock.ordinal[b, i]) == segment.ordinal
            assert int(state.clock.skipped[b, i]) == segment.skipped


def compare(restricted: bool, examples: int) -> None:
    """So many cases; a case without any gradient (no targets, no local losses) is none."""
    compared: Counter[str] = Counter()

    @given(case=cases())
    @settings(PROPERTY, max_examples=examples)
    def run(case):
        found = run_case(case, restricted)
        assume(found)
        compared.update(found)

    run()
    assert compared["windows"] >= examples
    assert {kind: count for kind, count in compared.items() if count < examples // 25} == {}


@pytest.mark.parametrize("part", range(2))
def test_restricted_equals_the_detach_oracle(part):
    compare(restricted=True, examples=150)


@pytest.mark.parametrize("part", range(2))
def test_full_equals_the_autograd_oracle(part):
    compare(restricted=False, examples=100)
