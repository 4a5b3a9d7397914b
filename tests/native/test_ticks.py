"""Compiled ticks and decoders against torch, at every level that this processor has and at sizes that fit no vector."""

from __future__ import annotations

import math

import pytest
import torch

import hrnn
from hrnn import native
from hrnn.cells import native as compiled
from hrnn.cells.block import Block
from hrnn.cells.ticks import run_ticks
from hrnn.decoders import Decoder
from hrnn.decoding import Decoded
from hrnn.native import functions
from tests.helpers import assert_close

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-13}  # float32: sums of terms that cancel; what is exact shows in float64


@pytest.fixture(params=native.LEVELS, autouse=True)
def level(request, monkeypatch):
    library = native.library()
    if library is None:
        pytest.skip(f"torch computes: {native.reason()}")
    if request.param not in native.LEVELS[native.LEVELS.index(native.level()) :]:
        pytest.skip(f"this processor has {native.level()}")
    monkeypatch.setattr(native, "_found", (library, request.param, "a test"))
    functions._of_level.cache_clear()
    yield request.param
    functions._of_level.cache_clear()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_activations_are_exact_to_rounding(dtype):
    x = torch.cat([torch.linspace(-30, 30, 20_001), torch.linspace(-1e-3, 1e-3, 2_001), torch.tensor([1e-30])]).to(dtype)
    sigmoids, tanhs = torch.empty_like(x), torch.empty_like(x)
    functions.functions(x).activations(len(x), x.data_ptr(), sigmoids.data_ptr(), tanhs.data_ptr())
    for found, function in ((sigmoids, math.exp), (tanhs, math.tanh)):
        exact = [1 / (1 + math.exp(-v)) if function is math.exp else math.tanh(v) for v in x.tolist()]
        expected = torch.tensor(exact, dtype=torch.float64)
        relative = ((found.double() - expected) / expected).abs()[expected != 0]
        assert float(relative.max()) < 2.5 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_what_is_no_number_stays_none_and_what_is_large_is_cut_off(dtype):
    x = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30, 0.0], dtype=dtype)
    sigmoids, tanhs = torch.empty_like(x), torch.empty_like(x)
    functions.functions(x).activations(len(x), x.data_ptr(), sigmoids.data_ptr(), tanhs.data_ptr())
    assert math.isnan(sigmoids[0])
    assert math.isnan(tanhs[0])
    assert sigmoids[1:].tolist() == pytest.approx([1, 0, 1, 0, 0.5], abs=1e-30)
    assert tanhs[1:].tolist() == [1, -1, 1, -1, 0]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize(("size", "inputs", "rows", "columns"), [(1, 1, 1, 1), (7, 3, 5, 2), (33, 17, 13, 3), (300, 40, 29, 1)])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_are_literal_ticks(cell, size, inputs, rows, columns, dtype, threads, monkeypatch):
    """Segments side by side, with contexts, forward and backward; 300 units are more than a product takes in one go."""
    monkeypatch.setattr(compiled.Buffers, "_threads", lambda self, ticks, rows: threads)
    torch.manual_seed(0)
    for tokens in (False, True):
        model = hrnn.HRNN(hrnn.Tokens(inputs) if tokens else inputs, [size, 6], [4], cell=cell).to(dtype)
        lowest, ticks, places = model.cell(0), 4, rows * columns
        given = torch.randint(inputs, (ticks, places)) if tokens else torch.randn(ticks, places, inputs, dtype=dtype)
        contexts = torch.randn(columns, rows, 6, dtype=dtype)
        upstream, carried = torch.randn(ticks, places, size, dtype=dtype), torch.randn(places, size, dtype=dtype)
        block, weights, buffers = Block(lowest, ticks, rows, columns), compiled.NativeWeights(lowest), lowest.zero_gradients()
        block.lay_out(columns)
        block.inputs.copy_(given)
        for column in range(columns):
            block.set_state(0, None, column)
            block.run(weights, 0, 2, True, contexts[column], column)
            block.run(weights, 2, ticks, False, None, column)
        outputs = block.states[0][1:].clone()
        carry = [carried.clone() for _ in block.states]
        d_inputs = None if tokens else torch.empty(ticks, places, inputs, dtype=dtype)
        with torch.no_grad():
            block.backward(weights, buffers, 2, ticks, upstream.clone(), carry, fresh=False)
            block.backward(weights, buffers, 0, 2, upstream.clone(), carry, fresh=True, d_inputs=_first(d_inputs, 2))
        flat = given.flatten(0, 1).clone().requires_grad_(not tokens)
        sent = contexts.flatten(0, 1).requires_grad_()
        output, after = run_ticks(lowest, lambda *a, cell=lowest: cell(*a), flat, [places] * ticks, None, sent)
        wanted = [*lowest.parameters(), sent, *([] if tokens else [flat])]
        found = torch.autograd.grad([output, *after], wanted, [upstream.flatten(0, 1), *[carried for _ in after]])
        *d_parameters, d_sent = found if tokens else found[:-1]
        pairs = [(outputs.flatten(0, 1), output), (carry[0], d_sent)]
        pairs += zip(lowest.gradients(buffers).values(), d_parameters, strict=True)
        pairs += [] if tokens else [(d_inputs[:2].flatten(0, 1), found[-1][: 2 * places])]
        for native_part, literal_part in pairs:
            assert_close(native_part, literal_part, tolerance=TOLERANCE[dtype])


