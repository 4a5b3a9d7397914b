"""What several test files need: boundaries that are nested, comparisons, and what a failure must leave untouched."""

from __future__ import annotations

from contextlib import contextmanager

import torch

import hrnn
from tests.user_cells import LearnedStart, MinimalGRU, Opened, TanhReader

CELLS = {"lstm": "lstm", "gru": "gru", "rnn": "rnn", "minimal": MinimalGRU, "learned": LearnedStart, "opened": Opened}
READERS = {"linear": "linear", "maximum": "maximum", "tanh": TanhReader}
METHODS = {"full": hrnn.Full, "restricted": hrnn.Restricted}


def squares(output, target):
    """A loss without parameters: one value per step and row."""
    return (output - target).square().mean(-1)


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def steady(model):
    """The same model, whose decoders know something of their targets and learn no more of them: what `backward` does to it then
    depends on its arguments alone, and local losses are scaled."""
    for decoder in model.decoders or []:
        if (known := getattr(decoder, "statistics", None)) is not None:  # of one that nobody reads there is none
            for buffer in known.buffers():
                buffer.copy_(torch.rand(buffer.shape, generator=seeded(buffer.numel())) + 0.5)
    return model.eval()


def nested_flags(periods, steps, batch, generator, reset=None):
    """Random boundaries (steps + 1, batch, given levels) of rows that start afresh: only where the level ticks."""
    given = [i for i, period in enumerate(periods) if isinstance(period, hrnn.Given)]
    if not given:
        return None
    flags = torch.rand(steps + 1, batch, len(given), generator=generator) < 0.4
    for b in range(batch):
        ticks = [0] * len(periods)
        for t in range(steps + 1):
            if reset is not None and t < steps and bool(reset[t, b]):
                ticks = [0] * len(periods)
            ticking = True
            for i, period in enumerate(periods):
                if i in given:
                    flags[t, b, given.index(i)] &= ticking
                    starts = ticking and (ticks[i] == 0 or bool(flags[t, b, given.index(i)]))
                else:
                    starts = ticking and ticks[i] in (0, period)
                ticks[i] = 1 if starts else ticks[i] + ticking
                ticking = starts
    return flags


def assert_close(a, b, what="", tolerance=1e-10):
    """Relative to the largest entry."""
    assert a.shape == b.shape, (what, a.shape, b.shape)
    if b.numel():
        scale = max(1e-3, float(b.detach().abs().max()))
        assert float((a.detach() - b.detach()).abs().max()) <= tolerance * scale, what


def assert_same_state(a, b, leave_out=()):
    first, second = a.tensors(), b.tensors()
    assert set(first) == set(second)
    for name in set(first) - set(leave_out):
        if first[name].is_floating_point():
            assert_close(first[name], second[name], name)
        else:
            assert torch.equal(first[name], second[name]), name


def take_gradients(*modules):
    """The parameters' gradients by name, zeros where there is none; they are cleared."""
    taken = {}
    for i, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            taken[f"{i}.{name}"] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = None
    return taken


def assert_same_gradients(a, b, tolerance=1e-10):
    assert set(a) == set(b)
    scale = max([1e-3, *(float(g.abs().max()) for g in b.values() if g.numel())])
    for name, gradient in b.items():
        assert float((a[name] - gradient).abs().max()) <= tolerance * scale, name


@contextmanager
def untouched(*modules, state=None):
    """Whatever happens inside: every `.grad`, set to something recognisable first, and the state stay as they are."""
    parameters = [p for module in modules for p in module.parameters()]
    for i, parameter in enumerate(parameters):
        parameter.grad = None if i % 2 else torch.full_like(parameter, 0.25 + i)
    before = [None if p.grad is None else (p.grad, p.grad.clone()) for p in parameters]
    tensors = {} if state is None else {name: t.clone() for name, t in state.tensors().items()}
    yield
    for parameter, kept in zip(parameters, before, strict=True):
        if kept is None:
            assert parameter.grad is None
        else:
            assert parameter.grad is kept[0]
            assert torch.equal(parameter.grad, kept[1])
        parameter.grad = None
    for name, tensor in tensors.items():
        assert torch.equal(state.tensors()[name], tensor), name
