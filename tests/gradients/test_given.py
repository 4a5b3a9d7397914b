"""Boundaries from the data: those of fixed periods, told early or late."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import hrnn
from tests.gradients.cases import cases, copied
from tests.helpers import (
    METHODS,
    PROPERTY,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    periodic_flags,
    seeded,
    squares,
    steady,
    take_gradients,
)


def told_in_time(fixed, given, end):
    """Where a window ends between the last tick of a segment and the segment's last step, a fixed period counts its local
    loss at that tick; the data tell of the end only in the next window, too late. Levels above a given one are like it."""
    size = 1  # steps of a tick
    for i, period in enumerate(fixed):
        if i >= given[0] and end % (size * period) > size * period - size:
            return False
        size *= period
    return True


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_periodic_given_boundaries_are_fixed_periods(method, data):
    """Some or all levels given, the rest fixed; two windows, that end wherever both can know the same."""
    case = data.draw(cases(fixed=True, steps=32).filter(lambda case: case.model.periods))
    fixed = case.model.periods
    given = sorted(data.draw(st.sets(st.integers(0, len(fixed) - 1), min_size=1)))
    other = copied(case.model, periods=[hrnn.Given(p) if i in given else p for i, p in enumerate(fixed)])
    ends = data.draw(
        st.sets(st.sampled_from([t for t in range(1, 33) if told_in_time(fixed, given, t)]), min_size=1, max_size=2)
    )
    flags = periodic_flags(fixed, given, case.steps + 1)[:, None].expand(-1, case.batch, -1)
    states = [None, None]
    for a, b in pairwise([0, *sorted(ends)]):
        results, outputs, gradients = [], [], []
        for i, model in enumerate((case.model, other)):
            x = case.x[a:b].clone()
            x.requires_grad_(x.is_floating_point())
            options = {"boundaries": flags[a : b + 1]} if i else {}
            outputs.append(model(x, states[i], **options)[0])
            results.append(
                METHODS[method]().backward(
                    model, x, case.y[a:b], loss=squares, betas=case.betas, state=states[i], generator=seeded(), **options
                )
            )
            gradients.append(take_gradients(model) | ({} if x.grad is None else {"x": x.grad}))
            states[i] = results[i].state
        assert_close(outputs[1], outputs[0], tolerance=1e-12)
        assert_close(results[1].loss, results[0].loss, tolerance=1e-12)
        assert_close(results[1].local_losses, results[0].local_losses, tolerance=1e-12)
        assert_same_gradients(gradients[1], gradients[0])
        assert_same_state(states[1], states[0])


@pytest.mark.parametrize("method", METHODS)
def test_a_row_that_ended_in_an_earlier_chunk_has_its_boundary_from_there(method):
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(2, [3, 3], [hrnn.Given(4)]).double())
    x, y = torch.randn(4, 2, 2).double(), torch.randn(4, 2, 3).double()
    for flagged, ends in ((1, True), (2, False)):  # right behind the first row's only step, or in its padding
        flags = torch.zeros(4, 2, dtype=torch.bool)
        flags[flagged, 0] = True
        found = []
        for cut in (1, 2, 3):
            chunks = [
                hrnn.Chunk(x[a:b], y[a:b], boundaries=flags[a:b], lengths=(torch.tensor([1, 4]) - a).clamp(0, b - a))
                for a, b in ((0, cut), (cut, 4))
            ]
            result = METHODS[method]().backward(
                model, chunks, loss=squares, betas=[1.0], weight=0.2, local_weight=0.2, generator=seeded()
            )
            found.append(float(result.local_losses[0]))
            assert result.state.clock.position.tolist() == [[0 if ends else 1], [4]]
        assert found == [found[0]] * 3
        assert (found[0] > 0) == ends


def test_a_boundary_is_not_announced_but_told_where_the_next_step_may_be_a_reset():
    """The row behind the last step may be the start of a document, whose level below need not tick before."""
    torch.manual_seed(0)
    model = steady(hrnn.HRNN(2, [3, 3, 3], [6, hrnn.Given(4)]).double())
    x, y = torch.randn(8, 1, 2).double(), torch.randn(8, 1, 3).double()
    flags, reset = torch.zeros(9, 1, dtype=torch.bool), torch.zeros(8, 1, dtype=torch.bool)
    flags[4] = reset[4] = True
    common = {"loss": squares, "betas": [1.0, 1.0], "weight": 1.0, "local_weight": 1.0}
    whole = hrnn.Restricted().backward(model, x, y, boundaries=flags, reset=reset, **common)
    first = hrnn.Restricted().backward(model, x[:4], y[:4], boundaries=flags[:5], **common)
    second = hrnn.Restricted().backward(model, x[4:], y[4:], boundaries=flags[4:], reset=reset[4:], state=first.state, **common)
    assert_same_state(second.state, whole.state)
    assert_close(first.local_losses + second.local_losses, whole.local_losses)
    with pytest.raises(ValueError, match="boundaries of level 1 at step 0, row 0 is true where level 1 does not tick"):
        model(x[4:], first.state, boundaries=flags[4:])
