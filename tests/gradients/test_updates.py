"""Levels that move within a window: equal to one update where they move once, else to loops written by hand."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import hrnn
from tests.user_cells import MinimalGRU

STEPS, BATCH, RATE = 24, 3, 0.3


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=RATE)


def problem(sizes, periods, cell="rnn", inputs: int | hrnn.Tokens = 2, **options):
    """A model in float64, a head, a loss, and a window of data."""
    torch.manual_seed(0)
    model = hrnn.HRNN(inputs, sizes, periods, cell=cell, decoder_units=4, **options).double()
    head = nn.Linear(sizes[0], 1).double()
    x = torch.randint(3, (STEPS, BATCH)) if isinstance(inputs, hrnn.Tokens) else torch.randn(STEPS, BATCH, inputs).double()
    y = torch.randn(STEPS, BATCH).double()
    given = [p for p in periods if isinstance(p, hrnn.Given)]
    boundaries = None
    if given:
        boundaries = torch.rand(STEPS, BATCH, len(given)) < 0.5
        for level in range(1, len(given)):
            boundaries[..., level] &= boundaries[..., level - 1]
        for level in range(len(given)):
            boundaries[0, :, level] = True
    return model, head, x, y, boundaries


class Elman(nn.Module):
    """The built-in Elman cell as a user would write it."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.inner = nn.Linear(input_size, hidden_size)
        self.hidden = nn.Linear(hidden_size, hidden_size, bias=False)

    def initial_state(self, batch):
        return (self.inner.weight.new_zeros(batch, self.hidden_size),)

    def step(self, inputs, state):
        return (torch.tanh(self.inner(inputs) + self.hidden(state[0])),)


def make_loss(head):
    return lambda output, target: (head(output)[..., 0] - target) ** 2


HIERARCHIES = {
    "two fixed": ([3, 4], [4], "lstm"),
    "three fixed": ([3, 4, 5], [2, 3], "gru"),
    "two given": ([3, 4], [hrnn.Given(3)], "lstm"),
    "three given": ([3, 4, 5], [hrnn.Given(3), hrnn.Given(2)], "rnn"),
    "own cell": ([3, 4], [4], MinimalGRU),
    "flat": ([3], [], "lstm"),
}


@pytest.mark.parametrize("name", HIERARCHIES)
@pytest.mark.parametrize("every", [None, 10**9])
@pytest.mark.parametrize("fused", [False, True])
def test_moving_once_a_window_is_being_locked_to_the_last_bit(name, every, fused):
    sizes, periods, cell = HIERARCHIES[name]
    weights = []
    for unlocked in (False, True):
        model, head, x, y, boundaries = problem(sizes, periods, cell, inputs=hrnn.Tokens(3))
        parameters = [*model.parameters(), *head.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.01, fused=fused)
        updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=0.01, fused=fused), heads=head.parameters(), every=every)
        state, betas = None, [0.5] * len(periods)
        for window in range(2):
            generator = torch.Generator().manual_seed(window)
            options = {
                "loss": make_loss(head),
                "betas": betas,
                "state": state,
                "boundaries": boundaries,
                "generator": generator,
            }
            result = hrnn.Restricted(round_steps=6).backward(model, x, y, updates=updates if unlocked else None, **options)
            state = result.state
            if not unlocked:
                optimizer.step()
                optimizer.zero_grad()
            assert all(p.grad is None for p in parameters)
        weights.append([p.detach().clone() for p in parameters])
    for locked, moved in zip(*weights, strict=True):
        assert torch.equal(locked, moved)
    assert updates.moves == [2] * len(sizes)


