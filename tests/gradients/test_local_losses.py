"""Local losses: betas, decoders, sampled indices."""

from __future__ import annotations

import pytest
import torch

import hrnn
from hrnn.decoders import Decoder
from hrnn.decoding import Decoded
from tests.gradients.problems import BATCH, STEPS, run
from tests.helpers import (
    assert_close,
    assert_same_gradients,
    seeded,
    squares,
)

pytestmark = pytest.mark.usefixtures("engine")


def test_betas_of_zero_never_call_the_decoder(method, problem, monkeypatch):
    model, options = problem
    _, expected = run(method, model, options, betas=[0.0, 0.0])

    def forbidden(*_):
        raise AssertionError("the decoder was called")

    for name in ("forward", "loss", "draw"):
        monkeypatch.setattr(Decoder, name, forbidden)
    monkeypatch.setattr(Decoded, "differentiate", forbidden)
    result, gradients = run(method, model, options, betas=[0, 0])
    assert bool(result.local_losses.isnan().all())
    assert_same_gradients(gradients, expected, tolerance=0)
    assert not any(float(g.abs().max()) for name, g in gradients.items() if ".decoders." in name)
    with pytest.raises(AssertionError, match="the decoder was called"):
        run(method, model, options, betas=[0, 0.1])


def test_local_losses_are_the_default_where_gradients_are_restricted(method, problem):
    """Without them nothing trains a summary; true gradients need none."""
    model, options = problem
    beta = 1.0 if isinstance(method, hrnn.Restricted) else 0.0
    expected, gradients = run(method, model, options, betas=[beta, beta], generator=seeded())
    result, found = run(method, model, options, betas=None, generator=seeded())
    assert bool(result.local_losses.isnan().any()) == (not beta)
    assert torch.equal(result.local_sums.nan_to_num(), expected.local_sums.nan_to_num())
    assert_same_gradients(found, gradients, tolerance=0)


@pytest.mark.parametrize("methods", [hrnn.Restricted, hrnn.Synthetic, hrnn.Full])
def test_a_model_without_decoders_has_no_local_losses_by_default(methods):
    model = hrnn.HRNN(2, [3, 3], [2], decoders=False)
    method = methods(model) if methods is hrnn.Synthetic else methods()
    x, y = torch.randn(4, 2, 2), torch.zeros(4, 2, 3)
    assert bool(method.backward(model, x, y, loss=squares).local_losses.isnan().all())
    if methods is not hrnn.Synthetic:  # which weighs its predictions by local_weight
        method.backward(model, iter([hrnn.Chunk(x, y)]), loss=squares, weight=0.1)


def test_predicted_gradients_have_local_losses_by_default_and_custom_methods_have_not():
    model = hrnn.HRNN(2, [3, 3], [2])
    x, y = torch.randn(4, 2, 2), torch.zeros(4, 2, 3)
    assert bool(hrnn.Synthetic(model).backward(model, x, y, loss=squares).local_losses.isfinite().all())

    class Own(hrnn.Gradient):
        def differentiate(self, window, objective, updates):
            assert window.betas == [0.0]
            return window.state

    Own().backward(model, x, y, loss=squares)


@pytest.mark.parametrize("weights", [{"weight": 0.1}, {"local_weight": 0.1}])
def test_local_losses_of_the_default_want_their_weight_and_the_remedy_is_named(weights):
    model = hrnn.HRNN(2, [3, 3], [2])
    x, y = torch.randn(4, 2, 2), torch.zeros(4, 2, 3)
    with pytest.raises(ValueError, match=r"was given without .* betas=\[0.0\]"):
        hrnn.Restricted().backward(model, x, y, loss=squares, **weights)
    hrnn.Restricted().backward(model, x, y, loss=squares, betas=[0.0], **weights)
    with pytest.raises(ValueError, match=r"cannot be derived from an iterator.* local_weight=1/"):
        hrnn.Restricted().backward(model, iter([hrnn.Chunk(x, y)]), loss=squares, **weights)
    if "weight" in weights:
        hrnn.Restricted().backward(model, iter([hrnn.Chunk(x, y)]), loss=squares, betas=[0.0], **weights)


def test_a_loss_that_trains_nothing_is_an_error_where_only_the_default_has_local_losses():
    model = hrnn.HRNN(2, [3, 3], [2])
    x, y = torch.randn(4, 2, 2), torch.ones(4, 2, 3)
    with pytest.raises(ValueError, match="train nothing"):
        hrnn.Restricted().backward(model, x, y, loss=lambda output, target: squares(output.detach(), target))
    hrnn.Restricted().backward(model, x, y, loss=lambda output, target: squares(output.detach(), target), betas=[1.0])


def test_a_beta_of_zero_leaves_the_other_levels_loss_alone(method, problem):
    model, options = problem
    both, _ = run(method, model, options)
    one, gradients = run(method, model, options, betas=[0, 0.2])
    assert bool(one.local_losses[0].isnan())
    assert_close(one.local_losses[1], both.local_losses[1], tolerance=1e-13)
    assert not gradients["0.decoders.0.index"].any()
    assert gradients["0.decoders.1.index"].any()


def test_the_generator_moves_on_from_window_to_window(method, problem):
    model, options = problem
    generator = seeded()
    losses = {float(run(method, model, options, generator=generator)[0].local_losses[0]) for _ in range(8)}
    assert len(losses) > 1
    one, other = seeded(), seeded()
    run(method, model, options, generator=one)
    run(method, model, options, generator=other, betas=None)
    assert torch.equal(one.get_state(), other.get_state()), "whatever the betas are"


def test_explicit_weights_scale_the_two_kinds_of_loss(method, problem):
    model, options = problem
    plain, expected = run(method, model, options)
    scaled, got = run(method, model, options, weight=2 / (STEPS * BATCH), local_weight=2 / (STEPS * BATCH))
    assert_close(scaled.loss, 2 * plain.loss, tolerance=1e-13)
    assert_close(scaled.local_losses, 2 * plain.local_losses, tolerance=1e-13)
    assert_same_gradients(got, {name: 2 * g for name, g in expected.items()}, tolerance=1e-12)
