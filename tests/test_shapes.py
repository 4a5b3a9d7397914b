"""The shapes that signatures promise, checked by jaxtyping while the library runs on good input."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import jaxtyping
jaxtyping.install_import_hook("hrnn", "beartype.beartype")
import torch
import hrnn

def squares(output, target):
    return (output - target).square().mean(-1)

for number, inputs in enumerate((hrnn.Tokens(3), 2)):
    for place, periods in enumerate(([2, 2], [hrnn.Given(3), 2], [hrnn.Given(3), hrnn.Given(2)])):
        batch_first = (number + place) % 2 == 1  # either with each of the others

        def order(t):
            return t.transpose(0, 1) if batch_first and t is not None else t

        model = hrnn.HRNN(inputs, [3, 4, 5], periods, batch_first=batch_first)
        x = torch.randint(3, (7, 2)) if model.tokens else torch.randn(7, 2, 2)
        given = sum(isinstance(p, hrnn.Given) for p in periods)
        flags = torch.arange(8)[:, None, None].expand(8, 2, given) % 4 == 0 if given else None
        flags = flags[..., 0] if given == 1 else flags
        reset = torch.zeros(7, 2, dtype=torch.bool)
        reset[4, 1] = True
        y = torch.randn(7, 2, 3)
        mask = torch.rand(7, 2) < 0.5
        output, state = model(order(x), boundaries=order(flags))
        model(order(x), state, order(flags), torch.tensor([7, 3]), order(reset) if not given else None)
        model(order(x), state, order(flags), [7, 3], torch.tensor([True, False]))
        _, state = model.step(x[0], boundaries=None if flags is None else flags[0], reset=torch.tensor([True, False]))
        model.step(x[0], state, None if flags is None else flags[0])
        model.reset(state, torch.tensor([True, False]))
        for method in (hrnn.Full(), hrnn.Restricted(round_steps=3)):
            options = {"loss": squares, "betas": [0.1, 0.1]}
            result = method.backward(model, order(x), order(y), boundaries=order(flags), mask=order(mask), **options)
            options["boundaries"] = order(flags)
            lengths = torch.tensor([7, 0])
            method.backward(model, order(x), order(y), lengths=lengths, state=result.state, **options)
            del options["boundaries"]
            chunk = hrnn.Chunk(order(x), order(y), boundaries=order(flags))
            method.backward(model, iter([chunk]), weight=1.0, local_weight=1.0, **options)
        updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
        hrnn.Restricted().backward(model, order(x), order(y), boundaries=order(flags), updates=updates, **options)
        state.select(torch.tensor([1])).with_rows(torch.tensor([4])).to(dtype=torch.float64).clone().detach()
print("good")

for wrong in (
    lambda: model(torch.zeros(())),
    lambda: model.reset(state, torch.tensor([1.0, 0.0])),
    lambda: hrnn.Full().backward(model, order(x), order(y), loss=squares, mask=torch.ones(7, 2)),
    lambda: hrnn.Restricted().backward(model, order(x), order(y), loss=squares, mask=mask[0]),
):
    try:
        wrong()
    except jaxtyping.TypeCheckError:
        print("caught")
"""


def test_annotations_hold_on_good_input_and_are_checked():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.split() == ["good", *["caught"] * 4]
