"""What a user of `backward` relies on, for both methods: losses, masks, metrics, callbacks, `.grad`, and failures."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from hrnn.decoders import Decoder
from tests.helpers import (
    METHODS,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    seeded,
    squares,
    take_gradients,
    untouched,
)
from tests.user_cells import MinimalGRU

PERIODS = {"fixed": [2, 2], "given": [hrnn.Given(2), 2]}
STEPS, BATCH = 9, 3


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]()


@pytest.fixture(params=[*PERIODS, "user"])
def problem(request):
    """A model of three levels, a window that starts in mid-segment, and the arguments for it."""
    torch.manual_seed(5)
    periods = PERIODS.get(request.param, [2, 2])
    cell = MinimalGRU if request.param == "user" else "lstm"
    model = hrnn.HRNN(2, [3, 4, 2], periods, cell=cell, decoder_units=3).double()
    x, y = torch.randn(STEPS + 3, BATCH, 2).double(), torch.randn(STEPS, BATCH, 3).double()
    flags = None if periods == [2, 2] else (torch.rand(STEPS + 4, BATCH) < 0.4)
    _, state = model(x[:3], boundaries=None if flags is None else flags[:3])
    options = {"x": x[3:], "y": y, "state": state.detach(), "boundaries": None if flags is None else flags[3:]}
    return model, options | {"loss": squares, "betas": [0.5, 0.2], "generator": seeded()}


def run(method, model, options, **changes):
    """The result and the gradients, which are cleared."""
    result = method.backward(model, **(options | {"generator": seeded()} | changes))
    return result, take_gradients(model)


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


def test_betas_of_zero_never_call_the_decoder(method, problem, monkeypatch):
    model, options = problem
    _, expected = run(method, model, options, betas=None)

    def forbidden(*_):
        raise AssertionError("the decoder was called")

    for name in ("forward", "loss", "differentiate", "draw"):
        monkeypatch.setattr(Decoder, name, forbidden)
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
        ).double()
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


def test_explicit_weights_scale_the_two_kinds_of_loss(method, problem):
    model, options = problem
    plain, expected = run(method, model, options)
    scaled, got = run(method, model, options, weight=2 / (STEPS * BATCH), local_weight=2 / (STEPS * BATCH))
    assert_close(scaled.loss, 2 * plain.loss, tolerance=1e-13)
    assert_close(scaled.local_losses, 2 * plain.local_losses, tolerance=1e-13)
    assert_same_gradients(got, {name: 2 * g for name, g in expected.items()}, tolerance=1e-12)


def test_on_segment_order_where_rows_are_in_phase():
    """Segments that end are differentiated from the bottom up, at the step where they end; the window's end closes all."""
    torch.manual_seed(5)
    model = hrnn.HRNN(2, [3, 4, 2], [2, 2], decoder_units=3).double()
    x, y = torch.randn(9, 2, 2).double(), torch.randn(9, 2, 3).double()
    told, early = [], []

    def listen(event):
        told.append((event.level, event.step))
        if len(told) == 1:
            early.append({p: g.clone() for p, g in event.gradients().items()})

    options = {"loss": squares, "betas": [0.5, 0.2], "weight": 1 / 18, "local_weight": 1 / 18}
    hrnn.Restricted().backward(model, x, y, on_segment=listen, generator=seeded(), **options)
    assert told == [(0, 2), (0, 4), (1, 4), (0, 6), (0, 8), (1, 8), (0, 9), (1, 9), (2, 9)]
    model.zero_grad()
    hrnn.Restricted().backward(model, x[:2], y[:2], generator=seeded(), **options)
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
        if len(calls) > 2 and where == "loss":
            raise BrokenError
        values = Fails.apply(values) if len(calls) > 2 and where == "backward of the loss" else values
        return squares(head(values), target)

    def listen(event):
        if where == "callback" and event.level == 2:
            raise BrokenError

    if where == "decoder":
        decoded, originals = [], dict(vars(Decoder))
        for name in ("loss", "differentiate"):  # by autograd, and by hand

            def failing(self, *arguments, name=name):
                decoded.append(0)
                if len(decoded) > 2:
                    raise BrokenError
                return originals[name](self, *arguments)

            monkeypatch.setattr(Decoder, name, failing)
    changes = {"loss": loss, "on_segment": listen, "weight": 0.1, "local_weight": 0.1, "x": None, "y": None, "boundaries": None}
    window = options | changes | {"x": chunks(options, failing=2 if where == "iterator" else None)}
    if where == "nothing":
        method.backward(model, **window)
        assert all(p.grad is not None for p in (*model.parameters(), *head.parameters()))
        return
    with untouched(model, head, state=options["state"]), pytest.raises(BrokenError):
        method.backward(model, **window)
    assert calls


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
        state = attached  # with a graph: it must not be followed, nor freed twice


def test_a_loss_without_gradient_is_no_error(method, problem):
    """A loss that does not depend on the output leaves the local losses' gradients."""
    model, options = problem
    result, got = run(method, model, options, loss=lambda values, target: target.sum(-1))
    assert_close(result.loss, options["y"].sum(-1).mean(), tolerance=1e-12)
    _, expected = run(method, model, options, loss=lambda values, target: values.sum(-1) * 0)
    assert_same_gradients(got, expected, tolerance=1e-13)
    assert any(float(g.abs().max()) for g in got.values())
