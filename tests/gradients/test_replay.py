"""Gradients that are sent back along some of the upward edges: true ones, or gradients that are true on average."""

from __future__ import annotations

import itertools

import pytest
import torch

import hrnn
from hrnn.gradients.edges import Edges
from tests.helpers import (
    assert_close,
    assert_same_gradients,
    nested_flags,
    seeded,
    squares,
    steady,
    take_gradients,
    untouched,
)
from tests.user_cells import MinimalGRU

BATCH = 3


class Dropping(MinimalGRU):
    """A cell that draws numbers at every tick."""

    def step(self, inputs, state):
        return super().step(torch.nn.functional.dropout(inputs, 0.4), state)


def problem(sizes, periods, steps, before=0, cell="lstm", batch=BATCH, **options):
    """A model, and the arguments of a window that begins `before` steps into a sequence."""
    torch.manual_seed(1)
    model = steady(hrnn.HRNN(2, sizes, periods, cell=cell, decoder_units=4, **options).double())
    x, y = torch.randn(before + steps, batch, 2).double(), torch.randn(steps, batch, sizes[0]).double()
    flags = nested_flags(periods, before + steps, batch, seeded())
    state = None
    if before:
        state = model(x[:before], boundaries=None if flags is None else flags[:before])[1].detach()
    given = {"x": x[before:], "y": y, "state": state, "loss": squares, "betas": [0.5] * len(periods), "generator": seeded()}
    return model, given | ({} if flags is None else {"boundaries": flags[before:]})


def run(method, model, given):
    given["generator"].manual_seed(7)
    return method.backward(model, **given), take_gradients(model)


@pytest.mark.parametrize("round_steps", [None, 2])
def test_never_is_restricted_to_the_last_bit(round_steps):
    for given_lengths in (None, [9, 12, 3]):
        model, given = problem([3, 4, 2], [2, 3], 12)
        given["lengths"] = given_lengths
        expected = run(hrnn.Restricted(round_steps), model, given)[1]
        for name, gradient in run(hrnn.Restricted(round_steps, replay=0), model, given)[1].items():
            assert torch.equal(gradient, expected[name])


