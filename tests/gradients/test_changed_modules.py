"""Modules and tensors that a user has changed, and surroundings that torch has: the gradient is right, or refused."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import hrnn
from tests.helpers import (
    METHODS,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    seeded,
    squares,
    steady,
    take_gradients,
)
from tests.user_cells import MinimalGRU

STEPS, BATCH = 7, 2


def problem(periods=(3,), cell="lstm", **options):
    torch.manual_seed(1)
    model = steady(hrnn.HRNN(2, [3] * (len(periods) + 1), list(periods), cell=cell, decoder_units=4, **options).double())
    return model, torch.randn(STEPS, BATCH, 2).double(), torch.randn(STEPS, BATCH, 3).double()


def run(method, model, x, y, **changes):
    options = {"loss": squares, "betas": [0.5] * len(model.periods), "generator": seeded()} | changes
    return method.backward(model, x, y, **options)


class Scaled(nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


def normed(model):
    parametrizations.weight_norm(model.decoders[0].layers[0])


def parametrised_index(model):
    parametrize.register_parametrization(model.decoders[0], "index", Double())


def subclassed(model):
    model.decoders[0].layers[1] = Scaled(4, 4).double()


def inserted(model):
    model.decoders[0].layers.append(nn.Tanh())


def pruned(model):
    prune.l1_unstructured(model.decoders[0].layers[1], "weight", 0.5)


def hooked(model):
    model.decoders[0].layers[0].register_forward_hook(lambda module, inputs, output: 2 * output)


def tied(model):
    first, second, _ = model.decoders[0].layers
    second.bias = first.bias


def truth(model, x, y, beta):
    """The gradient of the lowest level of two, whose segments autograd goes through with the summary detached."""
    h, c, total, share = None, None, 0.0, 1 / (STEPS * BATCH)
    above, state = model.cells[1], model.cells[1].initial_state(BATCH)
    summary = torch.zeros(BATCH, 3).double()
    for start in range(0, STEPS, 3):
        state = above.tick(summary.detach(), state, None, None, None)
        h, c = model.cells[0].initial_state(BATCH)
        ticks = min(3, STEPS - start)
        for t in range(ticks):
            h, c = model.cells[0].tick(x[start + t], (h, c), None, None, state[0] if t == 0 else None)
            total = total + share * squares(h[None], y[start + t][None]).sum()
        if ticks == 3:
            index = torch.arange(1, 4)[:, None].expand(-1, BATCH)
            values = model.decoders[0].loss(h, index, x[start : start + 3].flip(0), 3)
            total = total + beta * model.decoders[0].statistics.scale().factor * share * 3 * values.sum()
        summary = h
    total.backward()
    return take_gradients(model)


@pytest.mark.parametrize("change", [normed, parametrised_index, subclassed, inserted, pruned, hooked, tied])
@pytest.mark.parametrize("dense", [True, False])
def test_a_changed_decoder_is_left_to_autograd(change, dense):
    model, x, y = problem(indices="all", decoder_layers=3)
    assert model.decoders[0].plain
    change(model)
    assert not model.decoders[0].plain
    reset = None if dense else torch.zeros(STEPS, BATCH, dtype=torch.bool)
    chunk = hrnn.Chunk(x, y, reset=reset)  # a reset, all false, so that rows may part
    share = 1 / (STEPS * BATCH)
    hrnn.Restricted().backward(model, [chunk], loss=squares, betas=[0.5], weight=share, local_weight=share)
    got = take_gradients(model)
    expected = truth(model, x, y, 0.5)
    assert all(float(g.abs().max()) > 0 for name, g in expected.items() if "mask" not in name)
    assert_same_gradients(got, expected, tolerance=1e-12)


def test_updates_move_what_a_changed_decoder_was_made_of():
    model, x, y = problem()
    normed(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
    run(hrnn.Restricted(), model, x, y, updates=updates)
    assert all(float((p - before[name]).detach().abs().max()) > 0 for name, p in model.named_parameters())


def doubled_cell(model):
    for cell in model.cells:
        parametrize.register_parametrization(cell, "weight_hidden", Double())


def pruned_cell(model):
    prune.l1_unstructured(model.cells[0], "weight_hidden", 0.3)


def hooked_cell(model):
    model.cells[0].register_forward_hook(lambda module, inputs, after: (0.5 * after[0], *after[1:]))


@pytest.mark.parametrize("change", [doubled_cell, pruned_cell, hooked_cell])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("periods", [(3,), (hrnn.Given(3),)])
def test_a_changed_cell_is_run_and_differentiated_by_autograd(change, cell, periods):
    model, x, y = problem(periods, cell)
    plain = copy.deepcopy(model)
    change(model)
    flags = None if periods == (3,) else torch.arange(STEPS)[:, None].expand(-1, BATCH) % 3 == 0
    output, state = model(x, boundaries=flags)
    assert float((output - plain(x, boundaries=flags)[0]).detach().abs().max()) > 1e-3
    run(hrnn.Full(), model, x, y, boundaries=flags, betas=[0.0])
    full = take_gradients(model)
    squares(output, y).mean().backward()
    assert_same_gradients(full, take_gradients(model), tolerance=1e-12)
    result = run(hrnn.Restricted(), model, x, y, boundaries=flags)
    assert_same_state(result.state, state.detach())
    restricted = take_gradients(model)
    assert all(float(gradient.abs().max()) > 0 for gradient in restricted.values())
    if change is doubled_cell:  # the same as a plain cell with the effective weights
        with torch.no_grad():
            for mine, theirs in zip(plain.cells, model.cells, strict=True):
                mine.weight_hidden.copy_(theirs.weight_hidden)
        run(hrnn.Restricted(), plain, x, y, boundaries=flags)
        name = "0.cells.0.weight_hidden"
        expected = 2 * take_gradients(plain)[name]
        assert_close(restricted["0.cells.0.parametrizations.weight_hidden.original"], expected, tolerance=1e-12)
    updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    run(hrnn.Restricted(), model, x, y, boundaries=flags, updates=updates)
    assert all(float((p - before[name]).detach().abs().max()) > 0 for name, p in model.named_parameters())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cell", ["lstm", "own"])
def test_hooks_of_parameters_run_once_on_the_complete_gradient(method, cell):
    model, x, y = problem(cell=MinimalGRU if cell == "own" else cell)
    head = nn.Linear(3, 3).double()
    x.requires_grad_()
    leaves = {**dict(model.named_parameters()), "head": head.weight, "x": x}

    def gradients():
        run(METHODS[method](), model, x, y, loss=lambda output, target: squares(head(output), target))
        found = {name: leaf.grad for name, leaf in leaves.items()}
        for leaf in [*leaves.values(), head.bias]:
            leaf.grad = None
        return found

    plain, seen, after = gradients(), [], []
    for name, leaf in leaves.items():
        leaf.register_hook(lambda gradient, name=name: seen.append((name, gradient.clone())))
        leaf.register_hook(lambda gradient: 2 * gradient)
        leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: after.append((name, leaf.grad.clone())))
    twice = gradients()
    assert sorted(name for name, _ in seen) == sorted(name for name, _ in after) == sorted(leaves)
    for name, gradient in seen:
        assert_close(gradient, plain[name], name, tolerance=1e-13)
    for name, gradient in after:
        assert_close(gradient, 2 * plain[name], name, tolerance=1e-13)
        assert_close(twice[name], gradient, name)


def test_hooks_run_at_every_move_and_a_failing_one_leaves_no_trace():
    model, x, y = problem()
    bias, seen = model.cells[0].bias, []
    bias.register_hook(lambda gradient: seen.append(1) or torch.zeros_like(gradient))
    before = bias.detach().clone()
    updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1))
    run(hrnn.Restricted(), model, x, y, updates=updates)
    assert len(seen) == updates.moves[0] == 3
    assert torch.equal(bias, before)

    def fail(gradient):
        raise ArithmeticError("no")

    model.cells[1].bias.register_hook(fail)
    for method in METHODS.values():
        with pytest.raises(ArithmeticError, match="no"):
            run(method(), model, x, y)
        assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("periods", [(3,), (hrnn.Given(3),)])
def test_a_loss_may_keep_its_output(method, periods):
    model, x, y = problem(periods)
    flags = None if periods == (3,) else torch.arange(STEPS)[:, None].expand(-1, BATCH) % 3 == 0
    kept = []

    def loss(output, target):
        kept.append((target.flatten(0, 1), output.detach().flatten(0, 1)))
        return squares(output, target)

    run(METHODS[method](), model, x, y, loss=loss, boundaries=flags)
    targets, outputs = (torch.cat(parts) for parts in zip(*kept, strict=True))
    place = (y.flatten(0, 1)[:, None] == targets).all(-1).long().argmax(1)  # one packed step where rows part
    assert_close(outputs[place].view(STEPS, BATCH, -1), model(x, boundaries=flags)[0], tolerance=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_inference_mode_is_refused_and_no_grad_is_not(method):
    model, x, y = problem()
    with torch.no_grad():
        run(METHODS[method](), model, x, y)
    expected = take_gradients(model)
    with torch.inference_mode():
        _, state = model(x)
        with pytest.raises(RuntimeError, match=r"inference_mode.*leave that mode"):
            run(METHODS[method](), model, x, y)
    assert all(p.grad is None for p in model.parameters())
    run(METHODS[method](), model, x, y)
    assert_same_gradients(take_gradients(model), expected, tolerance=0)
    run(METHODS[method](), model, x, y, state=state)  # a state from there is only read
    again = take_gradients(model)
    run(METHODS[method](), model, x, y, state=state.clone())
    assert_same_gradients(again, take_gradients(model), tolerance=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["fixed", "given", "own"])
def test_autocast_is_for_the_loss_and_the_hierarchy_keeps_its_dtype(method, kind):
    model, x, y = problem((hrnn.Given(3),) if kind == "given" else (3,), MinimalGRU if kind == "own" else "lstm")
    model, x, y, head = model.float(), x.float(), y.float(), nn.Linear(3, 3)
    flags = torch.arange(STEPS)[:, None].expand(-1, BATCH) % 3 == 0 if kind == "given" else None
    kinds, found = set(), []

    def loss(output, target):
        logits = head(output)
        kinds.add(logits.dtype)
        return squares(logits.float(), target)

    for on in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            result = run(METHODS[method](), model, x, y, loss=loss, boundaries=flags)
            output, _ = model(x, boundaries=flags)
        found.append((take_gradients(model), result, output))
    assert kinds == {torch.float32, torch.bfloat16}
    assert torch.equal(found[0][2], found[1][2])
    assert torch.equal(found[0][1].local_losses, found[1][1].local_losses)
    assert_same_gradients(found[1][0], found[0][0], tolerance=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_may_use_what_was_computed_outside(method):
    model, x, y = problem()
    scale = nn.Parameter(torch.tensor(0.5).double())
    gradients = []
    for outside in (True, False):
        factor = scale.exp() * scale  # needs saved tensors
        run(
            METHODS[method](), model, x, y,
            loss=lambda output, target, f=factor if outside else None: squares(
                output * (scale.exp() * scale if f is None else f), target
            ),
        )  # fmt: skip
        gradients.append(take_gradients(model) | {"scale": scale.grad})
        scale.grad = None
    assert_same_gradients(gradients[0], gradients[1], tolerance=1e-13)
    if method == "restricted":  # what a moving parameter was made into is out of date after the first move
        factor = scale.exp() * scale
        updates = hrnn.Updates(model, lambda p: torch.optim.SGD(p, lr=0.1), heads=[scale])
        with pytest.raises(ValueError, match=r"computed .* before loss was called.*inside loss, or detach it"):
            run(hrnn.Restricted(), model, x, y, loss=lambda o, t: squares(o * factor, t), updates=updates)


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_that_trains_nothing_is_refused(method):
    model, x, y = problem()
    for dtype in (torch.int64, torch.bool):
        with pytest.raises(TypeError, match=rf"loss returned values of {dtype}.*floating-point"):
            run(METHODS[method](), model, x, y, loss=lambda o, t, dtype=dtype: squares(o, t).to(dtype))
    with pytest.raises(ValueError, match=r"loss returned numbers that depend neither.*detach\(\)"):
        run(METHODS[method](), model, x, y, loss=lambda o, t: squares(o.detach(), t), betas=[0.0])
    assert all(p.grad is None for p in model.parameters())
    zeros = run(METHODS[method](), model, x, y, loss=lambda o, t: o.new_zeros(o.shape[:2]), betas=[0.0])
    assert float(zeros.loss) == 0
    run(METHODS[method](), model, x, y, loss=lambda o, t: squares(o.detach(), t))  # only the local loss is trained
    assert float(take_gradients(model)["0.decoders.0.index"].abs().max()) > 0


def test_a_decoder_made_empty_can_be_drawn_anew():
    _, x, y = problem()
    empty = hrnn.HRNN(2, [3, 3], [3], decoder_units=4).to("meta").to_empty(device="cpu")
    with torch.no_grad():
        for parameter in empty.parameters():
            parameter.fill_(float("nan"))
    for module in (*empty.cells, *empty.decoders):
        module.reset_parameters()
    bound = (3 + 3) ** -0.5
    for parameter in empty.decoders[0].parameters():
        assert 0 < float(parameter.detach().abs().max()) <= max(bound, 4**-0.5)
    result = run(hrnn.Restricted(), empty, x.float(), y.float())
    assert bool(result.loss.isfinite())
    assert bool(result.local_losses.isfinite().all())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["fixed", "given", "own"])
def test_half_precision_adds_up_in_float32(method, kind):
    """Hundreds of segments: in bfloat16, equal terms change a sum of 256 of them no more."""
    torch.manual_seed(0)
    steps, period = 400, {"fixed": 1, "given": hrnn.Given(8), "own": 20}[kind]  # what is added up: segments, or ticks
    cell = MinimalGRU if kind == "own" else "lstm"
    model = steady(hrnn.HRNN(hrnn.Tokens(3), [4, 4], [period], cell=cell, decoder_units=4).bfloat16())
    head = nn.Linear(4, 4).bfloat16()
    x, y = torch.randint(3, (steps, 1)), torch.randn(steps, 1, 4) + 1
    flags = torch.arange(steps)[:, None] % 8 == 0 if kind == "given" else None
    found = []
    for exact in (False, True):
        levels, top = (copy.deepcopy(m).double() if exact else m for m in (model, head))

        def loss(output, target, top=top):
            return squares(top(output), target.to(output.dtype)), {"mean": target[..., 0].to(output.dtype)}

        result = run(METHODS[method](), levels, x, y, loss=loss, boundaries=flags)
        found.append((result, take_gradients(levels, top)))
    (half, gradients), (exact, expected) = found
    assert half.loss.dtype == half.local_losses.dtype == half.metrics["mean"].dtype == torch.float32
    assert float(half.loss) == pytest.approx(float(exact.loss), rel=5e-3)
    assert float(half.local_losses) == pytest.approx(float(exact.local_losses), rel=5e-3)
    assert float(half.metrics["mean"]) == pytest.approx(float(exact.metrics["mean"]), rel=5e-3)
    largest = max(float(gradient.norm()) for gradient in expected.values())
    for name, gradient in expected.items():
        assert gradients[name].dtype == torch.bfloat16
        off = float((gradients[name].double() - gradient).norm())
        assert off <= 0.1 * float(gradient.norm()) + 0.003 * largest, name  # some nearly cancel out
