"""What `on_segment` is told, and that a failure in the middle of a window leaves everything as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hrnn
from hrnn.decoders import Decoder
from hrnn.decoding import Decoded
from tests.gradients.problems import STEPS
from tests.helpers import (
    assert_close,
    seeded,
    squares,
    steady,
    untouched,
)


def test_on_segment_order_where_rows_are_in_phase():
    """Segments that end are differentiated from the bottom up, at the step where they end; the window's end closes all."""
    torch.manual_seed(5)
    model = steady(hrnn.HRNN(2, [3, 4, 2], [2, 2], decoder_units=3).double())
    x, y = torch.randn(9, 2, 2).double(), torch.randn(9, 2, 3).double()
    told, early = [], []

    def listen(event):
        told.append((event.level, event.step))
        if len(told) == 1:
            early.append({p: g.clone() for p, g in event.gradients().items()})

    options = {"loss": squares, "betas": [0.5, 0.2], "weight": 1 / 18, "local_weight": 1 / 18}
    hrnn.Restricted().backward(model, x, y, on_segment=listen, generator=seeded(), **options)
    assert told == [(0, 4), (1, 4), (0, 8), (1, 8), (0, 9), (1, 9), (2, 9)]
    model.zero_grad()
    hrnn.Restricted().backward(model, x[:4], y[:4], generator=seeded(), **options)
    for parameter in model.cells[0].parameters():
        assert_close(early[0][parameter], parameter.grad, tolerance=1e-12)


def test_on_segment_tells_every_level_bottom_up_and_ends_with_the_gradient(method, problem):
    model, options = problem
    told, last = [], {}

    def listen(event):
        told.append((event.step, event.level))
        last[event.level] = {p: g.clone() for p, g in event.gradients().items()}

    method.backward(model, **options, on_segment=listen)
    steps, levels = [step for step, _ in told], [level for _, level in told]
    assert steps == sorted(steps)
    ends = [len(levels) - 1 - levels[::-1].index(level) for level in range(3)]
    assert [told[end] for end in ends] == [(STEPS, 0), (STEPS, 1), (STEPS, 2)]
    assert ends == sorted(ends), "a level is done when those below it are"
    assert levels.count(2) == 1
    if isinstance(method, hrnn.Full):
        assert len(told) == 3
    else:
        assert levels.count(0) > 1
    for level, cell in enumerate(model.cells):
        assert set(last[level]) == set(cell.parameters())
        for parameter in cell.parameters():
            assert_close(last[level][parameter], parameter.grad, tolerance=1e-14)


class BrokenError(Exception):
    pass


def chunks(options, failing=None, sizes=(2, 3, 4)):
    start = 0
    for number, size in enumerate(sizes):
        if number == failing:
            raise BrokenError
        stop = start + size
        flags = options["boundaries"]
        part = None if flags is None else flags[start : stop + (stop == STEPS)]
        yield hrnn.Chunk(options["x"][start:stop], options["y"][start:stop], boundaries=part)
        start = stop


@pytest.mark.parametrize("where", ["iterator", "loss", "callback", "backward of the loss", "decoder", "nothing"])
def test_a_late_failure_leaves_everything_as_it_was(method, problem, where, monkeypatch):
    model, options = problem
    method = hrnn.Restricted(round_steps=2) if isinstance(method, hrnn.Restricted) else method
    late = 2 if isinstance(method, hrnn.Restricted) else 0  # `Full` shows all outputs at once
    head = nn.Linear(3, 3).double()
    calls = []

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise BrokenError

    def loss(values, target):
        calls.append("loss")
        if len(calls) > late and where == "loss":
            raise BrokenError
        values = Fails.apply(values) if len(calls) > late and where == "backward of the loss" else values
        return squares(head(values), target)

    def listen(event):
        if where == "callback" and event.level == 2:
            raise BrokenError

    if where == "decoder":
        decoded = []
        for kind, name in ((Decoder, "loss"), (Decoded, "differentiate")):  # by autograd, and by hand
            original = getattr(kind, name)

            def failing(self, *arguments, original=original):
                decoded.append(0)
                if len(decoded) > 2:
                    raise BrokenError
                return original(self, *arguments)

            monkeypatch.setattr(kind, name, failing)
    changes = {"loss": loss, "on_segment": listen, "weight": 0.1, "local_weight": 0.1, "x": None, "y": None, "boundaries": None}
    window = options | changes | {"x": chunks(options, failing=2 if where == "iterator" else None)}
    if where == "nothing":
        method.backward(model, **window)
        assert all(p.grad is not None for p in (*model.parameters(), *head.parameters()))
        return
    with untouched(model, head, state=options["state"]), pytest.raises(BrokenError):
        method.backward(model, **window)
    assert calls or not late
