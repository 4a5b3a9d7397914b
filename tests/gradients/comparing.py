"""Two methods on the same windows: gradients, losses, metrics, statistics, states, all that a window gives."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
import torch
from torch.nn import functional as F

import hrnn
from tests.gradients.test_equivalence import nest
from tests.helpers import CELLS, assert_close, assert_same_gradients, assert_same_state, seeded, take_gradients
from tests.oracle import Oracle


@dataclass
class Setting:
    """A model with a head, and the arguments of consecutive windows."""

    model: hrnn.HRNN
    head: torch.nn.Linear
    betas: list[float]
    windows: list[dict]

    def loss(self, output, target):
        values = F.cross_entropy(self.head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)
        return values, {"right": (self.head(output).argmax(-1) == target).sum()}


@st.composite
def settings_of(draw, fixed=None, most=14, cells=None):
    """1 to 4 levels; fixed and given boundaries, lengths, resets, masks, tokens and vectors, a user's cells; 1 to 3 windows."""
    levels = draw(st.integers(1, 4))
    fixed = draw(st.booleans()) if fixed is None else fixed
    period = st.integers(1, 4) if fixed else st.one_of(st.integers(1, 4), st.integers(1, 3).map(hrnn.Given))
    periods = draw(st.lists(period, min_size=levels - 1, max_size=levels - 1))
    choice = st.sampled_from(sorted(CELLS) if cells is None else cells)
    names = draw(st.lists(choice, min_size=levels, max_size=levels)) if draw(st.booleans()) else [draw(choice)] * levels
    tokens, batch, seed = draw(st.booleans()), draw(st.integers(1, 3)), draw(st.integers(0, 2**31))
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = hrnn.HRNN(
        hrnn.Tokens(3) if tokens else 2, [3, 2, 4, 2][:levels], periods, cell=[CELLS[name] for name in names], decoder_units=3,
        indices=draw(st.sampled_from(["sampled", "all"])),
        normalized=draw(st.lists(st.booleans(), min_size=levels - 1, max_size=levels - 1)),
        symbol_weights=draw(st.sampled_from(["equal", "inverse"])) if tokens else "equal",
        output=draw(st.sampled_from(["lowest", "all"])),
    ).double()  # fmt: skip
    in_phase = fixed and draw(st.booleans())
    some_lengths, some_resets = (not in_phase and draw(st.booleans()) for _ in range(2))
    masked, extra = draw(st.booleans()), draw(st.booleans())
    oracle, windows = Oracle(model, batch, False), []
    for steps in draw(st.lists(st.integers(1, most), min_size=1, max_size=3)):
        shape = (steps, batch)
        x = torch.randint(3, shape, generator=generator)
        x = x if tokens else torch.randn(*shape, 2, generator=generator, dtype=torch.float64)
        lengths = torch.randint(steps + 1, (batch,), generator=generator) if some_lengths else None
        reset = torch.rand(shape, generator=generator) < 0.15 if some_resets else None
        given = sum(isinstance(p, hrnn.Given) for p in periods)
        boundaries = None
        if given:
            boundaries = torch.rand(steps + extra, batch, given, generator=generator) < 0.4
            boundaries = nest(model, oracle, boundaries, lengths, reset, steps)
        mask = torch.rand(shape, generator=generator) < 0.6 if masked else None
        y = torch.randint(3, shape, generator=generator)
        windows.append({"x": x, "y": y, "mask": mask, "boundaries": boundaries, "lengths": lengths, "reset": reset})
        with torch.no_grad():
            oracle.window(x, y, loss=lambda o, t: o.sum(-1), betas=[0.0] * (levels - 1), seed=0, weight=0.0, local_weight=0.0,
                          mask=mask, boundaries=boundaries, lengths=lengths, reset=reset)  # fmt: skip
    betas = draw(st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=levels - 1, max_size=levels - 1))
    return Setting(model, torch.nn.Linear(model.output_size, 3).double(), betas, windows)


def listed(window, edges):
    """The window's arguments as a list of chunks, cut at `edges`."""
    lengths, flags, steps = window["lengths"], window["boundaries"], len(window["x"])
    edges = [0, *sorted(edge for edge in edges if 0 < edge < steps), steps]
    return [
        hrnn.Chunk(
            window["x"][a:b], window["y"][a:b],
            **{name: None if window[name] is None else window[name][a:b] for name in ("mask", "reset")},
            boundaries=None if flags is None else flags[a : len(flags) if b == steps else b],
            lengths=None if lengths is None else (lengths - a).clamp(0, b - a),
        )
        for a, b in pairwise(edges)
    ]  # fmt: skip


def weights(window):
    """Of the whole window, as backward would derive them."""
    steps, batch = window["y"].shape
    valid = torch.ones(steps, batch).bool()
    if window["lengths"] is not None:
        valid = torch.arange(steps)[:, None] < window["lengths"]
    counted = valid if window["mask"] is None else valid & window["mask"]
    return {"weight": 1 / max(1, int(counted.sum())), "local_weight": 1 / max(1, int(valid.sum()))}


def run(setting, method, state, number, chunks=None):
    """One window with a method: what it gave, all gradients, those of x, and what the decoders know then."""
    window = dict(setting.windows[number])
    options = {"loss": setting.loss, "betas": setting.betas, "state": state, "generator": seeded(number)}
    if chunks is not None:
        result = method.backward(setting.model, listed(window, chunks), **options, **weights(window))
        d_x = None
    else:
        x = window.pop("x").clone()
        x.requires_grad_(x.is_floating_point())
        result = method.backward(setting.model, x, **options, **window)
        d_x = x.grad
    return result, take_gradients(setting.model, setting.head), d_x


def assert_same_result(a, b):
    for name in ("loss", "loss_sum"):
        assert_close(getattr(a, name), getattr(b, name), name)
    for name in ("local_losses", "local_sums"):
        assert torch.equal(getattr(a, name).isnan(), getattr(b, name).isnan()), name
        assert_close(getattr(a, name).nan_to_num(), getattr(b, name).nan_to_num(), name)
    assert (a.targets, a.steps) == (b.targets, b.steps)
    assert set(a.metrics) == set(b.metrics)
    for name, value in b.metrics.items():
        assert_close(a.metrics[name].double(), value.double(), name)
    assert_same_state(a.state, b.state)


def assert_same(setting, method, reference, chunks=None):
    """Window after window the same, with states carried and statistics learned."""
    other = Setting(deepcopy(setting.model), deepcopy(setting.head), setting.betas, setting.windows)
    states = None, None
    for number in range(len(setting.windows)):
        mine, got, d_x = run(setting, method, states[0], number, chunks)
        theirs, expected, d_expected = run(other, reference, states[1], number)
        assert_same_gradients(got, expected)
        assert_same_result(mine, theirs)
        if d_x is not None or (chunks is None and d_expected is not None):
            zero = torch.zeros_like(setting.windows[number]["x"])
            assert_close(zero if d_x is None else d_x, zero if d_expected is None else d_expected)
        for (name, buffer), (_, known) in zip(setting.model.named_buffers(), other.model.named_buffers(), strict=True):
            assert_close(buffer, known, name)
        states = mine.state, theirs.state
