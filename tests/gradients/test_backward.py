"""What a user of `backward` relies on, for both methods: losses, masks, metrics, `.grad`."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from tests.gradients.problems import BATCH, STEPS, run
from tests.helpers import (
    assert_close,
    assert_same_gradients,
    assert_same_state,
    seeded,
    squares,
    take_gradients,
)
from tests.user_cells import MinimalGRU


def test_gradients_are_added_to_grad(method, problem):
    model, options = problem
    _, once = run(method, model, options)
    for _ in range(2):
        method.backward(model, **(options | {"generator": seeded()}))
    assert_same_gradients(take_gradients(model), {name: 2 * g for name, g in once.items()}, tolerance=1e-14)
    x = options["x"].clone().requires_grad_()
    run(method, model, options, x=x)
    single = x.grad.clone()
    run(method, model, options, x=x)
    assert_close(x.grad, 2 * single, tolerance=1e-14)
    assert float(single.abs().min()) > 0


class TwoBiases(MinimalGRU):
    """Two parameters for which autograd hands out one and the same gradient tensor."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.one, self.other = (nn.Parameter(torch.zeros(hidden_size)) for _ in range(2))

    def step(self, inputs, state):
        (h,) = super().step(inputs, state)
        return (h + (self.one + self.other),)


def test_gradients_share_no_memory(method):
    """In a window of one tick nothing has been added up yet."""
    model = hrnn.HRNN(2, [3], [], cell=TwoBiases)
    x, y = torch.randn(1, 2, 2), torch.randn(1, 2, 3)
    _, once = run(method, model, {"x": x, "y": y, "loss": squares})
    for _ in range(2):
        method.backward(model, x, y, loss=squares)
    assert_same_gradients(take_gradients(model), {name: 2 * g for name, g in once.items()}, tolerance=1e-6)


def test_result_is_detached(method, problem):
    model, options = problem
    result, _ = run(method, model, options)
    tensors = [result.loss, result.local_losses, *result.state.tensors().values()]
    tensors += [part for cell in result.state.cells for part in cell]
    assert not any(t.requires_grad for t in tensors)
    assert result.targets == STEPS * BATCH


def test_the_loss_sees_targets_only_and_each_once(method, problem):
    """Targets are nan where there is none; whatever the mask's shape, positions are shown with their own output."""
    model, options = problem
    names = ("x", "state", "boundaries")
    output, _ = model(**{name: options[name] for name in names})
    some = torch.rand(STEPS, BATCH, generator=seeded()) < 0.4
    steps = (torch.arange(STEPS) % 4 == 1)[:, None].expand(-1, BATCH)
    last = torch.zeros(STEPS, BATCH, dtype=torch.bool)
    last[-1, 1] = True
    for mask in (some, steps, last, torch.zeros_like(last), torch.ones_like(last)):
        y = options["y"].masked_fill(~mask[..., None], float("nan"))
        seen = []

        def loss(values, target, seen=seen):
            assert values.dim() == 3
            assert values.shape[:2] == target.shape[:2]
            seen.append(torch.cat([values.detach(), target], -1).flatten(0, 1))
            return squares(values, target)

        result, gradients = run(method, model, options, y=y, mask=mask, loss=loss)
        expected = torch.cat([output.detach(), y], -1)[mask]
        assert result.targets == len(expected) == int(mask.sum())
        assert bool(seen) == bool(mask.any()), "not called where there is no target"
        if seen:
            shown = torch.cat(seen)
            assert_close(shown[shown[:, 0].argsort()], expected[expected[:, 0].argsort()], tolerance=1e-12)
            assert_close(result.loss, squares(output, options["y"])[mask].mean(), tolerance=1e-12)
        else:
            assert float(result.loss) == 0
        assert all(bool(g.isfinite().all()) for g in gradients.values())


