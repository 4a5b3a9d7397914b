"""Local losses that are divided by what is known of their targets, and symbols that count for their rarity."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

import hrnn
from hrnn.statistics import KEPT, Statistics
from tests.helpers import METHODS, assert_close, assert_same_gradients, seeded, squares, take_gradients

pytestmark = pytest.mark.usefixtures("engine")
STEPS, BATCH = 12, 3


def vectors(seed=0, **options):
    torch.manual_seed(seed)
    model = hrnn.HRNN(2, [4, 3], [3], decoder_units=5, **options).double()
    return model, torch.randn(STEPS, BATCH, 2).double() * 3 + 7, torch.randn(STEPS, BATCH, 4).double()


def tokens(seed=0, **options):
    torch.manual_seed(seed)
    model = hrnn.HRNN(hrnn.Tokens(4), [4, 3], [3], decoder_units=5, **options).double()
    x = torch.randint(3, (STEPS, BATCH))  # the last symbol never comes
    x[x == 2] *= (torch.rand(int((x == 2).sum())) < 0.3).long()  # and another one seldom
    return model, x, torch.randn(STEPS, BATCH, 4).double()


def run(method, model, x, y, **options):
    result = METHODS[method]().backward(model, x, y, loss=squares, betas=[1.0], generator=seeded(), **options)
    return result, take_gradients(model)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [vectors, tokens])
def test_off_is_the_plain_loss_to_the_last_bit(make, method):
    model, x, y = make(normalized=False)
    scaled, _, _ = make()
    assert model.decoders[0].statistics is None
    assert not any("statistics" in name for name in model.state_dict())
    plain, expected = run(method, model, x, y)
    first, got = run(method, scaled, x, y)  # nothing is known yet
    assert torch.equal(first.local_losses, plain.local_losses)
    assert all(torch.equal(got[name], gradient) for name, gradient in expected.items())
    again, _ = run(method, model, x, y)
    assert torch.equal(again.local_losses, plain.local_losses)


@pytest.mark.parametrize("method", METHODS)
def test_vectors_are_divided_by_their_variance(method):
    model, x, y = vectors()
    first, before = run(method, model, x, y)
    second, after = run(method, model, x, y)
    pooled = x.flatten(0, 1).var(0, correction=0).mean()  # every input is decoded once: all indices, whole segments
    known = model.decoders[0].statistics
    assert_close(known.variance, pooled)
    assert_close(known.mean, x.flatten(0, 1).mean(0))
    assert float(known.count) == pytest.approx(STEPS * BATCH * (1 + KEPT))
    assert_close(second.local_losses, first.local_losses / pooled)
    own = [name for name in before if ".decoders." in name]
    assert_same_gradients({n: after[n] for n in own}, {n: before[n] / pooled for n in own})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weights", ["equal", "inverse"])
def test_tokens_are_divided_by_their_entropy_and_weighted_by_their_rarity(method, weights):
    model, x, y = tokens(symbol_weights=weights)
    other, _, _ = tokens(normalized=False, symbol_weights=weights)
    for _ in range(2):
        divided, _ = run(method, model, x, y)
        plain, _ = run(method, other, x, y)
    share = torch.bincount(x.flatten(), minlength=4).double() / x.numel()
    weighted = share.clone()
    if weights == "inverse":
        known = other.decoders[0].statistics.scale().weights
        there = share > 0
        assert_close(known[there], 1 / (share[there] * int(there.sum())))
        assert float((known * share).sum()) == pytest.approx(1)
        assert float(known[3]) == pytest.approx(100.0)  # never seen: a hundred times what a symbol of mean frequency counts for
        weighted = share * known
    entropy = -sum(float(p * p.log()) for p in weighted if p > 0)
    assert entropy == pytest.approx(math.log(3)) or weights == "equal"
    assert_close(divided.local_losses, plain.local_losses / entropy)


def test_a_weighted_loss_is_that_of_cross_entropy_with_weights():
    model, x, y = tokens(symbol_weights="inverse", normalized=False)
    run("restricted", model, x, y)
    decoder = model.decoders[0]
    scale = decoder.statistics.scale()
    result, _ = run("restricted", model, x, y)
    targets = x.view(STEPS // 3, 3, BATCH)
    output, _ = model(x)
    summaries = output.view(STEPS // 3, 3, BATCH, 4)[:, -1]
    losses = []
    for summary, of_segment in zip(summaries, targets, strict=True):
        for j in (1, 2, 3):
            logits = decoder(summary, torch.full((1, BATCH), j))[0]
            losses.append(F.cross_entropy(logits, of_segment[3 - j], weight=scale.weights, reduction="none").mean())
    assert_close(result.local_losses[0], torch.stack(losses).mean())


def test_nothing_is_learned_in_evaluation_mode_nor_from_a_window_that_fails():
    model, x, y = vectors()
    run("restricted", model, x, y)
    before = {name: b.clone() for name, b in model.named_buffers()}
    assert before
    with pytest.raises(ZeroDivisionError):
        hrnn.Restricted().backward(model, x + 1, y, loss=lambda *_: 1 / 0, betas=[1.0])
    run("restricted", model.eval(), x + 1, y)
    assert all(torch.equal(b, before[name]) for name, b in model.named_buffers())
    run("restricted", model.train(), x + 1, y)
    assert not any(torch.equal(b, before[name]) for name, b in model.named_buffers())


def test_a_window_that_is_not_finite_spoils_nothing():
    model, x, y = vectors()
    run("restricted", model, x, y)
    before = float(model.decoders[0].statistics.variance)
    x[0, 0, 0] = math.nan
    run("restricted", model, x, y)
    assert float(model.decoders[0].statistics.variance) == before


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_large_mean_in_float32_does_not_spoil_the_variance(scale):
    known = Statistics(2, tokens=False, normalized=True, weighted=False)
    values = torch.randn(4, 500, 2, generator=seeded()) + 1e4
    sums = known.gathered()
    for part in (values * scale).split(100, 1):
        known.add(sums, part, 3.0)
    known.commit(sums)
    assert float(known.variance) == pytest.approx(scale**2 * float(values.flatten(0, 1).var(0, correction=0).mean()), rel=0.01)


def test_there_is_a_floor_under_what_is_divided_by():
    model, x, y = vectors()
    run("restricted", model, torch.ones_like(x), y)
    assert model.decoders[0].statistics.scale().factor == 1e6
    model, x, y = tokens()
    run("restricted", model, torch.ones_like(x), y)
    assert model.decoders[0].statistics.scale().factor == pytest.approx(10)


@pytest.mark.parametrize("make", [vectors, tokens])
def test_what_is_known_is_saved_with_the_model(make, tmp_path):
    model, x, y = make()
    run("restricted", model, x, y)
    model.save(tmp_path / "model")
    other = hrnn.HRNN.load(tmp_path / "model")
    assert other.config == model.config
    (mine, a), (theirs, b) = run("restricted", model, x, y), run("restricted", other, x, y)
    assert torch.equal(mine.local_losses, theirs.local_losses)
    assert all(torch.equal(a[name], b[name]) for name in a)
    model.decoders[0].reset_parameters()
    assert model.decoders[0].statistics.scale().factor == 1


def test_bad_arguments():
    with pytest.raises(ValueError, match="symbol_weights is 'rare'; expected one of"):
        hrnn.HRNN(hrnn.Tokens(3), [4, 4], [2], symbol_weights="rare")
    with pytest.raises(ValueError, match="symbol_weights is 'inverse' and the inputs are vectors"):
        hrnn.HRNN(3, [4, 4], [2], symbol_weights="inverse")
    with pytest.raises(TypeError, match="normalized is 'yes'"):
        hrnn.HRNN(3, [4, 4], [2], normalized="yes")
    model, x, y = vectors()
    with pytest.raises(TypeError, match="group is 3; give what"):
        run("restricted", model, x, y, group=3)
