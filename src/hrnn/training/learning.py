"""A batch is learned: backward over its windows, and the weights move."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hrnn.errors import DivergedError
from hrnn.gradients import Result
from hrnn.tasks import Batch, Window
from hrnn.training.evaluation import Sums, rows_left, said, score, task_gives_boundaries
from hrnn.training.methods import enough_memory
from hrnn.training.network import learning_rate
from hrnn.training.run import Run


@contextmanager
def own_random_numbers(run: Run) -> Iterator[None]:
    """A user's cell may drop out: with numbers of the seed, the batch and the process, so that a run that is resumed has the
    same, and the caller's are left alone."""
    words = f"{run.config.upkeep.seed} {run.position.batches} {run.group.rank}"
    seed = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest()) >> 1
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also leave word for devices, which takes longer
        yield


def learn(run: Run, batch: Batch) -> Sums:
    """Backward over the windows of a batch, one update for all or for each, or many within each; returns what was summed on
    the way, in all processes. Weights are those of the whole batch: sums over processes are then its gradient."""
    total, mine, per_batch = Sums(), Sums(), run.config.learning.update == "batch"
    batch = run.task.aimed(batch, lambda: said(run.network, batch))
    state = None if batch.fresh else run.state
    begins = state is None
    state, given = state or run.fresh_state(), task_gives_boundaries(run.network)
    of_batch = counted(run, batch.windows) if per_batch else None
    for number, window in enumerate(batch.windows, 1):
        targets, places = of_batch or counted(run, [window])
        state = rows_left(state, window)
        set_rate(run)
        if run.frozen_due:  # the loss of learning is optimistic, as levels adapt to the rows on the way; this one, of the
            # weights that learn, not of their average, is not
            _, frozen, _ = score(run.network, run.task, window, state)
            mine.add(Sums(frozen=frozen))
        with enough_memory(run.config.model.gradient), overflow_is_divergence(run):  # where levels move by themselves
            result = run.gradient.backward(
                run.network.levels,
                window.x,
                window.y,
                loss=lambda output, target: run.task.loss(run.network(output), target),
                betas=run.config.betas,
                state=state,
                mask=window.mask,
                boundaries=window.boundaries if given else None,
                lengths=window.lengths,
                reset=resets(window, begins),
                weight=1 / max(1, targets),
                local_weight=1 / max(1, places),
                generator=run.indices,
                updates=run.updates,
                group=run.group,
            )
        state, begins = result.state, False
        mine.add(learned(run, result))
        if not per_batch or number == len(batch.windows):
            total.add(move(run, mine))
            mine = Sums()
    run.state = None if batch.whole else state
    return total


def counted(run: Run, windows: Iterable[Window]) -> tuple[int, int]:
    """Targets and places of windows, in all processes."""
    here = [(window.targets, window.places) for window in windows]
    targets, places = run.group.all_reduce(torch.tensor(here).sum(0)).tolist()
    return targets, places


def resets(window: Window, begins: bool) -> Tensor | None:
    """Where sequences begin in a window; begins: in every row, with its first step."""
    if not begins:
        return window.reset
    first = torch.ones(window.x.shape[1], dtype=torch.bool)
    return first if window.reset is None else torch.cat([first[None], window.reset[1:]])


def learned(run: Run, result: Result) -> Sums:
    """What a window gave; a local loss of weight 0 is not computed."""
    local = {level: float(result.local_sums[level]) for level, beta in enumerate(run.config.betas) if beta}
    metrics = {name: float(value) for name, value in result.metrics.items()}
    return Sums(float(result.loss_sum), result.targets, metrics, local, result.steps)


def move(run: Run, mine: Sums) -> Sums:
    """One update, unless the loss is not a number: then the weights stay as they are. Returns what all processes summed."""
    sums = mine.over(run.group)
    if not sums.finite:
        raise DivergedError(f"the loss is {sums.loss} at update {run.position.updates + 1}")
    if run.updates is not None:  # the levels have moved by themselves
        run.position.moves = list(run.updates.moves)
    else:
        run.group.all_reduce_gradients(run.network.parameters())
        if run.config.learning.clip is not None:
            torch.nn.utils.clip_grad_norm_(run.network.parameters(), run.config.learning.clip)
        (optimizer,) = run.optimizers
        with overflow_is_divergence(run):
            optimizer.step()
        optimizer.zero_grad()
    run.position.updates += 1
    if run.average is not None:
        run.average.add(run.network, run.position.updates)
    return sums


@contextmanager
def overflow_is_divergence(run: Run) -> Iterator[None]:
    """An optimizer may multiply its rate beyond the numbers that the weights have."""
    try:
        yield
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise DivergedError(f"a step is too large for any weight at update {run.position.updates + 1}") from None


def set_rate(run: Run) -> None:
    """The learning rate of the next update, for every level."""
    rate = learning_rate(run.config.learning, run.position.updates, run.done)
    for optimizer in run.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
