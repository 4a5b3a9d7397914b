"""Batches are learned: backward over their windows, and the weights move."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hrnn.errors import DivergedError
from hrnn.gradients import Result
from hrnn.gradients.updates import NotFiniteError
from hrnn.tasks import Batch, Window
from hrnn.training.evaluation import Sums, rows_left, said, score, task_gives_boundaries
from hrnn.training.methods import enough_memory
from hrnn.training.network import learning_rate
from hrnn.training.run import Run


def updates(run: Run) -> Iterator[Sums]:
    """The run's updates from where it is, without end; of each what was summed on the way, in all processes."""
    while True:
        with run.spending("data"):
            batch = run.course.batch(run.position.batches)
        yield from learn(run, batch)


def learn(run: Run, batch: Batch) -> Iterator[Sums]:
    """What is left of a batch is learned: one update for all of its windows, or one for each, or many within each."""
    position, per_batch = run.position, run.config.learning.update == "batch"
    if not position.windows:
        run.aims = run.task.aims(batch, lambda: said(run.network, batch))
        run.state = None if batch.fresh else run.state
    windows = batch.windows if run.aims is None else run.task.aimed(batch, run.aims).windows
    of_batch, mine, last = counted(run, windows) if per_batch else None, Sums(), len(windows) - 1
    for number in range(position.windows, last + 1):
        with own_random_numbers(run, number):
            mine.add(backward(run, windows[number], of_batch))
        if per_batch and number < last:
            continue
        sums, mine = move(run, mine), Sums()
        if number < last:
            position.windows, position.of_windows = number + 1, last + 1
        else:
            position.batches, position.windows, run.aims = position.batches + 1, 0, None
            run.state = None if batch.whole else run.state
        yield sums


@contextmanager
def own_random_numbers(run: Run, window: int) -> Iterator[None]:
    """A user's cell may drop out: with numbers of the seed, the batch, the window and the process, so that a run that is
    resumed has the same, and the caller's are left alone."""
    words = f"{run.config.upkeep.seed} {run.position.batches} {window} {run.group.rank}"
    seed = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest()) >> 1
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also leave word for devices, which takes longer
        yield


def backward(run: Run, window: Window, of_batch: tuple[int, int] | None) -> Sums:
    """One window; returns what this process summed. of_batch: targets and places of all windows that make one update with it.
    Weights are those of all processes: sums over them are then the gradient of the whole batch."""
    targets, places = of_batch or counted(run, [window])
    begins, state = run.state is None, rows_left(run.state or run.fresh_state(), window)
    sums = Sums()
    set_rate(run)
    if run.frozen_due:  # the loss of learning is optimistic, as levels adapt to the rows on the way; this one, of the weights
        # that learn, not of their average, is not
        _, sums.frozen, _ = score(run.network, run.task, window, state)
    with enough_memory(run.config.model.gradient), overflow_is_divergence(run):  # where levels move by themselves
        result = run.gradient.backward(
            run.network.levels,
            window.x,
            window.y,
            loss=lambda output, target: run.task.loss(run.network(output), target),
            betas=run.config.betas,
            state=state,
            mask=window.mask,
            boundaries=window.boundaries if task_gives_boundaries(run.network) else None,
            lengths=window.lengths,
            reset=resets(window, begins),
            weight=1 / max(1, targets),
            local_weight=1 / max(1, places),
            generator=run.indices,
            updates=run.updates,
            group=run.group,
        )
    run.begun(result.engine)
    run.state = result.state
    sums.add(learned(run, result))
    return sums


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
    """An optimizer may multiply its rate beyond the numbers that the weights have; a level may be about to move by a gradient
    that is not finite."""
    try:
        yield
    except NotFiniteError as error:
        raise DivergedError(f"{str(error).partition(',')[0]} at update {run.position.updates + 1}") from None
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