def test_a_mask_weighs_like_the_mean_over_its_targets(method, problem):
    """The masked gradient is that of the unmasked losses with zero weights, rescaled."""
    model, options = problem
    mask = torch.rand(STEPS, BATCH, generator=seeded()) < 0.4
    _, got = run(method, model, options, mask=mask)
    weights = mask / mask.double().mean()
    y = torch.cat([options["y"], weights[..., None]], -1)
    _, expected = run(method, model, options, y=y, loss=lambda o, t: squares(o, t[..., :-1]) * t[..., -1])
    assert_same_gradients(got, expected, tolerance=1e-12)


def test_metrics_are_summed_over_targets(method, problem):
    model, options = problem
    names = ("x", "state", "boundaries")
    output, _ = model(**{name: options[name] for name in names})
    mask = torch.rand(STEPS, BATCH, generator=seeded()) < 0.4

    def loss(values, target):
        return squares(values, target), {"above": values[..., 0] > target[..., 0], "calls": 1, "sum": values.sum(-1)}

    result, with_metrics = run(method, model, options, mask=mask, loss=loss)
    assert set(result.metrics) == {"above", "calls", "sum"}
    assert int(result.metrics["above"]) == int((output[..., 0] > options["y"][..., 0])[mask].sum())
    assert 1 <= int(result.metrics["calls"]) <= STEPS
    assert_close(result.metrics["sum"], output[mask].sum(), tolerance=1e-12)
    assert not any(value.requires_grad for value in result.metrics.values())
    _, without = run(method, model, options, mask=mask)
    assert_same_gradients(with_metrics, without, tolerance=0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32])
def test_targets_of_any_dtype_and_shape(method, problem, dtype):
    model, options = problem
    y = (torch.rand(STEPS, BATCH, 3, 2, generator=seeded()) < 0.5).to(dtype)
    seen = set()

    def loss(values, target):
        seen.add(target.dtype)
        return F.binary_cross_entropy_with_logits(values, target[..., 1].double(), reduction="none").sum(-1)

    output, _ = model(**{name: options[name] for name in ("x", "state", "boundaries")})
    result, _ = run(method, model, options, y=y, loss=loss)
    expected = F.binary_cross_entropy_with_logits(output, y[..., 1].double(), reduction="none").sum(-1).mean()
    assert seen == {dtype}
    assert_close(result.loss, expected, tolerance=1e-12)


@pytest.mark.parametrize("frozen", ["one weight", "level 0", "model", "decoders"])
def test_frozen_parameters_get_no_gradient_and_change_no_other(method, problem, frozen):
    model, options = problem
    head = nn.Linear(3, 3).double()

    def loss(values, target):
        return squares(head(values), target)

    def gradients():
        method.backward(model, **(options | {"generator": seeded(), "loss": loss}))
        return {p: p.grad for p in (*model.parameters(), *head.parameters())}

    free = gradients()
    assert all(g is not None and float(g.abs().max()) > 0 for g in free.values())
    for parameter in free:
        parameter.grad = None
    first = list(model.cells[0].parameters())
    parts = {"one weight": first[1:2], "level 0": first, "model": model.parameters(), "decoders": model.decoders.parameters()}
    chosen = set(parts[frozen])
    for parameter in chosen:
        parameter.requires_grad_(False)
    for parameter, gradient in gradients().items():
        if parameter in chosen:
            assert gradient is None
        else:
            assert_close(gradient, free[parameter], tolerance=1e-12)


def test_a_weight_shared_by_head_and_model_gets_both_gradients(method, problem):
    model, options = problem
    (shared, *_) = [p for p in model.cells[0].parameters() if p.dim() == 2]
    own = nn.Parameter(shared.detach().clone())

    def loss_with(weight):
        return lambda values, target: squares(values, target) + (values @ weight[:3, :3]).square().sum(-1)

    method.backward(model, **(options | {"generator": seeded(), "loss": loss_with(own)}))
    expected = take_gradients(model)
    name = next(f"0.{name}" for name, p in model.named_parameters() if p is shared)
    assert float(own.grad.abs().max()) > 0
    expected[name] = expected[name] + own.grad
    _, got = run(method, model, options, loss=loss_with(shared))
    assert_same_gradients(got, expected, tolerance=1e-12)