def literal_fixed(model, head, x, y, betas, every):
    """Segments by recursion, differentiated by autograd and followed by a step of SGD; Elman cells, all indices."""
    loss, top = make_loss(head), len(model.cells) - 1
    share = 1 / (STEPS * BATCH)
    summaries = [torch.zeros(BATCH, n).double() for n in model.hidden_sizes]
    owners = [list(cell.parameters()) for cell in model.cells]
    owners[0] = owners[0] + list(head.parameters())
    for level in range(top):
        owners[level] = owners[level] + list(model.decoders[level].parameters())
    held = [{p: torch.zeros_like(p) for p in group} for group in owners]
    since, segments, clock = [0] * (top + 1), [0] * (top + 1), [0]

    def move(level):
        steps = clock[0] - since[level]
        with torch.no_grad():
            for p, g in held[level].items():
                p -= RATE * g / (share * BATCH * steps)
                g.zero_()
        since[level], segments[level] = clock[0], 0

    def segment(level, ticks, context):
        cell = model.cells[level]
        h, total, inputs = torch.zeros(BATCH, cell.hidden_size).double(), 0.0, []
        start = clock[0]
        for tick in range(ticks):
            u = x[clock[0]] if level == 0 else summaries[level - 1]
            inputs.append(u)
            recurrent = context @ cell.weight_context.t() if tick == 0 and context is not None else h @ cell.weight_hidden.t()
            h = torch.tanh(u @ cell.weight_input.t() + cell.bias + recurrent)
            if level == 0:
                total = total + share * loss(h[None], y[clock[0]][None]).sum()
                clock[0] += 1
            else:
                leaf = h.detach().requires_grad_()
                total = total + (h * segment(level - 1, model.periods[level - 1], leaf)).sum()
        if level < top:
            decoder = model.decoders[level]
            index = torch.arange(1, ticks + 1)[:, None].expand(-1, BATCH)
            values = decoder.loss(h, index, torch.stack(inputs[::-1]), ticks)
            total = total + betas[level] * share * (clock[0] - start) * values.sum()
        wanted = owners[level] + ([] if context is None else [context])
        found = torch.autograd.grad(total, wanted, allow_unused=True)
        for p, g in zip(owners[level], found, strict=False):
            if g is not None:
                held[level][p] += g
        segments[level] += 1
        if every[level] is not None and segments[level] >= every[level]:
            move(level)
        summaries[level] = h.detach()
        return None if context is None else found[-1]

    ticks = STEPS
    for period in model.periods:
        ticks //= period
    segment(top, ticks, None)
    for level in range(top + 1):
        if segments[level]:
            move(level)


@pytest.mark.parametrize(("sizes", "periods"), [([3, 4], [4]), ([3, 4, 5], [2, 3])])
@pytest.mark.parametrize("often", [1, 2, 5])
def test_fixed_periods_equal_a_loop_over_segments_by_hand(sizes, periods, often):
    model, head, x, y, _ = problem(sizes, periods, indices="all")
    other, other_head = copy.deepcopy(model), copy.deepcopy(head)
    betas, every = [0.7] * len(periods), [often] * len(sizes)
    updates = hrnn.Updates(model, sgd, heads=head.parameters(), every=every)
    hrnn.Restricted().backward(model, x, y, loss=make_loss(head), betas=betas, updates=updates)
    literal_fixed(other, other_head, x, y, betas, every)
    segments = STEPS // periods[0]
    assert updates.moves[0] == -(-segments // often)
    for mine, theirs in zip(
        [*model.parameters(), *head.parameters()], [*other.parameters(), *other_head.parameters()], strict=True
    ):
        assert float((mine - theirs).detach().abs().max()) < 1e-12


def literal_given(model, head, x, y, boundaries, rounds):
    """Row by row and step by step, every tick with the weights of its time, one graph; Elman cells, no decoders."""
    loss, top, share = make_loss(head), len(model.cells) - 1, 1 / (STEPS * BATCH)

    def leaf(tensors):
        return {name: value.detach().clone().requires_grad_() for name, value in tensors.items()}

    versions = [[leaf(dict(cell.named_parameters()))] for cell in model.cells]
    heads = [leaf(dict(head.named_parameters()))]
    open_losses = [[[] for _ in range(BATCH)] for _ in range(top + 1)]
    completed: list[list[Tensor]] = [[] for _ in range(top + 1)]
    states = [[torch.zeros(n).double() for _ in range(BATCH)] for n in model.hidden_sizes]
    since, fresh = [0] * (top + 1), []

    def stepped(kind, total, scale):
        """The newest of these versions, moved by the gradient of all of them."""
        sums = {name: torch.zeros_like(value) for name, value in kind[-1].items()}
        for version in kind:
            found = torch.autograd.grad(total, list(version.values()), retain_graph=True, allow_unused=True)
            for name, gradient in zip(version, found, strict=True):
                if gradient is not None:
                    sums[name] += gradient
        return leaf({name: value - scale * sums[name] for name, value in kind[-1].items()})

    def move(level, step):
        if not completed[level]:
            return
        scale = RATE / (share * BATCH * (step - since[level]))
        if level == 0:  # the head's gradient is known with the loss, whether or not the segment is over
            heads.append(stepped(heads[-1:], sum(fresh), scale))
            fresh.clear()
        versions[level].append(stepped(versions[level], sum(completed[level]), scale))
        completed[level], since[level] = [], step

    for step in range(STEPS):
        if step and step % rounds == 0:
            for level in range(top):
                move(level, step)
        for row in range(BATCH):
            ticks = [True] + [bool(boundaries[step, row, level]) for level in range(top)]
            for level in range(top, -1, -1):
                if not ticks[level]:
                    continue
                w = versions[level][-1]
                starts = level < top and ticks[level + 1]
                u = x[step, row] if level == 0 else states[level - 1][row].detach()
                pre = w["weight_input"] @ u + w["bias"]
                pre = pre + (
                    w["weight_context"] @ states[level + 1][row] if starts else w["weight_hidden"] @ states[level][row]
                )
                if starts:
                    completed[level] += open_losses[level][row]
                    open_losses[level][row] = []
                states[level][row] = torch.tanh(pre)
            value = share * (heads[-1]["weight"] @ states[0][row] + heads[-1]["bias"] - y[step, row]).square().sum()
            fresh.append(value)
            for level in range(top + 1):
                open_losses[level][row].append(value)
    for level in range(top + 1):
        completed[level] += [value for row in open_losses[level] for value in row]
        move(level, STEPS)
    return [v for kind in versions for v in kind[-1].values()] + list(heads[-1].values()), loss


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("cell", ["rnn", "own"])
def test_given_boundaries_equal_a_loop_by_hand_in_which_every_tick_has_the_weights_of_its_time(levels, cell):
    sizes, rounds = [3, 4, 5][:levels], 12 if levels == 3 else 7
    model, head, x, y, boundaries = problem(sizes, [hrnn.Given(3)] * (levels - 1), decoders=False)
    expected, _ = literal_given(model, head, x, y, boundaries, rounds)
    if cell == "own":
        builtin = model
        model = hrnn.HRNN(2, sizes, [hrnn.Given(3)] * (levels - 1), cell=Elman, decoders=False).double()
        with torch.no_grad():
            for mine, theirs in zip(model.cells, builtin.cells, strict=True):
                parts = [w for w in (theirs.weight_input, theirs.weight_context) if w is not None]
                mine.module.inner.weight.copy_(torch.cat(parts, 1))
                mine.module.inner.bias.copy_(theirs.bias)
                mine.module.hidden.weight.copy_(theirs.weight_hidden)
    updates = hrnn.Updates(model, sgd, heads=head.parameters())
    hrnn.Restricted(round_steps=rounds).backward(model, x, y, loss=make_loss(head), boundaries=boundaries, updates=updates)
    assert updates.moves[0] == -(-STEPS // rounds)
    assert updates.moves[-1] == 1
    if cell == "own":
        got = []
        for own, old in zip(model.cells, builtin.cells, strict=True):
            entering = own.module.inner.weight
            got.append(entering[:, : old.input_size])
            got += [entering[:, old.input_size :]] if old.weight_context is not None else []
            got += [own.module.hidden.weight, own.module.inner.bias]
    else:
        got = list(model.parameters())
    for mine, theirs in zip([*got, *head.parameters()], expected, strict=True):
        assert float((mine - theirs).detach().abs().max()) < 1e-12


def test_a_parameter_without_gradient_does_not_move():
    model, head, x, y, _ = problem([3, 4], [4])
    mask = torch.zeros(STEPS, BATCH, dtype=torch.bool)
    mask[-1] = True
    updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=0.1), heads=head.parameters())
    updates.after = lambda level, optimizer: seen.append((level, len(optimizer.state)))
    seen: list = []
    hrnn.Restricted().backward(model, x, y, loss=make_loss(head), mask=mask, updates=updates)
    # Six segments, but a loss in the last only: the lowest level moves once, then the top; decoders have no state.
    assert seen == [(0, 6), (1, 3)]
    assert updates.moves == [1, 1]


