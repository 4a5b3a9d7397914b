"""Local losses that are divided by what is known of their targets, and symbols that count for their rarity."""

from __future__ import annotations

import copy
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


def train(model, x, windows, **options):
    """The local losses of some windows."""
    target = torch.zeros(*x.shape[:2])
    given = {"loss": lambda output, y: output.float().square().mean(-1), "betas": [1.0], **options}
    return [float(hrnn.Restricted().backward(model, x, target, **given).local_losses) for _ in range(windows)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inputs", [3, hrnn.Tokens(3)])
def test_half_precision_does_not_reach_the_statistics(inputs, dtype):
    """Counts grow beyond float16, and a window changes what is known by less than bfloat16 can tell."""
    torch.manual_seed(0)
    model = hrnn.HRNN(inputs, [4, 4], [10], decoder_units=4)
    x = torch.randn(100, 100, 3) if isinstance(inputs, int) else torch.randint(3, (100, 100))
    plain = copy.deepcopy(model)
    losses = train(model.to(dtype), x.to(dtype) if isinstance(inputs, int) else x, 8)
    assert torch.tensor(losses).isfinite().all()
    train(plain, x, 8)
    known, expected = model.decoders[0].statistics, plain.decoders[0].statistics
    for name, buffer in known.named_buffers():
        assert buffer.dtype == torch.float32
        assert_close(buffer, expected.get_buffer(name), tolerance=1e-2)
    before = {name: buffer.clone() for name, buffer in known.named_buffers()}
    model.float()
    assert all(torch.equal(known.get_buffer(name), value) for name, value in before.items())
    assert all(buffer.dtype == torch.float64 for buffer in model.double().decoders[0].statistics.buffers())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_saved_with_what_it_knows(dtype, tmp_path):
    torch.manual_seed(0)
    model = hrnn.HRNN(3, [4, 4], [10], decoder_units=4).to(dtype)
    train(model, torch.randn(20, 5, 3).to(dtype), 2)
    model.save(tmp_path / "model.safetensors")
    loaded = hrnn.HRNN.load(tmp_path / "model.safetensors")
    assert loaded.dtype == dtype
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())


def test_symbols_are_weighed_in_the_dtype_of_the_decoder():
    """Weights of other files may be assigned, and with them another dtype."""
    torch.manual_seed(0)
    old = hrnn.HRNN(hrnn.Tokens(5), [8, 8], [4], decoder_units=8, normalized=False).double().state_dict()
    model = hrnn.HRNN(hrnn.Tokens(5), [8, 8], [4], decoder_units=8, symbol_weights="inverse")
    model.load_state_dict(old, strict=False, assign=True)
    x, found = torch.randint(5, (12, 4)), []
    for method in (hrnn.Full(), hrnn.Restricted()):
        same = copy.deepcopy(model)
        for _ in range(2):
            result = method.backward(same, x, torch.zeros(12, 4), loss=lambda o, y: o.square().mean(-1), betas=[1.0])
        found.append(result.local_losses)
    assert_close(*found)


@pytest.mark.parametrize("old", [math.nan, 1e30])
@pytest.mark.parametrize("method", ["full", "restricted"])
def test_what_stood_in_a_sequence_before_the_reset_is_no_target(method, old):
    """Indices beyond a segment point at what came before it."""
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [8, 8], [hrnn.Given(4)], decoder_units=8).double()
    x, bounds = torch.randn(12, 2, 2).double(), torch.zeros(13, 2, dtype=torch.bool)
    spoiled, bounds[::2] = x.clone(), True
    spoiled[9:, 0] = old
    gradient = METHODS[method]()
    options = {"loss": lambda o, y: o.square().mean(-1), "betas": [1.0]}
    results = []
    for first in (x, spoiled):
        same = copy.deepcopy(model)
        every_fourth = torch.zeros(12, 2, dtype=torch.bool)
        every_fourth[::4] = True
        state = gradient.backward(same, first, torch.zeros(12, 2), boundaries=every_fourth, **options).state
        take_gradients(same)
        same.decoders[0].statistics.reset()
        reset = torch.ones(2, dtype=torch.bool)
        result = gradient.backward(same, x, torch.zeros(12, 2), boundaries=bounds, state=state, reset=reset, **options)
        results.append((result.local_losses, take_gradients(same), dict(same.decoders[0].statistics.named_buffers())))
    (loss, gradients, known), (other_loss, other_gradients, other_known) = results
    assert torch.equal(loss, other_loss)
    assert all(torch.equal(gradients[name], other_gradients[name]) for name in gradients)
    assert all(torch.equal(known[name], other_known[name]) for name in known)


def test_arguments_of_decoders_are_checked_where_there_are_none():
    for wrong in ({"normalized": "yes"}, {"indices": 7}, {"decoder_units": -5}, {"decoder_layers": 0}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            hrnn.HRNN(3, [6], **wrong)
    assert hrnn.HRNN(3, [6], indices=[], normalized=[]).hidden_sizes == [6]


def test_a_beta_beyond_sense_is_refused():
    model, x, y = vectors()
    with pytest.raises(ValueError, match=r"betas is .*; give at most 1e"):
        hrnn.Restricted().backward(model, x, y, loss=squares, betas=[1e300])
    assert not any(p.grad is not None for p in model.parameters())
