"""Levels that move within a window where rows part, against a loop written by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hrnn
from tests.gradients.moving import BATCH, RATE, STEPS, Elman, make_loss, problem, sgd

pytestmark = pytest.mark.usefixtures("engine")


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