def test_a_parameter_of_no_optimizer_keeps_its_gradient():
    """A user's optimizers may leave parameters out; at the window's end those have the gradient of the window."""
    gradients = []
    for unlocked in (False, True):
        model, head, x, y, _ = problem([3, 4], [4])
        cells = [[p for name, p in cell.named_parameters() if name != "weight_hidden"] for cell in model.cells]
        updates = hrnn.Updates(model, [sgd(some) for some in cells], every=None) if unlocked else None
        hrnn.Restricted().backward(model, x, y, loss=make_loss(head), betas=[0.5], updates=updates)
        gradients.append([cell.weight_hidden.grad for cell in model.cells])
    for locked, kept in zip(*gradients, strict=True):
        assert locked.abs().max() > 0
        assert torch.equal(locked, kept)


def test_clipping_and_a_schedule_work_for_each_level():
    model, head, x, y, _ = problem([3, 4], [4])
    before = [p.detach().clone() for p in model.cells[0].parameters()]
    optimizers = [torch.optim.SGD([*model.cells[0].parameters(), *head.parameters()], lr=1.0), sgd]
    updates = hrnn.Updates(model, optimizers, heads=head.parameters(), clip=[1e-3, None], every=[3, 1])
    schedule = torch.optim.lr_scheduler.StepLR(updates.optimizers[0], step_size=1, gamma=0.5)
    updates.after = lambda level, optimizer: schedule.step() if level == 0 else None
    hrnn.Restricted().backward(model, x, y, loss=make_loss(head), updates=updates)
    assert updates.moves == [2, 1]
    assert updates.optimizers[0].param_groups[0]["lr"] == 0.25
    moved = torch.stack([(a - b).norm() for a, b in zip(model.cells[0].parameters(), before, strict=True)]).norm()
    assert 0 < float(moved.detach()) <= 1.5e-3  # at rate 1 and then 0.5


def test_updates_within_a_streamed_window():
    results = []
    for streamed in (False, True):
        model, head, x, y, _ = problem([3, 4], [4])
        updates = hrnn.Updates(model, sgd, heads=head.parameters())
        window = [hrnn.Chunk(x[a : a + 5], y[a : a + 5]) for a in range(0, STEPS, 5)] if streamed else x
        share = 1 / (STEPS * BATCH)
        hrnn.Restricted().backward(
            model, window, None if streamed else y, loss=make_loss(head), updates=updates, weight=share, local_weight=share
        )
        results.append([p.detach().clone() for p in model.parameters()])
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)