def test_weights_and_state_of_the_model_are_not_changed(method, problem):
    model, options = problem
    before = copy.deepcopy(model.state_dict())
    state = {name: t.clone() for name, t in options["state"].tensors().items()}
    run(method, model, options)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert all(torch.equal(state[name], t) for name, t in options["state"].tensors().items())


def test_several_windows_carry_states_and_no_gradients(method, problem):
    """The second window's gradient is that of a window whose state is a constant."""
    model, options = problem
    middle, flags = 4, options["boundaries"]
    state = options["state"]
    for part, own in (
        (slice(0, middle), None if flags is None else flags[: middle + 1]),
        (slice(middle, STEPS), None if flags is None else flags[middle:]),
    ):
        window = {"x": options["x"][part], "y": options["y"][part], "boundaries": own, "betas": None}
        if isinstance(method, hrnn.Full):
            output, _ = model(window["x"], state.detach(), boundaries=own)
            squares(output, window["y"]).mean().backward()
            expected = take_gradients(model)
            _, got = run(method, model, options, state=state, **window)
            assert_same_gradients(got, expected, tolerance=1e-12)
        attached = model(window["x"], state, boundaries=own)[1]
        result, _ = run(method, model, options, state=state, **window)
        assert_same_state(result.state, attached.detach())
        state = attached.detach()


def test_a_loss_without_gradient_is_no_error(method, problem):
    """A loss that does not depend on the output leaves the local losses' gradients."""
    model, options = problem
    result, got = run(method, model, options, loss=lambda values, target: target.sum(-1))
    assert_close(result.loss, options["y"].sum(-1).mean(), tolerance=1e-12)
    _, expected = run(method, model, options, loss=lambda values, target: values.sum(-1) * 0)
    assert_same_gradients(got, expected, tolerance=1e-13)
    assert any(float(g.abs().max()) for g in got.values())


@pytest.mark.parametrize("kept", ["output", "logits", "detached"])
def test_a_gradient_into_the_output_of_an_earlier_call_is_refused_and_not_lost(method, problem, kept):
    """The loss is called once for a chunk, or more often. `Full` has the graph of the chunk before, the others have not."""
    model, options = problem
    window = {name: options.pop(name) for name in ("x", "y", "boundaries")}
    head, last = nn.Linear(3, 3).double(), []

    def loss(output, target):
        logits = head(output)
        before = last.pop() if last else torch.zeros_like(logits[-1:])
        last.append({"output": output, "logits": logits, "detached": output.detach()}[kept][-1:])
        return squares(logits, target) + before.sum() * logits.sum() / 10

    def chunks(*edges):
        for a, b in itertools.pairwise(edges):
            yield hrnn.Chunk(*(None if value is None else value[a:b] for value in (window["x"], window["y"])),
                             boundaries=None if window["boundaries"] is None else window["boundaries"][a:b])  # fmt: skip

    options |= {"loss": loss, "x": chunks(0, 4, STEPS), "weight": 0.1, "local_weight": 0.1}
    method = hrnn.Restricted(round_steps=2) if isinstance(method, hrnn.Restricted) else method
    if kept == "detached" or isinstance(method, hrnn.Full):
        _, got = run(method, model, options)
        assert any(float(g.abs().max()) for g in got.values())
        return
    with pytest.raises(ValueError, match=r"loss uses the output of an earlier call with its graph.* keep output.detach\(\)"):
        run(method, model, options)
    assert all(p.grad is None for p in model.parameters())


def test_without_any_loss_there_is_no_gradient_not_even_zeros(method, problem):
    """An optimizer that remembers earlier gradients, or decays weights, leaves alone what has none."""
    model, options = problem
    mask = torch.zeros(STEPS, BATCH, dtype=torch.bool)
    method.backward(model, **(options | {"mask": mask, "betas": [0.0, 0.0]}))
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []
