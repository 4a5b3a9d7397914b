"""States and models as things to keep: copies, dtypes, rows, files."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import hrnn
from tests.helpers import CELLS, METHODS, assert_close, assert_same_state, seeded, squares, steady, take_gradients
from tests.user_cells import LearnedStart, MinimalGRU


def example(cell="lstm", tokens=False, given=False, **options):
    """A model in mid-segment, its state, and inputs to go on with."""
    torch.manual_seed(4)
    periods = [hrnn.Given(3), 2] if given else [3, 2]
    model = hrnn.HRNN(
        hrnn.Tokens(5) if tokens else 2, [3, 4, 2], periods, cell=CELLS[cell] if cell in [*CELLS] else cell, **options
    )
    model = steady(model.double())
    x = torch.randint(5, (11, 4)) if tokens else torch.randn(11, 4, 2).double()
    flags = torch.rand(11, 4) < 0.4 if given else None
    _, state = model(x[:5], boundaries=None if flags is None else flags[:5])
    assert bool(state.clock.position.any())
    return model, state, {"x": x[5:], "boundaries": None if flags is None else flags[5:]}


def leaves_of(state):
    return [*(part for cell in state.cells for part in cell), *state.history, state.row, *vars(state.clock).values()]


@pytest.fixture(params=[*CELLS, "tokens", "given"])
def going_on(request):
    return example(request.param if request.param in CELLS else "gru", request.param == "tokens", request.param == "given")


def test_detach_cuts_the_graph_and_nothing_else(going_on):
    model, state, more = going_on
    assert state.hidden[0].requires_grad
    detached = state.detach()
    assert not any(t.requires_grad for t in leaves_of(detached))
    assert state.hidden[0].requires_grad, "the original is as it was"
    assert torch.equal(model(**more, state=detached)[0], model(**more, state=state)[0])


def test_clone_shares_no_memory(going_on):
    model, state, more = going_on
    expected = model(**more, state=state)[0]
    copy = state.detach().clone()
    for tensor in leaves_of(state.detach()):
        tensor.zero_()
    assert torch.equal(model(**more, state=copy)[0], expected)


def test_a_state_is_not_changed_by_what_is_done_with_the_output(going_on):
    """Nor by going on from it: it is what it was when it was returned."""
    model, state, more = going_on
    with torch.no_grad():
        output, after = model(**more, state=state)
        kept = after.clone()
        output.zero_()
        model(more["x"], after, boundaries=more["boundaries"])
    assert_same_state(after, kept)
    assert_same_state(state.detach(), going_on[1].clone().detach())


def test_to_another_dtype_converts_floats_only(going_on):
    model, state, more = going_on
    single = state.to(dtype=torch.float32)
    for old, new in zip(leaves_of(state), leaves_of(single), strict=True):
        assert new.dtype == (torch.float32 if old.is_floating_point() else old.dtype)
    x = more["x"].float() if more["x"].is_floating_point() else more["x"]
    output = model(**more, state=state)[0]
    converted = model.float()(**(more | {"x": x}), state=single)[0]
    assert_close(converted.double(), output, tolerance=1e-5)


def test_to_another_device_takes_everything_along(going_on):
    _, state, _ = going_on
    assert {t.device.type for t in leaves_of(state.to("meta"))} == {"meta"}
    assert {t.device.type for t in leaves_of(state.to(device="cpu"))} == {"cpu"}


@pytest.mark.parametrize("rows", [[2, 0], [3], [0, 1, 2, 3], [1, 1]])
def test_selected_rows_go_on_as_they_would_have(going_on, rows):
    model, state, more = going_on
    whole, after = model(**more, state=state)
    part = {name: None if value is None else value[:, rows] for name, value in more.items()}
    chosen = state.select(torch.tensor(rows))
    assert chosen.batch == len(rows)
    assert chosen.row.tolist() == rows
    output, end = model(**part, state=chosen)
    assert_close(output, whole[:, rows], tolerance=1e-12)
    assert_same_state(end, after.select(torch.tensor(rows)))


def test_rows_can_be_selected_by_booleans(going_on):
    _, state, _ = going_on
    which = torch.tensor([True, False, False, True])
    assert_same_state(state.select(which), state.select(torch.tensor([0, 3])))


def test_with_rows_renumbers(going_on):
    _, state, _ = going_on
    other = state.with_rows(torch.tensor([7, 5, 3, 1]))
    assert other.row.tolist() == [7, 5, 3, 1]
    assert state.row.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"row has shape \(2,\); expected \(4,\), one number for each row"):
        state.with_rows(torch.tensor([1, 2]))


def test_a_saved_state_goes_on(going_on, tmp_path):
    """Safetensors and nothing else, so that loading runs no code; training and inference go on alike."""
    model, state, more = going_on
    path = tmp_path / "state.safetensors"
    state.save(path)
    with safe_open(str(path), framework="pt") as file:
        assert set(file.keys()) == set(state.tensors())
    loaded = hrnn.State.load(path)
    assert_same_state(loaded, state)
    assert torch.equal(model(**more, state=loaded)[0], model(**more, state=state)[0])
    y = torch.randn(6, 4, 3, generator=seeded(), dtype=torch.float64)
    for method in METHODS.values():
        runs = []
        for start in (state.detach(), loaded):
            result = method().backward(model, **more, y=y, state=start, loss=squares, betas=[1, 1], generator=seeded())
            runs.append((result.local_losses, take_gradients(model)))
        assert torch.equal(runs[0][0], runs[1][0])
        assert all(torch.equal(gradient, runs[1][1][name]) for name, gradient in runs[0][1].items())


def test_tensors_that_are_no_state_are_named():
    _, state, _ = example()
    for name in ("position", "span", "ordinal", "skipped", "row", "cells.0.0"):
        tensors = state.tensors()
        del tensors[name]
        with pytest.raises(ValueError, match=f"tensors has no '{name}'; it does not describe a State"):
            hrnn.State.from_tensors(tensors)


def test_streaming_keeps_a_state_of_constant_size():
    """In numbers and in memory: no state holds on to a larger buffer, nor to a graph."""
    for cell in ("lstm", MinimalGRU):
        model, state, more = example(cell)

        def size(state):
            return [(t.shape, t.untyped_storage().nbytes()) for t in leaves_of(state)]

        with torch.no_grad():
            _, state = model.step(more["x"][0], state.detach())
            first = size(state)
            for t in range(1, 30):
                _, state = model.step(more["x"][t % 6], state)
                assert size(state) == first
            _, state = model(more["x"].repeat(20, 1, 1), state)
        assert size(state) == first, "a long call leaves no more behind than a step"
        assert not any(t.requires_grad for t in leaves_of(state))


@pytest.mark.parametrize("decoders", [True, False])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn", "tokens", "given", "mixed"])
def test_a_saved_model_infers_the_same(kind, decoders, tmp_path):
    cell = ["lstm", "gru", "rnn"] if kind == "mixed" else kind if kind in CELLS else "lstm"
    model, _, more = example(cell, kind == "tokens", kind == "given", batch_first=kind == "gru", check_finite=kind == "rnn")
    path = tmp_path / "model.safetensors"
    model.save(path, decoders=decoders)
    loaded = hrnn.HRNN.load(path)
    assert (loaded.decoders is not None) == decoders
    assert loaded.config == model.config | {"decoders": decoders}
    assert (loaded.batch_first, loaded.check_finite) == (model.batch_first, model.check_finite)
    assert loaded.dtype == torch.float64
    assert torch.equal(loaded(**more)[0], model(**more)[0])
    with safe_open(str(path), framework="pt") as file:
        assert any(name.startswith("decoders.") for name in file.keys()) == decoders  # noqa: SIM118 (not a dict)
        assert json.loads(file.metadata()["hrnn"])["hidden_sizes"] == [3, 4, 2]
    if decoders:
        assert all(torch.equal(t, loaded.state_dict()[name]) for name, t in model.state_dict().items())


def test_a_model_of_one_level_is_loaded(tmp_path):
    model = hrnn.HRNN(3, [4])
    model.save(tmp_path / "model")
    assert hrnn.HRNN.load(tmp_path / "model").config == model.config


class Mean(torch.nn.Module):
    """A reader without parameters."""

    def __init__(self, parts, input_size, size):
        super().__init__()

    def forward(self, parts):
        return parts.flatten(1, -2).mean(1)


def test_a_reader_without_parameters_is_given_again_on_loading(tmp_path):
    model = hrnn.HRNN(hrnn.Tokens(4), [3, 4], [2], reads="inputs", reader=Mean).double()
    model.save(tmp_path / "model")
    loaded, x = hrnn.HRNN.load(tmp_path / "model", reader=Mean), torch.randint(4, (5, 2))
    assert torch.equal(loaded(x)[0], model(x)[0])


def test_a_model_without_decoders_trains_on_the_task_alone(tmp_path):
    model, _, more = example()
    model.save(tmp_path / "small", decoders=False)
    small = hrnn.HRNN.load(tmp_path / "small")
    y = torch.randn(6, 4, 3, generator=seeded(), dtype=torch.float64)
    for method in METHODS.values():
        result = method().backward(small, **more, y=y, loss=squares)
        expected = method().backward(model, **more, y=y, loss=squares, betas=[0.0] * len(model.periods))
        assert torch.equal(result.loss, expected.loss)
        for ours, theirs in zip(small.cells.parameters(), model.cells.parameters(), strict=True):
            assert torch.equal(ours.grad, theirs.grad)
        take_gradients(small, model)


def test_a_users_cell_is_given_again_on_loading(tmp_path):
    model, _, more = example("learned")
    path = tmp_path / "model"
    model.save(path)
    with pytest.raises(ValueError, match=r"saved with a cell of the user's at level 0; give it again: load\(path, cell=...\)"):
        hrnn.HRNN.load(path)
    assert torch.equal(hrnn.HRNN.load(path, cell=LearnedStart)(**more)[0], model(**more)[0])
    mixed, _, more = example(["lstm", MinimalGRU, "rnn"])
    mixed.save(path)
    with pytest.raises(ValueError, match="level 1"):
        hrnn.HRNN.load(path)
    assert torch.equal(hrnn.HRNN.load(path, cell=["lstm", MinimalGRU, "rnn"])(**more)[0], mixed(**more)[0])


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(2)}, str(path))
    with pytest.raises(ValueError, match=r"other.safetensors holds tensors but no hrnn model; write it with model.save\(\)"):
        hrnn.HRNN.load(path)
    with pytest.raises(ValueError, match="has no number of a format"):
        hrnn.State.load(path)
    save_file({"weight": torch.zeros(2)}, str(path), {"hrnn": json.dumps({"format": 5, "kind": "head"})})
    with pytest.raises(ValueError, match="holds no State; give what"):
        hrnn.State.load(path)
