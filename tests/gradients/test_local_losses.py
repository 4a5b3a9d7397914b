"""Local losses: betas, decoders, sampled indices."""

from __future__ import annotations

import pytest
import torch

import hrnn
from hrnn.decoders import Decoder
from hrnn.decoding import Decoded
from tests.gradients.problems import BATCH, STEPS, run
from tests.helpers import (
    METHODS,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    seeded,
    squares,
    steady,
)

pytestmark = pytest.mark.usefixtures("engine")


def test_betas_of_zero_never_call_the_decoder(method, problem, monkeypatch):
    model, options = problem
    _, expected = run(method, model, options, betas=None)

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


def test_a_beta_of_zero_leaves_the_other_levels_loss_alone(method, problem):
    model, options = problem
    both, _ = run(method, model, options)
    one, gradients = run(method, model, options, betas=[0, 0.2])
    assert bool(one.local_losses[0].isnan())
    assert_close(one.local_losses[1], both.local_losses[1], tolerance=1e-13)
    assert not gradients["0.decoders.0.index"].any()
    assert gradients["0.decoders.1.index"].any()


def test_both_methods_decode_the_same_sampled_indices(problem):
    model, options = problem
    results = {name: run(method(), model, options)[0] for name, method in METHODS.items()}
    assert_close(results["full"].local_losses, results["restricted"].local_losses, tolerance=1e-12)
    assert_close(results["full"].loss, results["restricted"].loss, tolerance=1e-12)
    assert_same_state(results["full"].state, results["restricted"].state)
    others = [run(hrnn.Full(), model, options, generator=seeded(seed))[0].local_losses[0] for seed in range(8)]
    assert len({float(loss) for loss in others}) > 1, "another generator draws other indices"


@pytest.mark.parametrize("indices", ["sampled", "all"])
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_decoders_of_any_depth_by_hand_and_by_autograd(layers, tokens, indices):
    """A decoder's own gradient does not depend on how the rest is differentiated."""
    torch.manual_seed(5)
    for periods in ([3, 2], [hrnn.Given(3), 2]):
        model = hrnn.HRNN(
            hrnn.Tokens(4) if tokens else 2,
            [3, 4, 2],
            periods,
            decoder_layers=[layers, 2],
            decoder_units=[5, 3],
            indices=[indices, "sampled"],
        )
        model = steady(model.double())
        x = torch.randint(4, (13, 3)) if tokens else torch.randn(13, 3, 2).double()
        y, flags = torch.randn(13, 3, 3).double(), None if periods == [3, 2] else torch.rand(14, 3) < 0.4
        options = {"x": x, "y": y, "boundaries": flags, "loss": squares, "betas": [0.5, 0.2]}
        (full, expected), (restricted, got) = (run(method(), model, options) for method in METHODS.values())
        assert_close(restricted.local_losses, full.local_losses, tolerance=1e-13)
        own = [name for name in expected if ".decoders." in name]
        assert len(own) == 2 * (layers + 2) + 2
        assert_same_gradients({n: got[n] for n in own}, {n: expected[n] for n in own}, tolerance=1e-12)
        assert all(float(got[name].abs().max()) > 0 for name in own)


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
