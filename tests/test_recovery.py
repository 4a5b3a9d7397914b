"""What decoders recover, beside a literal count."""

from __future__ import annotations

import math

import pytest
import torch

import hrnn


def literal(model, x, output, period):
    """Of whole segments of the lowest level, for each index, the loss beside that of guessing any of their inputs."""
    decoder, lost = model.decoders[0], []
    ends = range(period - 1, len(x), period)
    inputs = x[: ends[-1] + 1].flatten(0, 1)
    if model.tokens:
        guess = -sum(float(p) * math.log(p) for p in torch.bincount(inputs) / len(inputs) if p > 0)
    else:
        guess = float(inputs.var(0, correction=0).mean())
    for j in range(1, period + 1):
        targets = torch.stack([x[end - j + 1] for end in ends])
        decoded = torch.stack([decoder(output[end], torch.full((1, x.shape[1]), j))[0] for end in ends])
        if model.tokens:
            loss = torch.nn.functional.cross_entropy(decoded.flatten(0, 1), targets.flatten())
        else:
            loss = (decoded - targets).square().mean()
        lost.append(float(loss.detach()) / guess)
    return lost


@pytest.mark.parametrize("tokens", [False, True])
def test_it_is_the_loss_by_index_beside_that_of_guessing(tokens):
    torch.manual_seed(0)
    model = hrnn.HRNN(hrnn.Tokens(3) if tokens else 2, [4, 5, 3], [3, 2], decoder_units=6).double()
    x = torch.randint(3, (14, 6)) if tokens else torch.randn(14, 6, 2).double() + 3
    output, _ = model(x)
    output = output.detach()
    lowest, middle = model.recovered(x)
    assert lowest.tolist() == pytest.approx(literal(model, x, output, 3), rel=1e-6)
    assert lowest.shape == (3,)
    assert middle.shape == (2,)
    assert bool(middle.isfinite().all())


def test_a_decoder_that_knows_its_inputs_loses_nothing_and_what_never_comes_is_nan():
    torch.manual_seed(0)
    model = hrnn.HRNN(1, [4, 3], [hrnn.Given(5)], decoder_units=6)
    x = torch.randn(12, 3, 1)
    flags = (torch.arange(13) % 3 == 0)[:, None].expand(-1, 3)
    (lost,) = model.recovered(x, boundaries=flags)
    assert lost[:3].isfinite().all()
    assert lost[3:].isnan().all()  # no segment is longer than three
    (constant,) = model.recovered(torch.ones_like(x), boundaries=flags)
    assert constant.isnan().all()  # nothing to guess
    with pytest.raises(ValueError, match="no decoders"):
        hrnn.HRNN(1, [4, 3], [2], decoders=False).recovered(x)


def test_long_windows_are_gone_through_in_pieces(monkeypatch):
    torch.manual_seed(0)
    model = hrnn.HRNN(3, [6, 5, 4], [4, 3]).double()
    x, lengths = torch.randn(50, 3, 3, dtype=torch.float64), torch.tensor([50, 31, 7])
    reset = torch.zeros(50, 3, dtype=torch.bool)
    reset[20, 0] = reset[9, 1] = True
    whole = [model.recovered(x, lengths=lengths), model.recovered(x, reset=reset), model.recovered(x, reset=reset[20])]
    monkeypatch.setattr("hrnn.hierarchy.AT_ONCE", 7 * 3 * 6)
    cut = [model.recovered(x, lengths=lengths), model.recovered(x, reset=reset), model.recovered(x, reset=reset[20])]
    for one, other in zip(whole, cut, strict=True):
        for level, again in zip(one, other, strict=True):
            assert torch.allclose(level, again, rtol=1e-9, equal_nan=True)


def test_it_goes_on_from_a_state_in_the_middle_of_a_segment():
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [4, 3], [3], decoder_units=6).double()
    x = torch.randn(6, 5, 2).double()
    (whole,) = model.recovered(x)
    (first,) = model.recovered(x[:3])
    state = model(x[:4])[1].detach()
    (second,) = model.recovered(x[4:], state)  # whose first input was given before the state
    (fresh,) = model.recovered(x[4:])
    assert fresh.isnan().all()  # two steps are no segment
    guesses = [float(inputs.flatten(0, 1).var(0, correction=0).mean()) for inputs in (x, x[:3], x[3:])]
    losses = [lost * guess for lost, guess in zip((whole, first, second), guesses, strict=True)]
    assert torch.allclose(losses[0], (losses[1] + losses[2]) / 2, rtol=1e-9)