def _first(steps, count):
    return None if steps is None else steps[:count]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("indices", ["sampled", "all"])
@pytest.mark.parametrize(("n", "size", "units", "outputs", "reach"), [(1, 1, 1, 1, 1), (5, 7, 33, 3, 4), (41, 19, 256, 70, 3)])
def test_decoders_are_those_of_torch(n, size, units, outputs, reach, tokens, indices, dtype, monkeypatch):
    torch.manual_seed(0)
    decoder = Decoder(size, outputs, reach, tokens=tokens, units=units, indices=indices).to(dtype)
    m = reach if indices == "all" else 1
    ticks = torch.randint(1, reach + 2, (n,))
    index = decoder.draw(3, 0, torch.arange(n), torch.arange(n), ticks)
    targets = torch.randint(outputs, (m, n)) if tokens else torch.randn(m, n, outputs, dtype=dtype)
    summary = torch.randn(n, size, dtype=dtype)
    for counted, weight in ((ticks, torch.rand(n)), (reach, 0.3)):
        if counted is reach and m == 1:
            continue
        results = []
        for torch_alone in (False, True):
            with monkeypatch.context() as patch:
                if torch_alone:
                    patch.setattr(functions, "_of_level", lambda dtype: None)
                sums = {}
                found = Decoded(decoder).differentiate(summary, index, targets, counted, weight, sums)
                results.append([*found, *sums.values()])
        for native_part, torch_part in zip(*results, strict=True):
            assert_close(native_part, torch_part, tolerance=TOLERANCE[dtype])


def test_what_is_not_contiguous_is_copied_and_other_dtypes_are_torchs():
    model = hrnn.HRNN(3, [8, 8], [4], batch_first=True).double()
    x = torch.randn(2, 9, 3).double()
    with torch.no_grad():
        model.cells[0].weight_hidden.data = model.cells[0].weight_hidden.data.t().contiguous().t()
        assert not model.cells[0].weight_hidden.is_contiguous()
        strided, _ = model(x)
        assert_close(strided, model(x.transpose(0, 1).contiguous().transpose(0, 1))[0], tolerance=1e-14)
    half = hrnn.HRNN(3, [8, 8], [4]).to(torch.bfloat16)
    assert not compiled.serves(half.cell(0))
    assert half(torch.randn(9, 2, 3).to(torch.bfloat16))[0].isfinite().all()


def test_what_is_no_number_stays_in_its_row():
    model = hrnn.HRNN(3, [8, 8], [4]).double()
    x = torch.randn(9, 3, 3).double()
    x[5, 1, 0] = math.nan
    with torch.no_grad():
        output, _ = model(x)
    bad = output.isnan().any(-1)
    assert bad[5:, 1].all()
    assert int(bad.sum()) == 4


def test_a_token_that_changed_after_it_was_checked_is_no_number():
    """A loss that writes into x: torch would raise in mid-window; addresses beyond the weights must not be read."""
    model = hrnn.HRNN(hrnn.Tokens(3), [8, 8], [4])
    x, y = torch.randint(3, (64, 2)), torch.randn(64, 2, 8)  # more segments than are run together

    def loss(output, target):
        x[40:] = 2**40
        return (output - target).square().mean(-1)

    result = hrnn.Restricted().backward(model, x, y, loss=loss, betas=[1.0])
    assert result.loss.isnan()