def test_a_level_waits_for_a_segment_that_began_before_its_last_move():
    results = []
    for rounds, cuts in ((4, [STEPS]), (STEPS, [4, STEPS])):  # rounds of 4 that wait; one of 4 and one of all the rest
        model, head, x, y, boundaries = problem([3, 4], [hrnn.Given(3)])
        boundaries[1:] = False
        boundaries[:, 0] = torch.arange(STEPS)[:, None] % 2 == 0  # one row completes segments, so that the level moves
        updates = hrnn.Updates(model, sgd, every=[1, None])  # the head is not moved: it need not wait
        chunks = [hrnn.Chunk(x[a:b], y[a:b], boundaries=boundaries[a:b]) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
        share = 1 / (STEPS * BATCH)
        hrnn.Restricted(round_steps=rounds).backward(
            model, chunks, loss=make_loss(head), updates=updates, weight=share, local_weight=share
        )
        assert updates.moves == [2, 1]
        results.append([p.detach().clone() for p in model.parameters()])
    for waited, together in zip(*results, strict=True):
        torch.testing.assert_close(waited, together, rtol=0, atol=1e-12)


def test_bad_input():
    model, head, x, y, boundaries = problem([3, 4], [hrnn.Given(3)])
    updates = hrnn.Updates(model, sgd, heads=head.parameters())
    with pytest.raises(ValueError, match=r"updates were given to Full.*hrnn\.Restricted"):
        hrnn.Full().backward(model, x, y, loss=make_loss(head), boundaries=boundaries, updates=updates)
    with pytest.raises(ValueError, match="every has 3 entries for 2 levels"):
        hrnn.Updates(model, sgd, every=[1, 1, 1])
    with pytest.raises(ValueError, match="every is 0"):
        hrnn.Updates(model, sgd, every=0)
    with pytest.raises(ValueError, match="optimizers has 1 entries for 2 levels"):
        hrnn.Updates(model, [sgd])
    chunk = hrnn.Chunk(x, y, boundaries=boundaries)
    with pytest.raises(ValueError, match="local_weight is needed"):
        hrnn.Restricted().backward(model, [chunk], loss=make_loss(head), updates=updates, weight=1.0)


@pytest.mark.parametrize("kind", ["builtin", "own"])
def test_a_row_past_its_length_holds_nobody_back(kind):
    """Its last segment is complete, wherever it ended, with one tensor or with chunks."""
    moves, states = [], []
    for lengths in ([24, 24, 24], [4, 24, 24], [3, 24, 24], [0, 24, 11]):
        for cuts in ([0, STEPS], [0, 5, 9, STEPS]):
            model, head, x, y, _ = problem([3, 4, 5], [4, 3], "rnn" if kind == "builtin" else Elman)
            updates = hrnn.Updates(model, sgd, heads=head.parameters())
            rows = torch.tensor(lengths)
            chunks = [hrnn.Chunk(x[a:b], y[a:b], lengths=(rows - a).clamp(0, b - a)) for a, b in pairwise(cuts)]
            share = 1 / (STEPS * BATCH)
            result = hrnn.Restricted().backward(
                model, chunks, loss=make_loss(head), betas=[0.5, 0.5], weight=share, local_weight=share, updates=updates
            )
            if len(cuts) == 2 or lengths[0] == 24:
                moves.append(updates.moves)
            states.append(result.state)
    assert moves == [[6, 2, 1]] * len(moves)
    assert states[4].clock.position.tolist() == [[3, 1], [0, 0], [0, 0]]
    with pytest.raises(ValueError, match="lengths let row 0 go on in a chunk after the one that it ended in"):
        hrnn.Restricted().backward(
            model,
            [hrnn.Chunk(x[:5], y[:5], lengths=[3, 5, 5]), hrnn.Chunk(x[5:], y[5:])],
            loss=make_loss(head),
            weight=share,
            local_weight=share,
            updates=updates,
        )


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_cell_of_the_users_counts_its_own_segments_as_a_built_in_one_does(every):
    moves = []
    for cell in ("rnn", Elman):
        model, head, x, y, _ = problem([3, 4, 5], [3, 2], cell)
        updates = hrnn.Updates(model, sgd, heads=head.parameters(), every=every)
        state = None
        for a, b in ((0, 11), (11, STEPS)):  # cut in mid-segment
            result = hrnn.Restricted().backward(model, x[a:b], y[a:b], loss=make_loss(head), updates=updates, state=state)
            state = result.state
        moves.append(updates.moves)
    assert moves[0] == moves[1]
