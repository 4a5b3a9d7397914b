"""The page on methods of one's own: its example is complete, short, and is what it says."""

import torch

import hrnn
from tests.docs.documented import DOCS, code_in
from tests.helpers import nested_flags, seeded, squares, take_gradients


def test_the_example_is_short_and_its_share_matters():
    example, use = code_in(DOCS / "own_method.md")
    assert len(example.splitlines()) <= 60
    names = {}
    exec(example, names)
    exec(use, names)  # holds it against Restricted and Full
    periods = [hrnn.Given(3), 2]
    model = hrnn.HRNN(2, [3, 4, 2], periods, decoder_units=4).double().eval()
    x, y = torch.randn(12, 3, 2).double(), torch.randn(12, 3, 3).double()
    flags = nested_flags(periods, 12, 3, seeded())
    found = []
    for method in (hrnn.Full(), names["Damped"](1.0), names["Damped"](0.5)):
        method.backward(model, x, y, loss=squares, betas=[0.5, 0.5], boundaries=flags, generator=seeded())
        found.append(torch.cat([g.flatten() for g in take_gradients(model).values()]))
    assert torch.allclose(found[0], found[1], atol=1e-12)
    assert not torch.allclose(found[0], found[2], atol=1e-6)
