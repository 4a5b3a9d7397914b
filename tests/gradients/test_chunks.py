"""However a sequence is cut in time, into chunks, steps or rounds: the same outputs, states and gradients."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import hrnn
from tests.gradients.cases import cases, chunked, cuts
from tests.helpers import (
    METHODS,
    PROPERTY,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    nested_flags,
    seeded,
    squares,
    take_gradients,
)
from tests.oracle import Oracle


@given(case=cases(), data=st.data())
@settings(PROPERTY, max_examples=40)
def test_whole_is_chunked_is_streamed(case, data):
    model = case.model
    with torch.no_grad():
        whole, after = model(**case.part(0, case.steps))
        for extra in (True, False):
            state, outputs, parts = None, [], cuts(case, data)
            for a, b in parts:
                output, state = model(**case.part(a, b, extra=extra), state=state)
                outputs.append(output)
            assert_close(torch.cat(outputs), whole, tolerance=1e-12)
            assert_same_state(state, after, leave_out=("skipped",))
            assert not after.skipped.any()
            if model.periods and isinstance(model.periods[0], hrnn.Given):
                # Without the extra step the end of a segment comes too late for its local loss, which the state counts.
                late = torch.stack([case.flags[a, :, 0] & (not extra) for a, _ in parts[1:]]) if parts[1:] else None
                assert torch.equal(state.skipped[:, 0], after.skipped[:, 0] if late is None else late.sum(0))
        flags = None if case.flags is None else case.flags[:-1]
        whole, after = model(case.x, boundaries=flags)
        state, outputs = None, []
        for t in range(case.steps):
            output, state = model.step(case.x[t], state, boundaries=None if flags is None else flags[t])
            outputs.append(output)
    assert_close(torch.stack(outputs), whole, tolerance=1e-12)
    assert_same_state(state, after, leave_out=("skipped",))


@given(case=cases(), data=st.data())
@settings(PROPERTY, max_examples=30)
def test_autograd_goes_through_the_state(case, data):
    """Chunks of `forward` whose states keep their graph give the gradients of the whole."""
    upstream = torch.randn(case.steps, case.batch, 3, generator=case.generator, dtype=torch.float64)
    output, _ = case.model(**case.part(0, case.steps))
    (output * upstream).sum().backward()
    whole = take_gradients(case.model)
    state, total = None, 0
    for a, b in cuts(case, data):
        output, state = case.model(**case.part(a, b), state=state)
        total = total + (output * upstream[a:b]).sum()
    total.backward()
    assert_same_gradients(take_gradients(case.model), whole)


@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_rounds_and_chunks_of_any_size_give_the_same(data):
    """Also with resets and lengths; and a chunk may be a plain tuple (x, y)."""
    case, reset = data.draw(cases(resets=True))
    reset = reset if data.draw(st.booleans()) else None
    flags = case.flags if reset is not None else nested_flags(case.model.periods, case.steps, case.batch, case.generator)
    lengths = torch.randint(case.steps + 1, (case.batch,), generator=case.generator) if data.draw(st.booleans()) else None
    common = {"loss": squares, "betas": case.betas, **case.weights()}
    runs = []
    for method in (hrnn.Restricted(), hrnn.Restricted(data.draw(st.integers(1, 20))), hrnn.Full()):
        one = method.backward(
            case.model, case.x, case.y, boundaries=flags, reset=reset, lengths=lengths, generator=seeded(), **common
        )
        runs.append((one, take_gradients(case.model)))
        plain = flags is None and reset is None and lengths is None
        edges = cuts(case, data)
        chunks = [(case.x[a:b], case.y[a:b]) for a, b in edges] if plain else chunked(case, flags, reset, lengths, edges)
        many = method.backward(case.model, chunks, generator=seeded(), **common)
        gradients = take_gradients(case.model)
        assert_same_state(many.state, one.state)
        assert_close(many.loss, one.loss)
        assert_close(many.local_losses, one.local_losses)
        assert_same_gradients(gradients, runs[-1][1])
    assert_same_state(runs[1][0].state, runs[0][0].state)
    assert_close(runs[1][0].local_losses, runs[0][0].local_losses)
    assert_same_gradients(runs[1][1], runs[0][1])


class Standing(hrnn.Updates):
    """Levels that move wherever they can, by nothing; what they would have moved by is added up."""

    def __init__(self, model):
        super().__init__(model, lambda parameters: torch.optim.SGD(parameters, lr=0.0))
        self.sums = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}

    def move(self, level, gradients, scale):
        for parameter, gradient in gradients.items():
            self.sums[parameter] += gradient


@given(data=st.data())
@settings(PROPERTY, max_examples=40)
def test_levels_that_may_move_and_stand_still_get_the_gradient_of_the_window(data):
    """Whenever they may: with rows that end early, are reset, come in chunks and in rounds of any size."""
    case, reset = data.draw(cases(resets=True))
    reset = reset if data.draw(st.booleans()) else None
    flags = case.flags if reset is not None else nested_flags(case.model.periods, case.steps, case.batch, case.generator)
    lengths = torch.randint(case.steps + 1, (case.batch,), generator=case.generator)
    method = hrnn.Restricted(data.draw(st.integers(1, 8)))
    common = {"loss": squares, "betas": case.betas, **case.weights()}
    locked = method.backward(
        case.model, case.x, case.y, boundaries=flags, reset=reset, lengths=lengths, generator=seeded(), **common
    )
    expected = take_gradients(case.model)
    updates = Standing(case.model)
    parts = chunked(case, flags, reset, lengths, cuts(case, data))
    moved = method.backward(case.model, parts, updates=updates, generator=seeded(), **common)
    assert_same_state(moved.state, locked.state)
    assert_close(moved.loss, locked.loss)
    assert_close(moved.local_losses, locked.local_losses)
    named = {f"0.{name}": updates.sums[parameter] for name, parameter in case.model.named_parameters()}
    assert_same_gradients(named, expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("periods", [[2], [40], [3, 5], [1, 2]], ids=str)
def test_long_windows_equal_the_oracle(periods, apart, method):
    """More segments, and longer ones, than any buffer holds at once: blocks, drawn indices and rounds start again."""
    torch.manual_seed(3)
    steps, batch = 150, 2
    model = hrnn.HRNN(hrnn.Tokens(3), [2] * (len(periods) + 1), periods, cell="gru", decoder_units=2).double()
    x, y = torch.randint(3, (steps, batch)), torch.randn(steps, batch, 2, dtype=torch.float64)
    lengths = torch.tensor([steps, 131]) if apart else None
    valid = steps * batch if lengths is None else int(lengths.sum())
    betas = [0.5] * len(periods)
    seed = int(torch.randint(2**63 - 1, (), generator=seeded()))
    result = METHODS[method]().backward(model, x, y, loss=squares, betas=betas, lengths=lengths, generator=seeded())
    got = take_gradients(model)
    _, total, task, local = Oracle(model, batch, method == "restricted").window(
        x, y, loss=squares, betas=betas, seed=seed, weight=1 / valid, local_weight=1 / valid, mask=None, lengths=lengths
    )
    total.backward()
    assert_same_gradients(got, take_gradients(model))
    assert_close(result.loss, task)
    assert_close(result.local_losses, torch.stack([torch.as_tensor(v).detach() for v in local]))
