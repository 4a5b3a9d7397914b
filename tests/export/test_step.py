"""The step without branches is the model's step, whatever place of its segment each row is at; so is a window of steps."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import hrnn
from hrnn.export import Step, Window
from hrnn.export.checking import largest_difference
from tests.conformance.cases import build, draw
from tests.export.cases import CELLS, KINDS, MIXED, OWN, PERIODS, made
from tests.export.drift import drift
from tests.helpers import nested_flags, seeded
from tests.user_cells import MinimalGRU

EXAMPLE = torch.zeros(1)


@pytest.mark.parametrize(("levels", "kind"), KINDS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_step_is_that_of_the_model_with_rows_in_different_phases(cell, levels, kind):
    model, head = made(cell, levels, kind, tokens=levels == 3)
    step = Step(model, head)
    assert largest_difference(step, step, model, EXAMPLE, steps=25) < 1e-12
    assert drift(step, step, model, steps=60) < 1e-12


@pytest.mark.parametrize("seed", range(16))
def test_whatever_levels_read(seed):
    """Steps, streams and windows of a random model, with rows in different phases."""
    built = build(replace(draw(seed, names=CELLS, edges=True), batch_first=False))
    model, head = built.model, built.head
    step = Step(model, head)
    assert largest_difference(step, step, model, EXAMPLE, steps=20, seed=seed) < 1e-12
    assert drift(step, step, model, steps=25, seed=seed) < 1e-12
    flags = nested_flags(model.periods, 13, 2, seeded(seed))
    given = [] if flags is None else [flags if flags.shape[2] > 1 else flags[..., 0]]
    x = torch.randint(3, (14, 2)) if model.tokens else torch.randn(14, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        expected, state = model(x, boundaries=given[0] if given else None)
        output, flat = Window(step, 14)(x, *given)
    assert torch.allclose(output, head(expected), atol=1e-12)
    assert torch.allclose(flat, step.flat(state), atol=1e-12)


def test_the_comparison_finds_a_wrong_phase():
    model, head = made("lstm", 2, "fixed")
    step, other = Step(model, head), Step(hrnn.HRNN(3, [5, 7], [4]).double(), head)
    other.load_state_dict(step.state_dict())
    assert largest_difference(other, step, model, EXAMPLE, steps=20) > 1e-3
    assert drift(other, step, model, steps=20) > 1e-3


@pytest.mark.parametrize("part", ["inputs", "recent"])
def test_the_comparison_finds_a_wrong_place(part):
    model, head = made("lstm", 3, "fixed", **MIXED)
    step = Step(model, head)

    def wrong(x, state, boundaries):
        raw = state[:, step.parts()[part]]
        changed = raw.unflatten(1, (-1, 3)).flip(1).flatten(1)
        return step(x, torch.cat([state[:, : step.parts()[part].start], changed, state[:, step.parts()[part].stop :]], 1))

    assert largest_difference(wrong, step, model, EXAMPLE, steps=20) > 1e-3


@pytest.mark.parametrize("kind", ["fixed", "given below"])
def test_it_goes_on_where_the_model_was(kind):
    model, head = made(["lstm", "gru", "rnn"], 3, kind)
    x, flags = torch.randn(17, 2, 3, dtype=torch.float64), nested_flags(model.periods, 16, 2, seeded())
    before = None if flags is None else flags[:10]
    with torch.no_grad():
        whole, _ = model(x, boundaries=None if flags is None else flags[:17])
        _, state = model(x[:10], boundaries=before)
        step = Step(model, head)
        flat = step.flat(state)
        for t in range(10, 17):
            output, flat = step(x[t], flat, None if flags is None else flags[t, :, 0])
            assert torch.allclose(output, head(whole[t]), atol=1e-12)


def test_rows_of_zeros_start_over_and_leave_others_alone():
    model, _ = made("gru", 3, "fixed", **MIXED)
    step, x = Step(model), torch.randn(20, 2, 3, dtype=torch.float64)
    flat, fresh = step.initial_state(2), step.initial_state(2)
    for t in range(13):
        _, flat = step(x[t], flat)
    flat[1] = 0
    for t in range(13, 20):
        together, flat = step(x[t], flat)
        alone, fresh = step(x[t], fresh)
        assert torch.equal(together[1], alone[1])
        assert not torch.equal(together[0], alone[0])


@pytest.mark.parametrize("kind", PERIODS)
def test_a_window_is_the_forward_pass_from_a_fresh_state(kind):
    model, head = made(["lstm", "gru", "rnn", "lstm"], 4, kind)
    x, flags = torch.randn(30, 3, 3, dtype=torch.float64), nested_flags(model.periods, 29, 3, seeded())
    given = [] if flags is None else [flags if flags.shape[2] > 1 else flags[..., 0]]
    with torch.no_grad():
        expected, state = model(x, boundaries=given[0] if given else None)
        output, flat = Window(Step(model, head), 30)(x, *given)
    assert torch.allclose(output, head(expected), atol=1e-12)
    assert torch.allclose(flat, Step(model).flat(state), atol=1e-12)


def test_it_is_a_copy_of_the_model():
    model, head = made("lstm", 2, "fixed")
    step, x = Step(model, head), torch.randn(2, 3, dtype=torch.float64)
    before, _ = step(x, step.initial_state(2))
    with torch.no_grad():
        for parameter in (*model.parameters(), *head.parameters()):
            parameter.zero_()
    assert torch.equal(step(x, step.initial_state(2))[0], before)
    assert head.training
    assert next(model.parameters()).requires_grad


def test_what_stands_in_the_state():
    step = Step(made(["lstm", "gru"], 2, "fixed")[0])
    names = {"hidden 0": (0, 5), "cell 0": (5, 10), "hidden 1": (10, 17), "position 0": (17, 18)}
    assert {name: (part.start, part.stop) for name, part in step.parts().items()} == names
    other = Step(made(["lstm", "gru"], 2, "fixed", **OWN)[0])
    more = {"inputs": (18, 18 + 3 * 3), "recent": (27, 27 + 1 * 3)}
    assert {name: (part.start, part.stop) for name, part in other.parts().items()} == names | more
    state = step.initial_state(1)
    seen = []
    for _ in range(4):
        _, state = step(torch.zeros(1, 3, dtype=torch.float64), state)
        seen.append(int(state[0, 17]))
    assert seen == [1, 2, 0, 1]


def of_many_tokens():
    with torch.device("meta"):
        return hrnn.HRNN(hrnn.Tokens(2**24 + 1), [1, 1], [2], cell="rnn", decoders=False, reads="inputs")


def changed(model):
    nn.utils.parametrizations.weight_norm(model.cells[1], "weight_hidden")
    return model


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: (nn.LSTM(2, 2),), TypeError, r"model is .*; give an hrnn.HRNN, of a run: hrnn.load"),
        (
            lambda: (hrnn.HRNN(3, [4, 4], [2], cell=["lstm", MinimalGRU]),),
            ValueError,
            "level 1 has a cell of your own, MinimalGRU, .*; export a model of lstm, gru or rnn cells$",
        ),
        (lambda: (changed(hrnn.HRNN(3, [4, 4], [2])),), ValueError, "the cell of level 1 has hooks.*; remove them"),
        (lambda: (hrnn.HRNN(3, [4]).half(),), ValueError, r"model is torch.float16; export model.float\(\)"),
        (lambda: (hrnn.HRNN(3, [4, 4], [2**24 + 1], decoders=False),), ValueError, "periods has 16777217; .* counts up to"),
        (lambda: (of_many_tokens(),), ValueError, "inputs is Tokens.16777217.; an exported step remembers tokens of up to"),
        (lambda: (hrnn.HRNN(3, [4]), lambda x: x), TypeError, "head is .*; give an nn.Module"),
    ],
)
def test_what_cannot_be_exported_is_said(make, error, sentence):
    with pytest.raises(error, match=sentence):
        Step(*make())


def test_boundaries_that_are_missing_are_named():
    step = Step(made("rnn", 2, "given")[0])
    with pytest.raises(ValueError, match="boundaries is None; give them, for 1 of the levels"):
        step(torch.zeros(1, 3, dtype=torch.float64), step.initial_state(1))
