"""Rows that are reset, padded, split over calls or come batch first: the same outputs, states and gradients."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given, settings

import hrnn
from tests.gradients.cases import cases, copied
from tests.helpers import (
    METHODS,
    PROPERTY,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    nested_flags,
    seeded,
    squares,
    steady,
    take_gradients,
)
from tests.user_cells import MinimalGRU


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_a_reset_row_is_a_fresh_sequence(method, data):
    """Every stretch between two resets of a row, run alone in a batch of one, sums up to the whole batch."""
    case, reset = data.draw(cases(resets=True))
    model, flags = case.model, case.flags
    whole, _ = model(case.x, boundaries=flags, reset=reset)
    common = {"loss": squares, "betas": case.betas, **case.weights()}
    together = METHODS[method]().backward(model, case.x, case.y, boundaries=flags, reset=reset, generator=seeded(), **common)
    expected = take_gradients(model)
    task, local = 0, torch.zeros(len(case.betas), dtype=torch.float64)
    for row in range(case.batch):
        starts = [0, *(t for t in range(1, case.steps) if reset[t, row]), case.steps]
        for a, b in pairwise(starts):
            # A boundary where the next sequence starts completes the segment before, in the middle of a window as at its end.
            part = case.part(a, b, slice(row, row + 1))
            state = model.initial_state(1).with_rows(torch.tensor([row]))
            part |= {"state": state, "reset": torch.ones(1, dtype=torch.bool)}  # a learned start gets its gradient
            assert_close(model(**part)[0][:, 0], whole[a:b, row], tolerance=1e-12)
            alone = METHODS[method]().backward(model, y=case.y[a:b, row : row + 1], generator=seeded(), **part, **common)
            task, local = task + alone.loss, local + alone.local_losses
    assert_close(task, together.loss)
    assert_close(local, together.local_losses)
    assert_same_gradients(take_gradients(model), expected)


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_padding_changes_nothing(method, data):
    """Garbage behind a row's length, lengths of 0 included; and each row gives what it gives alone, cut at its length."""
    case = data.draw(cases())
    model, steps, batch = case.model, case.steps, case.batch
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch)))
    behind = torch.arange(steps)[:, None] >= lengths
    x, y = case.x.clone(), case.y.clone()
    if x.is_floating_point():
        x[behind] = float("nan")
    else:
        x[behind] = 2
    y[behind] = float("nan")
    flags = case.flags
    if flags is not None:  # the step right behind a row says whether its segment ends there, as the extra one does
        later = torch.arange(steps + 1)[:, None] > lengths
        flags = torch.where(later[..., None], torch.rand(flags.shape, generator=case.generator) < 0.5, flags)
    common = {"loss": squares, "betas": case.betas, **case.weights()}
    results = []
    for inputs, targets, boundaries in ((case.x, case.y, case.flags), (x, y, flags)):
        output, after = model(inputs, boundaries=boundaries, lengths=lengths)
        result = METHODS[method]().backward(
            model, inputs, targets, boundaries=boundaries, lengths=lengths, generator=seeded(), **common
        )
        results.append((output, after, result, take_gradients(model)))
    (output, after, result, gradients), (other_output, other_after, other, other_gradients) = results
    assert torch.equal(output, other_output)
    assert not output[behind].any()
    assert_same_state(after, other_after)
    assert_same_state(result.state, other.state)
    assert torch.equal(result.loss, other.loss)
    assert result.targets == int(lengths.sum())
    assert_same_gradients(other_gradients, gradients, tolerance=1e-14)
    task, local = torch.zeros((), dtype=torch.float64), torch.zeros(len(case.betas), dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        if not length:
            continue
        part = case.part(0, length, slice(row, row + 1))
        state = model.initial_state(1).with_rows(torch.tensor([row]))
        part |= {"state": state, "reset": torch.ones(1, dtype=torch.bool)}
        alone_output, alone_after = model(**part)
        assert_close(alone_output[:, 0], output[:length, row], tolerance=1e-12)
        assert_same_state(alone_after, after.select(torch.tensor([row])))
        alone = METHODS[method]().backward(model, y=case.y[:length, row : row + 1], generator=seeded(), **part, **common)
        task, local = task + alone.loss, local + alone.local_losses
    assert_close(task, result.loss)
    assert_close(local, result.local_losses)
    assert_same_gradients(take_gradients(model), gradients)


def test_padding_may_hold_anything_even_numbers_that_are_no_tokens():
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(hrnn.Tokens(3), [4, 4], [2]).double())
    x = torch.randint(3, (6, 2))
    lengths = torch.tensor([6, 3])
    padded = x.clone()
    padded[3:, 1] = -1
    expected, _ = model(x, lengths=lengths)
    output, _ = model(padded, lengths=lengths)
    assert torch.equal(output, expected)
    target = torch.zeros(6, 2)
    for method in (hrnn.Full(), hrnn.Restricted()):
        results = [
            method.backward(
                model, given, target, loss=lambda o, y: (o.sum(-1) - y) ** 2, betas=[1.0], lengths=lengths,
                generator=torch.Generator().manual_seed(0),
            )
            for given in (x, padded)
        ]  # fmt: skip
        assert torch.equal(results[0].loss, results[1].loss)
        assert torch.equal(results[0].local_losses, results[1].local_losses)
    with pytest.raises(ValueError, match="token -1 at step 3, row 1"):
        model(padded, lengths=torch.tensor([6, 4]))


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_rows_may_be_split_over_calls(method, data):
    """In the second of two windows, so that states are split too; sampled indices follow the row numbers."""
    case = data.draw(cases())
    model = case.model
    assume(case.steps > 1)
    middle = data.draw(st.integers(1, case.steps - 1))
    _, state = model(**case.part(0, middle))
    state = state.detach()
    common = {"loss": squares, "betas": case.betas, **case.weights()}
    y = case.y[middle:]
    whole = METHODS[method]().backward(model, y=y, state=state, generator=seeded(), **case.part(middle, case.steps), **common)
    expected = take_gradients(model)
    order = torch.randperm(case.batch, generator=case.generator)
    task, local = torch.zeros((), dtype=torch.float64), torch.zeros(len(case.betas), dtype=torch.float64)
    for rows in order.split(data.draw(st.integers(1, case.batch))):
        part = METHODS[method]().backward(
            model,
            y=y[:, rows],
            state=state.select(rows),
            generator=seeded(),
            **case.part(middle, case.steps, rows),
            **common,
        )
        assert_same_state(part.state, whole.state.select(rows))
        task, local = task + part.loss, local + part.local_losses
    assert_close(task, whole.loss)
    assert_close(local, whole.local_losses)
    assert_same_gradients(take_gradients(model), expected)


