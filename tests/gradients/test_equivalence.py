"""Gradient methods against the literal oracle, in float64, over everything that can be combined.

A comparison counts where there is a gradient to compare; each kind of window must have been compared often enough.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given, settings
from torch.nn import functional as F

import hrnn
from tests.helpers import CELLS, PROPERTY, assert_close
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
    normalized: list[bool]
    symbol_weights: str
    output: str
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
def cases(draw, least=1):
    levels = draw(st.integers(least, 4))
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
        tokens=(tokens := draw(st.booleans())),
        normalized=draw(st.lists(st.sampled_from([True, True, True, False]), min_size=levels - 1, max_size=levels - 1)),
        symbol_weights=draw(st.sampled_from(["equal", "inverse", "inverse"])) if tokens else "equal",
        output=draw(st.sampled_from(["lowest", "all"])),
        indices=draw(st.sampled_from(["sampled", "all"])),
        betas=draw(st.lists(st.sampled_from([0.3, 2.0, 0.7, 0.0]), min_size=levels - 1, max_size=levels - 1)),
        batch=draw(st.integers(1, 3)),
        windows=draw(st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(1, 14), min_size=n, max_size=n))),
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


def method_and_oracle(case: Case, kind: str, model) -> tuple[hrnn.gradients.Gradient, Oracle]:
    if kind == "full":
        return hrnn.Full(), Oracle(model, case.batch, restricted=False)
    if kind == "restricted":
        return hrnn.Restricted(case.round_steps, case.segments_at_once), Oracle(model, case.batch, restricted=True)
    if kind == "synthetic":
        method = hrnn.Synthetic(model, units=5, round_steps=case.round_steps, segments_at_once=case.segments_at_once)
        for parameter in method.parameters():
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
        return method, Oracle(model, case.batch, restricted=True, synthetic=method.networks)
    replay = random.Random(case.seed).choice([0.3, 0.6, 1.0])
    method = hrnn.Restricted(case.round_steps, case.segments_at_once, replay=replay)
    return method, Oracle(model, case.batch, restricted=False, replay=replay)


def run_case(case: Case, kind: str, method: hrnn.Gradient | None = None) -> Counter[str]:
    """Compares window after window; returns how many windows of each kind had a gradient to compare. method: another one that
    should give the same as that of the kind; chunks are a list then."""
    compared: Counter[str] = Counter()
    torch.manual_seed(case.seed % 2**31)
    generator = torch.Generator().manual_seed(case.seed)
    inputs = hrnn.Tokens(3) if case.tokens else 2
    model = hrnn.HRNN(
        inputs, case.sizes, case.periods, cell=[CELLS[c] for c in case.cells], indices=case.indices, decoder_units=3,
        normalized=case.normalized, symbol_weights=case.symbol_weights, output=case.output,
    ).double()  # fmt: skip
    head = torch.nn.Linear(model.output_size, 3).double()

    def loss(output, target):
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    again = method is not None or kind == "replayed"
    own, oracle = method_and_oracle(case, kind, model)
    method = method or own
    state, parameters = None, [*model.parameters(), *head.parameters()]
    networks = list(method.parameters()) if kind == "synthetic" else []
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
                chunks if again else iter(chunks),
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
        learned = check_networks(oracle, networks, total, local_weight)
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
                "an output of all levels": case.output == "all" and bool(case.periods),
                "inputs": want_x and some(expected[-1]),
                "chunks": case.chunks > 1 and steps > 1,
                "rows that end": lengths is not None and bool((lengths < steps).any()),
                "resets": reset is not None and bool(reset[1:].any()),
                "masks": mask is not None and not bool(mask.all()),
                "normalized losses": any(
                    beta and divided and len(known) > 1 and isinstance(value, torch.Tensor)
                    for beta, divided, known, value in zip(case.betas, case.normalized, oracle.known, local, strict=True)
                ),
                "weighted symbols": case.symbol_weights == "inverse" and any(case.betas[:1]) and len(oracle.known[0]) > 1,
            }
            if networks:
                kinds["what networks learn"] = learned
            compared.update({kind: int(there) for kind, there in kinds.items()})
        if before is not None:
            for name, tensor in state.tensors().items():
                assert torch.equal(tensor, before[name]), f"the state passed in was modified: {name}"
        state = result.state
        check_state(state, oracle)
        check_statistics(model, oracle)
        named = state.tensors()
        for name, tensor in after_plain.tensors().items():
            if name != "skipped":
                assert relative(tensor.double(), named[name].double()) < 1e-9, name
    return compared


def check_networks(oracle, networks, total, share) -> bool:
    """Whether the networks' gradients are those of their own errors; was there something to be learned?"""
    own = [None] * len(networks)
    if networks and oracle.read:
        own = torch.autograd.grad(oracle.learned(total, share), networks, allow_unused=True)
    for parameter, expected in zip(networks, own, strict=True):
        got = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert_close(got, torch.zeros_like(parameter) if expected is None else expected, tolerance=1e-9)
        parameter.grad = None
    return any(map(some, own))


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


def check_statistics(model, oracle) -> None:
    for level, decoder in enumerate(model.decoders):
        if (known := decoder.statistics) is not None:
            total, mean, variance = oracle.statistics(level)
            pairs = [(known.seen, total * mean)] if decoder.tokens else [
                (known.count, total), (known.mean, mean), (known.variance, variance)
            ]  # fmt: skip
            assert all(relative(got, expected) < 1e-9 for got, expected in pairs)


def compare(kind: str, examples: int) -> None:
    """So many cases; a case without any gradient (no targets, no local losses) is none."""
    compared: Counter[str] = Counter()

    @given(case=cases(least=2 if kind == "synthetic" else 1))
    @settings(PROPERTY, max_examples=examples)
    def run(case):
        found = run_case(case, kind)
        assume(found)
        compared.update(found)

    run()
    assert compared["windows"] >= examples
    del compared["weighted symbols"]  # too rare among cases that are drawn: see below
    enough = examples // (25 if kind in ("full", "restricted") else 50)
    assert {name: count for name, count in compared.items() if count < enough} == {}


@pytest.mark.parametrize("indices", ["sampled", "all"])
@pytest.mark.parametrize("kind", ["restricted", "full", "replayed", "synthetic"])
def test_weighted_symbols_equal_the_oracle(kind, indices):
    case = Case(
        seed=5, sizes=[3, 4], periods=[3], cells=["lstm"] * 2, tokens=True, indices=indices, normalized=[True], output="lowest",
        symbol_weights="inverse", betas=[2.0], batch=2, windows=[9, 7, 8], extra_row=False, lengths=False, reset=False,
        masked=False, chunks=0, round_steps=None, segments_at_once=None,
    )  # fmt: skip
    assert run_case(case, kind)["weighted symbols"] == 2


@pytest.mark.parametrize("part", range(2))
def test_restricted_equals_the_detach_oracle(part):
    compare("restricted", examples=150)


@pytest.mark.parametrize("part", range(2))
def test_full_equals_the_autograd_oracle(part):
    compare("full", examples=100)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_replayed_segments_equal_the_oracle_with_weighted_edges(part):
    compare("replayed", examples=150)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_synthetic_equals_the_oracle_with_predicted_gradients(part):
    compare("synthetic", examples=100)
