"""One conformance suite for every cell, and the built-in ones against torch's own layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from hrnn.cells import LSTM, from_torch, to_torch
from hrnn.cells.ticks import run_ticks
from hrnn.room import BACKWARD_TICKS
from tests.helpers import METHODS, assert_close, assert_same_gradients, seeded, squares, steady, take_gradients
from tests.oracle import cell_start, cell_step
from tests.user_cells import LearnedStart, MinimalGRU

pytestmark = pytest.mark.usefixtures("engine")
LONG = 2 * BACKWARD_TICKS + 5  # differentiated in more than two blocks


class Conformance:
    """A cell supplies `cell` and the shapes of its state's parts for one row, and receives every test."""

    cell: object
    parts: list[tuple[int, ...]]  # for hidden size 4

    def model(self, inputs=3, sizes=(4, 5), periods=(2,), **options):
        torch.manual_seed(1)
        return steady(hrnn.HRNN(inputs, list(sizes), list(periods), cell=self.cell, decoder_units=3, **options).double())

    def inputs(self, tokens, steps, batch):
        generator = seeded(2)
        if tokens:
            return torch.randint(3, (steps, batch), generator=generator)
        return torch.randn(steps, batch, 3, generator=generator, dtype=torch.float64)

    def loop(self, cell, inputs, state, context):
        """Ticks by the slow, literal path; a context means that a segment starts."""
        outputs = []
        for t in range(len(inputs)):
            fresh = context is not None and t == 0
            first = torch.ones(inputs.shape[1], 1, dtype=torch.bool) if fresh else None
            state = cell.tick(inputs[t], state, first, None, context if fresh else None)
            outputs.append(state[0])
        return torch.stack(outputs), state

    @pytest.mark.parametrize("tokens", [False, True])
    def test_shapes_and_state_parts(self, tokens):
        model = self.model(hrnn.Tokens(3) if tokens else 3)
        output, state = model(self.inputs(tokens, 5, 2))
        assert output.shape == (5, 2, 4)
        assert [tuple(part.shape) for part in state.cells[0]] == [(2, *shape) for shape in self.parts]
        assert state.cells[1][0].shape == (2, 5)
        assert torch.equal(output[-1], state.hidden[0])
        assert [p.shape for p in model.initial_state(2).cells[0]] == [p.shape for p in state.cells[0]]

    @pytest.mark.parametrize("tokens", [False, True])
    def test_a_tick_is_the_literal_step(self, tokens):
        """Rows that start a segment, with context, beside rows that go on."""
        model = self.model(hrnn.Tokens(3) if tokens else 3)
        cell = model.cell(0)
        inputs = self.inputs(tokens, 1, 3)[0]
        state = tuple(torch.randn(3, *shape, generator=seeded(3), dtype=torch.float64) for shape in self.parts)
        context = torch.randn(2, 5, generator=seeded(4), dtype=torch.float64)
        first = torch.tensor([[True], [False], [True]])
        after = cell.tick(inputs, state, first, torch.tensor([0, 2]), context)
        for row in range(3):
            u = F.one_hot(inputs[row], 3).double() if tokens else inputs[row]
            sent = context[row // 2] if first[row] else torch.zeros(5, dtype=torch.float64)
            before = cell_start(cell, sent) if first[row] else tuple(part[row] for part in state)
            for got, expected in zip(after, cell_step(cell, u, sent, before), strict=True):
                assert_close(got[row], expected, tolerance=1e-14)

    @pytest.mark.parametrize("how", ["forward", *METHODS])
    def test_inputs_may_lie_in_memory_in_any_order(self, how):
        """Their gradient too: as a transposed tensor, which batch_first makes of its input, or expanded."""
        model = self.model()
        x = torch.randn(2, 7, 3, generator=seeded(), dtype=torch.float64)
        y = torch.randn(7, 2, 4, generator=seeded(), dtype=torch.float64)
        gradients = []
        for leaf in (x.transpose(0, 1).contiguous(), x.transpose(0, 1)):
            leaf = leaf.detach().requires_grad_()
            if how == "forward":
                squares(model(leaf)[0], y).mean().backward()
            else:
                METHODS[how]().backward(model, leaf, y, loss=squares)
            gradients.append(take_gradients(model) | {"x": leaf.grad})
        assert not gradients[1]["x"].isnan().any()
        assert_same_gradients(gradients[1], gradients[0], tolerance=1e-13)
        expanded = x[:1, :1].expand(7, 2, -1)
        assert_close(model(expanded)[0], model(expanded.contiguous())[0], tolerance=1e-14)

    def test_gradcheck_through_forward(self):
        """By finite differences, over inputs, parameters and the state's own parts, in mid-segment."""
        model = self.model(inputs=2, sizes=(2, 2), periods=(2,), decoders=False)
        x = torch.randn(4, 2, 2, generator=seeded(), dtype=torch.float64, requires_grad=True)
        _, state = model(torch.randn(3, 2, 2, generator=seeded(), dtype=torch.float64))
        parts = [part.detach().clone().requires_grad_() for cell in state.cells for part in cell]
        counts = [len(cell) for cell in state.cells]

        def run(x, *rest):
            left = iter(rest)
            cells = tuple(tuple(next(left) for _ in range(count)) for count in counts)
            output, after = model(x, hrnn.State(cells, state.clock, state.row, state.history))
            return output, *(part for cell in after.cells for part in cell)

        assert torch.autograd.gradcheck(run, (x, *parts, *model.parameters()))

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("tokens", [False, True])
    def test_the_same_twice_is_the_same_to_the_last_bit(self, method, tokens):
        model = self.model(hrnn.Tokens(3) if tokens else 3)
        x, y = self.inputs(tokens, 9, 3), torch.randn(9, 3, 4, generator=seeded(), dtype=torch.float64)
        runs = []
        for _ in range(2):
            result = METHODS[method]().backward(model, x, y, loss=squares, betas=[0.5], generator=seeded())
            runs.append((result, take_gradients(model)))
        (first, one), (second, two) = runs
        assert torch.equal(first.loss, second.loss)
        assert torch.equal(first.local_losses, second.local_losses)
        assert all(torch.equal(one[name], two[name]) for name in one)


class TestMinimalGRU(Conformance):
    cell, parts = MinimalGRU, [(4,)]


class TestLearnedStart(Conformance):
    cell, parts = LearnedStart, [(4,), (2, 2)]


class BuiltinConformance(Conformance):
    """What a cell with a hand-written backward and a partner in torch receives beside that."""

    layer: type[nn.RNNBase]

    @pytest.mark.parametrize("fresh", [False, True])
    @pytest.mark.parametrize("sizes", [[3], [3] * 4, [3, 3, 2, 2, 1], [60, 60, 2, 2, 2, 1, 1]])
    @pytest.mark.parametrize("tokens", [False, True])
    @pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
    def test_packed_ticks_are_literal_ticks(self, dtype, tolerance, tokens, sizes, fresh):
        """Of torch's own operation, and of a loop over the rows that are left: outputs, states and gradients."""
        cell = self.model(hrnn.Tokens(3) if tokens else 3).cell(0).to(dtype)
        new, n = {"generator": seeded(5), "dtype": dtype}, sizes[0]
        inputs = self.inputs(tokens, sum(sizes), 1)[:, 0].clone()
        inputs = inputs if tokens else inputs.to(dtype).requires_grad_()
        state = None if fresh else tuple(torch.randn(n, 4, **new).requires_grad_() for _ in self.parts)
        context = torch.randn(n, 5, **new).requires_grad_() if fresh else None
        upstream = [torch.randn(sum(sizes), 4, **new), *(torch.randn(n, 4, **new) for _ in self.parts)]
        wanted = [*cell.parameters(), *([] if tokens else [inputs]), *([context] if fresh else state)]
        results = []
        for call in (cell, lambda *arguments: cell(*arguments)):  # the second is no cell as it was made
            output, after = run_ticks(cell, call, inputs, sizes, state, context)
            gradients = torch.autograd.grad([output, *after], wanted, upstream, allow_unused=True)
            results.append(([output, *after], gradients))
        for fast, slow in zip(results[0][0], results[1][0], strict=True):
            assert_close(fast, slow, tolerance=tolerance)
        for parameter, *gradients in zip(wanted, *(gradients for _, gradients in results), strict=True):
            fast, slow = (torch.zeros_like(parameter) if g is None else g for g in gradients)
            assert_close(fast, slow, tolerance=10 * tolerance)

    def test_a_graph_can_be_differentiated_twice(self):
        model = self.model()
        output, _ = model(self.inputs(False, 5, 2))
        output.square().sum().backward(retain_graph=True)
        once = take_gradients(model)
        output.square().sum().backward()
        assert_same_gradients(take_gradients(model), once, tolerance=0)

    @pytest.mark.parametrize("what", ["weights", "inputs"])
    def test_what_backward_needs_may_not_change_before_it(self, what):
        """As with torch's layers: an error, not a wrong gradient."""
        model, x = self.model(), self.inputs(False, 5, 2)
        output, _ = model(x)
        with torch.no_grad():
            (model.cells[1].weight_hidden if what == "weights" else x).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            output.sum().backward()

    def torch_gradients(self, layer):
        """A torch layer's gradients under our cell's names."""
        w_ih, w_hh, b_ih, b_hh = (
            getattr(layer, f"{name}_l0").grad for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        named = {"weight_input": w_ih, "weight_hidden": w_hh, "bias": b_ih}
        if isinstance(layer, nn.GRU):
            named |= {"weight_hidden": torch.cat([w_hh[8:], w_hh[:8]]), "bias_hidden": b_hh[8:]}
        return {f"0.{name}": gradient for name, gradient in named.items()}

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("tokens", [False, True])
    @pytest.mark.parametrize("how", ["forward", *METHODS])
    def test_one_level_is_the_torch_layer(self, how, tokens, bias):
        model = self.model(hrnn.Tokens(3) if tokens else 3, sizes=(4,), periods=())
        layer = self.layer(3, 4, bias=bias).double()
        from_torch(model.cells[0], layer)
        x = self.inputs(tokens, LONG, 2)
        dense = F.one_hot(x, 3).double() if tokens else x
        x, dense = (t if t.dtype == torch.int64 else t.clone().requires_grad_() for t in (x, dense))
        y = torch.randn(LONG, 2, 4, generator=seeded(), dtype=torch.float64)
        expected, last = layer(dense)
        squares(expected, y).mean().backward()
        if how == "forward":
            output, state = model(x)
            squares(output, y).mean().backward()
            assert_close(output, expected, tolerance=1e-13)
        else:
            result = METHODS[how]().backward(model, x, y, loss=squares)
            assert_close(result.loss, squares(expected, y).mean(), tolerance=1e-13)
            state = result.state
        for part, theirs in zip(state.cells[0], last if isinstance(last, tuple) else (last,), strict=True):
            assert_close(part, theirs[0], tolerance=1e-13)
        if bias:
            assert_same_gradients(take_gradients(model.cells[0]), self.torch_gradients(layer), tolerance=1e-12)
        if not tokens:
            assert_close(x.grad, dense.grad, tolerance=1e-12)

    def test_weights_to_torch_and_back(self):
        for level in range(2):
            cell = self.model().cells[level]
            layer = to_torch(cell)
            assert type(layer) is self.layer
            assert layer.input_size == (3 + 5, 4)[level]
            again = self.model().cells[level]
            for parameter in again.parameters():
                nn.init.zeros_(parameter)
            from_torch(again, layer)
            for (name, ours), theirs in zip(cell.named_parameters(), again.parameters(), strict=True):
                assert torch.equal(ours, theirs), name

    def test_torch_layers_over_input_and_context_make_the_hierarchy(self):
        """Section 3 of the design, with torch's layers as cells, for two levels."""
        model, period = self.model(sizes=(4, 5), periods=(3,)), 3
        lower, upper = (to_torch(cell) for cell in model.cells)
        x = self.inputs(False, 8, 2)
        low, high, summary, outputs = None, None, torch.zeros(2, 4, dtype=torch.float64), []
        for t in range(8):
            context = torch.zeros(2, 5, dtype=torch.float64)
            if t % period == 0:
                sent, high = upper(summary[None], high)
                context, low = sent[0], None
            out, low = lower(torch.cat([x[t], context], 1)[None], low)
            summary = out[0]
            outputs.append(summary)
        output, state = model(x)
        assert_close(output, torch.stack(outputs), tolerance=1e-13)
        assert_close(state.hidden[1], high[0][0] if isinstance(high, tuple) else high[0], tolerance=1e-13)

    def test_starts_within_torch_bounds(self):
        cell = self.model(inputs=40, sizes=(64,), periods=()).cells[0]
        for name, parameter in cell.named_parameters():
            if isinstance(cell, LSTM) and name == "bias":
                expected = torch.zeros(4, 64, dtype=torch.float64)
                expected[1] = 1  # the forget gate starts open
                assert torch.equal(parameter.view(4, 64), expected)
            else:
                assert 0.11 < float(parameter.detach().abs().max()) <= 0.125, name

    def test_what_cannot_be_exchanged_is_refused(self):
        cell = self.model().cells[0]
        weights = [p.clone() for p in cell.parameters()]
        other = nn.GRU if self.layer is not nn.GRU else nn.LSTM
        for layer, error, message in (
            (other(8, 4), TypeError, f"{type(cell).__name__} cannot exchange weights with {other.__name__}"),
            (nn.Linear(8, 4), TypeError, "cannot exchange weights with Linear"),
            (self.layer(8, 4, num_layers=2), ValueError, "one plain layer is expected"),
            (self.layer(8, 4, bidirectional=True), ValueError, "one plain layer is expected"),
            (self.layer(3, 4), ValueError, r"sizes \(3, 4\); expected \(8, 4\), that is \(input_size \+ context_size"),
            (self.layer(8, 5), ValueError, r"sizes \(8, 5\); expected \(8, 4\)"),
        ):
            with pytest.raises(error, match=message):
                from_torch(cell, layer)
        assert all(torch.equal(a, b) for a, b in zip(weights, cell.parameters(), strict=True))


class TestLSTM(BuiltinConformance):
    cell, parts, layer = "lstm", [(4,), (4,)], nn.LSTM

    def test_a_projection_is_refused(self):
        with pytest.raises(ValueError, match="projection"):
            from_torch(self.model().cells[0], nn.LSTM(8, 4, proj_size=2))


class TestGRU(BuiltinConformance):
    cell, parts, layer = "gru", [(4,)], nn.GRU


class TestRNN(BuiltinConformance):
    cell, parts, layer = "rnn", [(4,)], nn.RNN

    def test_a_relu_is_refused(self):
        with pytest.raises(ValueError, match="relu"):
            from_torch(self.model().cells[0], nn.RNN(8, 4, nonlinearity="relu"))


def test_a_users_cell_has_no_partner_in_torch():
    cell = hrnn.HRNN(3, [4], [], cell=MinimalGRU).cells[0]
    with pytest.raises(TypeError, match="UserCell has no counterpart"):
        to_torch(cell)
    with pytest.raises(TypeError, match="UserCell cannot exchange weights with GRU"):
        from_torch(cell, nn.GRU(3, 4))