@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_batch_first_is_only_another_order(data):
    case, reset = data.draw(cases(resets=True))
    reset = reset if data.draw(st.booleans()) else torch.zeros_like(reset)
    flags = nested_flags(case.model.periods, case.steps, case.batch, case.generator, reset)
    turned = copied(case.model, batch_first=True)
    lengths = torch.randint(case.steps + 1, (case.batch,), generator=case.generator) if data.draw(st.booleans()) else None
    mask = torch.rand(case.steps, case.batch, generator=case.generator) < 0.7
    one = {"x": case.x, "boundaries": flags, "reset": reset}
    other = {name: None if value is None else value.transpose(0, 1).contiguous() for name, value in one.items()}
    output, state = case.model(**one, lengths=lengths)
    turned_output, turned_state = turned(**other, lengths=lengths)
    assert torch.equal(turned_output.transpose(0, 1), output)
    assert_same_state(turned_state, state)
    options = {"boundaries": None if flags is None else flags[0], "reset": reset[0]}
    assert torch.equal(turned.step(case.x[0], **options)[0], case.model.step(case.x[0], **options)[0])
    for method in METHODS.values():
        gradients = []
        for model, options, y, m in (
            (case.model, one, case.y, mask),
            (turned, other, case.y.transpose(0, 1), mask.t()),
        ):
            x = options["x"].clone().requires_grad_(options["x"].is_floating_point())
            result = method().backward(
                model, **(options | {"x": x}), y=y, mask=m, lengths=lengths, loss=squares, betas=case.betas, generator=seeded()
            )
            x_grad = {} if x.grad is None else {"x": x.grad if model is case.model else x.grad.transpose(0, 1)}
            gradients.append((take_gradients(model) | x_grad, result))
        assert_same_gradients(gradients[1][0], gradients[0][0], tolerance=1e-13)
        assert_same_state(gradients[1][1].state, gradients[0][1].state)


def test_padding_is_not_computed_on():
    """Counted: every level's cell sees as many rows as there are ticks, forward and in both gradients."""
    seen = Counter()

    class Counting(MinimalGRU):
        def step(self, inputs, state):
            seen[self.gate.in_features - self.hidden_size] += len(inputs)
            return super().step(inputs, state)

    torch.manual_seed(0)
    model = hrnn.HRNN(2, hidden_sizes=[4, 5], periods=[3], cell=Counting)
    lengths = torch.tensor([40, 33, 12, 7, 3, 1, 0])
    x, y = torch.randn(40, 7, 2), torch.zeros(40, 7)
    ticks = {2 + 5: int(lengths.sum()), 4: int(((lengths + 2) // 3).sum())}
    assert ticks[7] < 40 * 7 / 2
    model(x, lengths=lengths)
    assert seen == ticks
    for method in (hrnn.Restricted(round_steps=3), hrnn.Full()):
        seen.clear()
        method.backward(model, x, y, loss=lambda o, t: (o[..., 0] - t) ** 2, betas=[0.1], lengths=lengths)
        assert seen == ticks
