"""However a sequence is cut, in time, into rows, into rounds, or described: the same outputs, states and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import hrnn
from tests.helpers import (
    CELLS,
    METHODS,
    PROPERTY,
    assert_close,
    assert_same_gradients,
    assert_same_state,
    nested_flags,
    periodic_flags,
    seeded,
    squares,
    take_gradients,
)
from tests.oracle import Oracle


@dataclass
class Case:
    """A model, and rows from the start of their sequences: x, y, boundaries (steps + 1, ...) or None."""

    model: hrnn.HRNN
    x: torch.Tensor
    y: torch.Tensor
    flags: torch.Tensor | None
    betas: list[float]
    generator: torch.Generator

    @property
    def steps(self):
        return self.x.shape[0]

    @property
    def batch(self):
        return self.x.shape[1]

    def part(self, a, b, rows=slice(None), extra=True):
        """Arguments for steps a to b of some rows; `extra`: the boundary behind them is told, if it is known."""
        flags = None if self.flags is None else self.flags[a : b + (extra or b == self.steps), rows]
        return {"x": self.x[a:b, rows], "boundaries": flags}

    def weights(self):
        """Of the whole, for parts of it that make one update."""
        return {"weight": 1 / (self.steps * self.batch), "local_weight": 1 / (self.steps * self.batch)}


@st.composite
def cases(draw, fixed=None, steps=None, resets=False):
    levels = draw(st.integers(1, 3))
    fixed = draw(st.booleans()) if fixed is None else fixed
    period = st.integers(1, 4) if fixed else st.one_of(st.integers(1, 4), st.integers(1, 3).map(hrnn.Given))
    periods = draw(st.lists(period, min_size=levels - 1, max_size=levels - 1))
    seed, tokens, batch = draw(st.integers(0, 2**31)), draw(st.booleans()), draw(st.integers(1, 4))
    steps = draw(st.integers(1, 16)) if steps is None else steps
    name = draw(st.sampled_from(sorted(CELLS)))
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    sizes = [3, 2, 4][:levels]
    indices = draw(st.sampled_from(["sampled", "all"]))
    model = hrnn.HRNN(
        hrnn.Tokens(3) if tokens else 2, sizes, periods, cell=CELLS[name], indices=indices, decoder_units=3
    ).double()
    x = torch.randint(3, (steps, batch), generator=generator)
    if not tokens:
        x = torch.randn(steps, batch, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(steps, batch, 3, generator=generator, dtype=torch.float64)
    reset = torch.rand(steps, batch, generator=generator) < 0.2 if resets else None
    case = Case(model, x, y, nested_flags(periods, steps, batch, generator, reset), [0.7, 0.3][: levels - 1], generator)
    return (case, reset) if resets else case


def copied(model, **changes):
    """The same weights in a model made with some other options."""
    config = model.config
    names = zip(config.pop("cell"), model.cells, strict=True)
    options = config | {
        "inputs": model.inputs,
        "periods": model.periods,
        "cell": [type(cell.module) if name is None else name for name, cell in names],
    }
    other = hrnn.HRNN(**(options | changes)).double()
    other.load_state_dict(model.state_dict())
    return other


def cuts(case, draw_from):
    inner = draw_from.draw(st.sets(st.integers(1, max(1, case.steps - 1)), max_size=5)) if case.steps > 1 else set()
    edges = [0, *sorted(inner), case.steps]
    return list(pairwise(edges))


def chunked(case, flags, reset, lengths, edges):
    """The window in chunks; the boundary behind the last step is told with the last of them."""
    return [
        hrnn.Chunk(
            case.x[a:b],
            case.y[a:b],
            boundaries=None if flags is None else flags[a : b + (b == case.steps)],
            reset=None if reset is None else reset[a:b],
            lengths=None if lengths is None else (lengths - a).clamp(0, b - a),
        )
        for a, b in edges
    ]


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


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(PROPERTY, max_examples=30)
def test_rows_may_be_split_over_calls(method, data):
    """In the second of two windows, so that states are split too; sampled indices follow the row numbers."""
    case = data.draw(cases())
    model = case.model
    middle = data.draw(st.integers(1, case.steps))
    _, state = model(**case.part(0, middle))
    state = state.detach()
    if middle == case.steps:
        return
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


@pytest.mark.parametrize("method", METHODS)
def test_a_row_that_ended_in_an_earlier_chunk_has_its_boundary_from_there(method):
    torch.manual_seed(0)
    model = hrnn.HRNN(2, [3, 3], [hrnn.Given(4)]).double()
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
    model = hrnn.HRNN(2, [3, 3, 3], [6, hrnn.Given(4)]).double()
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


def test_padding_may_hold_anything_even_numbers_that_are_no_tokens():
    torch.manual_seed(0)
    model = hrnn.HRNN(hrnn.Tokens(3), [4, 4], [2]).double()
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