@pytest.mark.parametrize(("sizes", "periods", "steps"), [([2, 3], [2], 7), ([2, 3, 2], [2, 2], 10)])
def test_the_expectation_is_the_true_gradient(sizes, periods, steps, monkeypatch):
    """Over all possible draws, each as likely as it is."""
    model, given = problem(sizes, periods, steps, batch=1)
    _, true = run(hrnn.Full(), model, given)
    edges = [(level, n) for level in range(len(periods)) for n in range(-(-steps // 2 ** (level + 1)) - 1)]
    p, mean, again = 0.3, dict.fromkeys(true, 0.0), 0
    for draws in itertools.product([False, True], repeat=len(edges)):
        drawn = dict(zip(edges, draws, strict=True))

        def weights(self, level, row, ordinal, drawn=drawn):
            return (ordinal + row).double().apply_(lambda n: drawn.get((level, int(n)), False) / self.probability)

        monkeypatch.setattr(Edges, "weights", weights)
        _, gradients = run(hrnn.Restricted(replay=p), model, given)
        likely = p ** sum(draws) * (1 - p) ** (len(draws) - sum(draws))
        mean = {name: mean[name] + likely * gradient for name, gradient in gradients.items()}
        again += sum(draws)
    assert again == len(edges) * 2 ** (len(edges) - 1) > 0
    assert_same_gradients(mean, true)


@pytest.mark.long
def test_the_mean_over_draws_is_the_true_gradient():
    """Six ticks of the upper level, all indices, one edge in two: every entry of every parameter within sampling error."""
    draws = 10_000
    model, given = problem([3, 4], [2], 12, batch=2, indices="all")
    true = torch.cat([g.flatten() for g in run(hrnn.Full(), model, given)[1].values()])
    cut = torch.cat([g.flatten() for g in run(hrnn.Restricted(), model, given)[1].values()])
    method, generator = hrnn.Restricted(replay=0.5), torch.Generator().manual_seed(3)
    found = []
    for _ in range(draws):
        method.backward(model, **(given | {"generator": generator}))
        found.append(torch.cat([g.flatten() for g in take_gradients(model).values()]))
    mean, error = torch.stack(found).mean(0), torch.stack(found).std(0) / draws**0.5
    scale = float(true.abs().max())
    assert bool(((mean - true).abs() <= 5 * error + 1e-12 * scale).all())
    away = (cut - true).abs() > 10 * error + 1e-9 * scale  # which a cut gradient is not
    assert int(away.sum()) > 20


def test_draws_are_as_likely_as_they_should_be_and_apart_from_indices():
    model, given = problem([3, 4], [3], 3)
    window = hrnn.gradients.window.Window(
        model, hrnn.Chunk(given["x"], given["y"]), loss=squares, betas=[1.0], state=None, weight=None, local_weight=None,
        generator=seeded(), on_segment=None,
    )  # fmt: skip
    row, ordinal = torch.arange(200)[:, None].expand(200, 500), torch.arange(500).expand(200, 500)
    drawn = Edges(window, 0.2).weights(0, row, ordinal)
    assert set(drawn.unique().tolist()) == {0.0, 5.0}
    assert abs(float(drawn.mean()) - 1) < 5 * (4 / 100_000) ** 0.5
    other = Edges(window, 0.2).weights(1, row, ordinal)
    index = hrnn.gradients.edges.segment_hash(window.seed, 0, row, ordinal) % 5 == 0
    for apart in (other, index.double()):
        assert abs(float(torch.corrcoef(torch.stack([drawn.flatten(), apart.flatten()]))[0, 1])) < 5 / 100_000**0.5


def test_what_a_users_cell_drew_it_draws_again():
    """And nobody else's draws are changed by that."""
    model, given = problem([3, 4], [3], 20, cell=Dropping)
    torch.manual_seed(9)
    _, true = run(hrnn.Full(), model, given)
    after = torch.rand(3)
    for round_steps in (None, 1, 7):
        torch.manual_seed(9)
        _, again = run(hrnn.Restricted(round_steps, replay=1), model, given)
        assert_same_gradients(again, true)
        assert torch.equal(torch.rand(3), after)


@pytest.mark.parametrize("lengths", [None, [13, 7, 1]])
def test_losses_metrics_and_statistics_count_once(lengths):
    model, given = problem([3, 4, 2], [2, 3], 13)
    model.train()
    seen = []

    def loss(output, target):
        seen.append(output.shape[0] * output.shape[1])
        return squares(output, target), {"steps": torch.ones(output.shape[:2])}

    given |= {"loss": loss, "lengths": lengths}
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    results, known = [], []
    for method in (hrnn.Restricted(), hrnn.Restricted(replay=0.7)):
        model.load_state_dict(stored)
        seen.clear()
        results.append(run(method, model, given)[0])
        known.append({name: value.clone() for name, value in model.named_buffers()})
        assert sum(seen) == results[-1].targets == float(results[-1].metrics["steps"])
    assert known[0]
    for name, value in known[0].items():
        assert_close(known[1][name], value, name)
    assert_close(results[1].local_sums, results[0].local_sums)
    assert results[1].targets == (39 if lengths is None else 21)


def test_bad_arguments():
    for replay in (-0.1, 1.5, float("nan"), "often", True, None):
        with pytest.raises(ValueError, match=r"replay is .*; give the probability of sending a gradient back, 0 to 1"):
            hrnn.Restricted(replay=replay)
    with pytest.raises(ValueError, match=r"replay is 0.5 and top 'checkpointed'.*give one of them, or hrnn.Checkpointed"):
        hrnn.Restricted(top="checkpointed", replay=0.5)
    with pytest.raises(TypeError, match="unbiased"):
        hrnn.Restricted(replay=0.5, unbiased=True)
    model, given = problem([3, 4], [3], 6)
    updates = hrnn.Updates(model, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    with (
        untouched(model),
        pytest.raises(ValueError, match=r"updates were given to Restricted\(replay=0.5\): .*use hrnn.Restricted"),
    ):
        hrnn.Restricted(replay=0.5).backward(model, **given, updates=updates)
    chunks = iter([hrnn.Chunk(given["x"], given["y"])])
    with untouched(model), pytest.raises(TypeError, match=r"can be read only once.*give a tensor, or a sequence of hrnn.Chunk"):
        hrnn.Restricted(replay=0.5).backward(model, chunks, loss=squares, weight=0.1, local_weight=0.1)
