"""Levels that move within a window: once is being locked; clipping, schedules, chunks, rows that end."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch

import hrnn
from tests.gradients.moving import BATCH, RATE, STEPS, Elman, make_loss, problem, sgd
from tests.user_cells import MinimalGRU

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


def test_a_parameter_without_gradient_does_not_move():
    model, head, x, y, _ = problem([3, 4], [4])
    mask = torch.zeros(STEPS, BATCH, dtype=torch.bool)
    mask[-1] = True
    updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=0.1), heads=head.parameters())
    updates.after = lambda level, optimizer: seen.append((level, len(optimizer.state)))
    seen: list = []
    hrnn.Restricted().backward(model, x, y, loss=make_loss(head), betas=[0.0], mask=mask, updates=updates)
    # Six segments, but a loss in the last only: the lowest level moves once, then the top; decoders have no state.
    assert seen == [(0, 6), (1, 3)]
    assert updates.moves == [1, 1]


def test_a_parameter_of_no_optimizer_keeps_its_gradient():
    """A user's optimizers may leave parameters out; at the window's end those have the gradient of the window."""
    gradients = []
    for unlocked in (False, True):
        model, head, x, y, _ = problem([3, 4], [4])
        cells = [[p for name, p in cell.named_parameters() if name != "weight_hidden"] for cell in model.cells]
        updates = hrnn.Updates(model, [sgd(some) for some in cells], heads=(), every=None) if unlocked else None
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
        hrnn.Restricted().backward(model, [chunk], loss=make_loss(head), betas=[0.0], updates=updates, weight=1.0)


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


def test_a_loss_may_use_a_levels_own_weights():
    weights = []
    for unlocked in (False, True):
        model, head, x, y, _ = problem([3, 4], [4])
        shared = model.cell(0).weight_hidden

        def loss(output, target, head=head, shared=shared):
            return (head(output)[..., 0] - target).square() + shared.square().sum()

        updates = hrnn.Updates(model, sgd, heads=head.parameters(), every=None) if unlocked else None
        hrnn.Restricted().backward(model, x, y, loss=loss, betas=[0.5], updates=updates)
        if unlocked:
            assert all(parameter.grad is None for parameter in model.parameters())
        else:
            sgd([*model.parameters(), *head.parameters()]).step()
        weights.append(shared.detach().clone())
    torch.testing.assert_close(weights[0], weights[1])


@pytest.mark.parametrize("weights", [{}, {"weight": 0.1, "local_weight": 0.05}])
@pytest.mark.parametrize("sizes", [([3, 4], [4]), ([3, 4, 2], [2, 3])])
def test_ticks_in_phase_and_ticks_by_autograd_move_alike(sizes, weights):
    """A hook that changes nothing sends a level through rounds: what moves, when and by how much stays. Only two segments have
    a target; a level that no loss has reached keeps its place, whatever its optimizer remembers."""
    found = []
    for hooked in (False, True):
        model, head, x, y, _ = problem(*sizes)
        if hooked:
            model.cells[0].register_forward_hook(lambda *_: None)
        updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=0.1), heads=head.parameters(), clip=0.5)
        mask = torch.zeros(STEPS, BATCH, dtype=torch.bool)
        mask[[1, 13]] = True
        options = weights | {"loss": make_loss(head), "betas": [0.0] * len(sizes[1]), "updates": updates}
        hrnn.Restricted().backward(model, x, y, mask=mask, **options)
        found.append((updates.moves, [p.detach().clone() for p in [*model.parameters(), *head.parameters()]]))
    assert found[0][0] == found[1][0] == ([2, 1] if len(sizes[0]) == 2 else [2, 2, 1])
    for mine, theirs in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("every", [1, None])
def test_a_level_that_moves_only_at_the_end_moves_by_the_gradient_of_the_window(every):
    """Whatever the weights of the window are: the caller's, without another factor."""
    model, head, x, y, _ = problem([3, 4], [STEPS])
    other, other_head = copy.deepcopy(model), copy.deepcopy(head)
    weights = {"weight": 0.1, "local_weight": 0.05, "betas": [0.5]}
    hrnn.Restricted().backward(other, x, y, loss=make_loss(other_head), **weights)
    updates = hrnn.Updates(model, sgd, heads=head.parameters(), every=every)
    hrnn.Restricted().backward(model, x, y, loss=make_loss(head), updates=updates, **weights)
    for moved, locked in zip(
        [*model.parameters(), *head.parameters()], [*other.parameters(), *other_head.parameters()], strict=True
    ):
        torch.testing.assert_close(moved, locked - RATE * locked.grad, rtol=0, atol=1e-14)


@pytest.mark.parametrize("output", ["lowest", "all"])
def test_a_row_without_targets_moves_no_level_above(output):
    """Also where the head reads all levels."""
    sizes, (_, _, x, y, _) = [3, 4, 2], problem([3], [])
    model = hrnn.HRNN(x.shape[-1], sizes, [hrnn.Given(3), hrnn.Given(3)], output=output).double()
    head = torch.nn.Linear(model.output_size, 1).double()
    boundaries = torch.zeros(STEPS, BATCH, 2, dtype=torch.bool)
    boundaries[0], boundaries[::4, 0] = True, True
    mask = torch.ones(STEPS, BATCH, dtype=torch.bool)
    mask[:, 0] = False
    updates = hrnn.Updates(model, sgd, heads=head.parameters())
    options = {"loss": make_loss(head), "boundaries": boundaries, "updates": updates, "betas": [0.0, 0.0]}
    hrnn.Restricted(round_steps=4).backward(model, x, y, mask=mask, **options)
    assert updates.moves == [1, 1, 1]
