"""Steps against windows: `step` has ways of its own, and they lead to the same place."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

import hrnn
from hrnn import native, streaming
from hrnn.streaming import in_c
from tests.helpers import CELLS, assert_close, assert_same_state
from tests.test_state import leaves_of

SIZES = [5, 7, 3, 4]
PERIODS = [3, 2, 2]


class Short(list):
    """Of every step, whether it went the short way."""

    def watch(self, monkeypatch, way=streaming.step):
        def watched(*arguments):
            done = way(*arguments)
            self.append(done is not None)
            return done

        monkeypatch.setattr(streaming, "step", watched)


@pytest.fixture(params=["native", "torch"], autouse=True)
def engine(request, monkeypatch):
    """Every test on both paths."""
    if request.param == "torch":
        monkeypatch.setattr(in_c, "function", lambda dtype: None)
    elif in_c.function(torch.float32) is None:
        pytest.skip(f"no native step: {native.reason()}")


@pytest.fixture
def short(monkeypatch):
    taken = Short()
    taken.watch(monkeypatch)
    return taken


def make(cell="lstm", levels=2, tokens=False, dtype=torch.float64, **options):
    torch.manual_seed(11)
    inputs = hrnn.Tokens(6) if tokens else 3
    return hrnn.HRNN(inputs, SIZES[:levels], PERIODS[: levels - 1], cell=cell, **options).to(dtype)


def draw(model, steps, batch):
    torch.manual_seed(12)
    return torch.randint(6, (steps, batch)) if model.tokens else torch.randn(steps, batch, 3, dtype=model.dtype)


def stepped(model, x, state):
    """Outputs (steps, batch, hidden), and the state before each step and after the last."""
    outputs, states = [], [state]
    for inputs in x:
        output, state = model.step(inputs, state)
        outputs.append(output)
        states.append(state)
    return torch.stack(outputs), states


# Each of them with each of the others
@pytest.mark.parametrize(
    ("dtype", "batch", "tokens"),
    [(torch.float32, 1, False), (torch.float32, 3, True), (torch.float64, 1, True), (torch.float64, 3, False)],
    ids=["32-1-vectors", "32-3-tokens", "64-1-tokens", "64-3-vectors"],
)
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", "mixed"])
def test_steps_are_windows(short, cell, levels, tokens, batch, dtype):
    """Outputs and every state on the way, clock and history included; and states that were kept are what they were."""
    cells, output = (["gru", "lstm", "rnn", "lstm"][:levels], "all") if cell == "mixed" else (cell, "lowest")
    model = make(cells, levels, tokens, dtype, output=output)
    x = draw(model, 25, batch)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-4
    with torch.no_grad():
        outputs, states = stepped(model, x, model.initial_state(batch))
        copies = [state.clone() for state in states]
        assert_close(outputs, model(x)[0], tolerance=tolerance)
        for k in (1, 2, 3, 4, 6, 7, 12, 13, 24, 25):
            expected, got = model(x[:k])[1], states[k]
            assert torch.equal(got.clock.ticked, expected.clock.ticked)
            for name, tensor in expected.tensors().items():
                assert got.tensors()[name].dtype == tensor.dtype
                if tensor.is_floating_point():
                    assert_close(got.tensors()[name], tensor, name, tolerance)
                else:
                    assert torch.equal(got.tensors()[name], tensor), (k, name)
            got.check_parts()
            got.check()
        stepped(model, x, states[5])
        outputs.zero_()
        for state, copied in zip(states, copies, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(leaves_of(state), leaves_of(copied), strict=True))
    assert len(short) == 25 * 2
    assert all(short)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_sizes_around_those_of_vectors(short, cell, dtype):
    """One more and one less than what a processor takes at once, and rows that C leaves to torch."""
    for sizes in ([1, 15, 16], [17, 31, 8], [33, 64, 7], [9, 4, 70]):
        torch.manual_seed(sum(sizes))
        model = hrnn.HRNN(sizes[0] + 3, sizes, [1, 4], cell=cell).to(dtype)
        for batch in (1, 2, 8, 9):
            x = 2 * torch.randn(13, batch, sizes[0] + 3, dtype=dtype)
            with torch.no_grad():
                outputs, states = stepped(model, x, model.initial_state(batch))
                expected, after = model(x)
            assert_close(outputs, expected, tolerance=1e-12 if dtype == torch.float64 else 1e-4)
            for name, tensor in after.tensors().items():
                assert_close(states[-1].tensors()[name], tensor, name, 1e-12 if dtype == torch.float64 else 1e-4)
    assert all(short)


def test_numbers_that_are_none_and_very_large_ones(short):
    """Not a number stays none, and what is too large for an exponential is as in torch."""
    for cell in ("lstm", "gru", "rnn"):
        model = make(cell)
        x = draw(model, 3, 4)
        x[0, 0, 0], x[0, 1, 0], x[0, 2, 0], x[0, 3, 0] = float("nan"), 1e300, -1e300, float("inf")
        with torch.no_grad():
            outputs, _ = stepped(model, x, model.initial_state(4))
            expected = model(x)[0]
        assert torch.equal(outputs.isnan(), expected.isnan())
        assert_close(outputs.nan_to_num(), expected.nan_to_num())
    assert all(short)


@pytest.mark.parametrize("options", [{"decoders": False}, {"batch_first": True}, {"check_finite": True}], ids=str)
def test_options_do_not_matter(short, options):
    model = make(levels=3, **options)
    x = draw(model, 9, 2)
    with torch.no_grad():
        outputs, states = stepped(model, x, model.initial_state(2))
        expected, after = model(x.transpose(0, 1) if model.batch_first else x)
    assert_close(outputs, expected.transpose(0, 1) if model.batch_first else expected)
    assert_same_state(states[-1], after)
    assert all(short)


def test_what_is_not_contiguous_or_of_another_whole_number(short):
    for tokens in (False, True):
        model = make(levels=3, tokens=tokens)
        x = draw(model, 8, 4)
        with torch.no_grad():
            _, state = model(x[:4])
            rows = torch.tensor([2, 0])
            state = state.select(rows)
            turned = {name: t.mT.contiguous().mT if t.dim() > 1 else t for name, t in state.tensors().items()}
            inputs = x[4:, rows].to(torch.uint8) if tokens else x[4:, rows].mT.contiguous().mT
            outputs, states = stepped(model, inputs, hrnn.State.from_tensors(turned))
            expected, after = model(x[4:, rows], state)
        assert_close(outputs, expected)
        assert_same_state(states[-1], after)
    assert all(short)


def test_the_model_may_change_between_steps(short):
    """Its weights, in place or by another tensor; its dtype; its periods; one of its cells."""
    model = make()
    x = draw(model, 6, 2)

    def agrees():
        state = model.initial_state(2)
        inputs = x.to(model.dtype)
        with torch.no_grad():
            outputs, states = stepped(model, inputs, state)
            expected, after = model(inputs, state)
        assert_close(outputs, expected, tolerance=1e-5)
        assert all(torch.equal(states[-1].tensors()[n], t) for n, t in after.tensors().items() if not t.is_floating_point())

    agrees()
    with torch.no_grad():
        model.cell(0).weight_hidden.mul_(2)
    agrees()
    model.load_state_dict(make("lstm").state_dict())
    agrees()
    model.cell(1).bias.data = torch.randn(28).double()
    agrees()
    model.float()
    agrees()
    model.double()
    agrees()
    model.cell(0).weight_input = nn.Parameter(torch.randn(20, 3).double())
    agrees()
    model.cells[1] = make().cells[1]
    agrees()
    model.periods[0] = 4
    model.decoders = None
    agrees()
    assert all(short)


def test_copies_of_a_model_step_by_themselves(short):
    model = make()
    x = draw(model, 4, 1)
    with torch.no_grad():
        stepped(model, x, model.initial_state(1))
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            other.cell(0).bias.zero_()
            outputs, _ = stepped(other, x, other.initial_state(1))
            assert_close(outputs, other(x)[0])
    assert all(short)


def test_no_graph_and_no_inference_tensor_comes_along(short):
    model = make(levels=3)
    x = draw(model, 8, 1)
    _, state = model(x[:4])
    with torch.no_grad():
        _, after = model.step(x[4], state)
    assert not any(t.requires_grad for t in leaves_of(after))
    with torch.inference_mode():
        _, state = model(x[:4])
    with torch.no_grad():
        _, after = model.step(x[4], state)
    assert not any(part.is_inference() for cell in after.cells for part in cell)
    assert all(short)


class Doubled(hrnn.HRNN):
    def forward(self, *arguments, **options):
        output, state = super().forward(*arguments, **options)
        return 2 * output, state


def hooked(model):
    model.register_forward_hook(lambda module, arguments, result: (2 * result[0], result[1]))
    return model


def with_a_changed_cell(model):
    model.cell(0).register_forward_pre_hook(lambda module, arguments: None)
    return model


LONG = {
    "given": lambda: hrnn.HRNN(3, [5, 7], [hrnn.Given(3)]).double(),
    "subclass": lambda: Doubled(3, [5, 7], [3]).double(),
    "hook": lambda: hooked(make()),
    "cell": lambda: with_a_changed_cell(make()),
    "half": lambda: make(dtype=torch.bfloat16),
} | {name: lambda cell=cell: make(cell) for name, cell in CELLS.items() if not isinstance(cell, str)}


@pytest.mark.parametrize("kind", LONG)
def test_other_models_go_the_long_way(short, kind):
    model = LONG[kind]()
    x = draw(model, 7, 2)
    flags = {"boundaries": torch.rand(7, 2) < 0.5} if kind == "given" else {}
    with torch.no_grad():
        state, outputs = model.initial_state(2), []
        for t in range(7):
            output, state = model.step(x[t], state, **{name: value[t] for name, value in flags.items()})
            outputs.append(output)
        expected, _ = model(x, model.initial_state(2), **flags)
    assert_close(torch.stack(outputs), expected, tolerance=3e-2 if kind == "half" else 1e-10)
    assert not any(short)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch itself, for forward differentiation
def test_other_circumstances_go_the_long_way(short):
    """Autograd, autocast, rows out of phase, resets, vmap, forward differentiation."""
    model = make(levels=3)
    x = draw(model, 20, 2)
    outputs, states = stepped(model, x, model.initial_state(2))
    assert_close(outputs, model(x)[0])
    outputs.sum().backward()
    assert all(cell.weight_hidden.grad.abs().sum() > 0 for cell in model.cells)
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_close(model.step(x[0], model.initial_state(2))[0], model(x[:1])[0][0])
        apart = model.step(x[0], states[4], reset=torch.tensor([True, False]))[1]
        output, after = model.step(x[1], apart)
        expected, end = model(x[1:2], apart)
        assert_close(output, expected[0])
        assert_same_state(after, end)
        model = make(decoders=False)
        state = model.initial_state(2)
        many = torch.func.vmap(lambda inputs: model.step(inputs, state)[0])(x)
        assert_close(many[2], model.step(x[2], state)[0])
        assert short.pop()
        _, slope = torch.func.jvp(lambda inputs: model.step(inputs, state)[0], (x[0],), (x[1],))
        assert_close((model.step(x[0] + 1e-6 * x[1], state)[0] - model.step(x[0], state)[0]) / 1e-6, slope, tolerance=1e-4)
        assert [short.pop(), short.pop()] == [True, True]
    assert not any(short)


def test_what_a_model_never_was_is_left_alone():
    """Sizes that do not fit the weights, set by hand: C would read what is not there."""
    for change in (
        lambda model: model.periods.__setitem__(0, 0),
        lambda model: model.hidden_sizes.__setitem__(0, 500),
        lambda model: setattr(model, "input_size", 500),
        lambda model: setattr(model.cell(0), "weight_hidden", nn.Parameter(torch.zeros(20, 4).double())),
        lambda model: setattr(model.cell(0).weight_hidden, "data", torch.zeros(20, 4).double()),
        lambda model: setattr(model.cell(1).bias, "data", torch.zeros(4, 7).double().mT),
    ):
        model = make()
        x = draw(model, 1, 2)[0]
        with torch.no_grad():
            state = model.initial_state(2)
            assert streaming.step(model, x, state) is not None
            change(model)
            assert streaming.step(model, x, state) is None


def wrong_calls():
    """Calls of `step` that must fail, each with a model of vectors or of tokens."""
    sparse = torch.zeros(2, 3, dtype=torch.float64).to_sparse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a prototype, says torch
        nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], dtype=torch.float64)
    for x in (None, 3, [1.0], torch.zeros(()), torch.zeros(2, 3), torch.zeros(2, 4).double(), torch.zeros(0, 3).double(),
              torch.zeros(2).double(), torch.zeros(2, 3, device="meta").double(), sparse, nested, torch.zeros(3, 3).double(),
              torch.full((2, 3), float("nan")).double()):  # fmt: skip
        yield False, x, lambda state: state
    for x in (torch.tensor([1, 6]), torch.tensor([-1, 0]), torch.tensor([0.5, 1]), torch.tensor([[1, 2]]), torch.tensor(1)):
        yield True, x, lambda state: state
    good = torch.ones(2, 3).double()

    def changed(change):
        def after(state):
            change(state)
            return state

        return after

    def put(name, value):
        return changed(lambda state: object.__setattr__(state.clock if hasattr(state.clock, name) else state, name, value))

    for change in (
        lambda state: 3,
        lambda state: state.to(dtype=torch.float32),
        lambda state: state.select(torch.tensor([0])),
        lambda state: make("gru").initial_state(2),
        lambda state: make(decoders=False).initial_state(2),
        lambda state: make(levels=3).initial_state(2),
        changed(lambda state: state.clock.position.fill_(4)),
        changed(lambda state: state.clock.position.fill_(-1)),
        changed(lambda state: state.clock.span.fill_(-1)),
        changed(lambda state: state.clock.ordinal.fill_(2**63 - 1)),
        changed(lambda state: state.clock.skipped.fill_(-5)),
        changed(lambda state: state.row.fill_(-5)),
        changed(lambda state: state.cells[0][0].resize_(2, 4)),
        changed(lambda state: state.history[0].resize_(2, 2, 3)),
        changed(lambda state: state.cells[1][1].set_(torch.zeros(2, 8).double())),
        put("position", None),
        put("span", torch.zeros(2, 1)),
        put("row", torch.zeros(3, dtype=torch.int64)),
        put("cells", []),
        put("cells", ()),
        put("history", ()),
        put("clock", None),
    ):
        yield False, good, change
    yield True, torch.tensor([1, 2]), changed(lambda state: state.history[0].fill_(6))


@pytest.mark.parametrize("number", range(len([*wrong_calls()])))
def test_what_is_wrong_is_said_as_ever(monkeypatch, number):
    """The same sentence, whichever way a step would go."""
    said = []
    for way in (streaming.step, lambda *arguments: None):
        monkeypatch.setattr(streaming, "step", way)
        tokens, x, change = [*wrong_calls()][number]
        model = make(tokens=tokens, check_finite=True)
        with torch.no_grad():
            _, state = model(draw(model, 1, 2))
            model.step(draw(model, 1, 2)[0], state)
            with pytest.raises((ValueError, TypeError)) as caught:
                model.step(x, change(state.clone()))
        said.append((caught.type, str(caught.value)))
    assert said[0] == said[1]


EDGES = {
    "nothing goes up": {"reads": "inputs", "context": "state", "burn_in": 2, "output": "all"},
    "both": {"reads": "both", "reader": "maximum"},
    "mixed": {"reads": ["inputs", "summary"], "context": ["state", "input"]},
}


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("edges", EDGES)
def test_other_edges_go_the_long_way_whatever_came_before(edges, tokens, short):
    """Other rows, another dtype, another mode from one step to the next."""
    model = make(levels=3, tokens=tokens, **EDGES[edges])
    x = draw(model, 16, 3)
    with torch.no_grad():
        expected, state = model(x)[0], model.initial_state(3)
        for t in range(7):
            output, state = model.step(x[t], state)
            assert_close(output, expected[t])
        one = state.select(torch.tensor([1]))
        for t in range(7, 11):
            output, one = model.step(x[t, 1:2], one)
            assert_close(output, expected[t, 1:2])
            output, state = model.step(x[t], state)
            assert_close(output, expected[t])
        rows, state = torch.tensor([1, 0, 1, 2]), hrnn.State.together([one, state])
        model.float()
        output, state = model.step(x[11, rows] if tokens else x[11, rows].float(), state.to(dtype=torch.float32))
        assert_close(output.double(), expected[11, rows], tolerance=1e-5)
        model.double()
        output, state = model.step(x[12, rows], state.to(dtype=torch.float64))
        assert_close(output, expected[12, rows], tolerance=1e-5)
    assert not any(short)


@pytest.mark.parametrize("edges", EDGES)
def test_inference_mode_leaves_nothing_that_training_trips_over(edges):
    model = make(levels=3, **EDGES[edges])
    x = draw(model, 16, 3)
    expected = model(x)[0]
    with torch.inference_mode():  # windows of the same kind share a plan
        assert_close(model(x)[0], expected.detach())
        _, state = model(x[:5])
        for t in range(5, 9):
            output, state = model.step(x[t], state)
            assert_close(output, expected[t].detach())
    begun, own = x[9:].clone().requires_grad_(), x.clone().requires_grad_()
    model(begun, state)[0].sum().backward()
    model.zero_grad()
    model(own)[0].sum().backward()
    assert begun.grad.abs().sum() > 0
    assert own.grad.abs().sum() > 0
