"""The training loop: task -> gradient -> optimizer -> journal, until the run is over or stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hrnn.training.folder as folders
from hrnn import trackers
from hrnn.errors import DivergedError, UserError
from hrnn.gradients import Result
from hrnn.parallel import ALONE, Group
from hrnn.resident import peak_of_process
from hrnn.tasks import Batch, Judge, Window
from hrnn.torchrun import launched
from hrnn.trackers import Tracker
from hrnn.training.config import Budget, Config, resolved, to_json
from hrnn.training.display import Display
from hrnn.training.evaluation import Sums, evaluate, recovered_of, rows_left, said, score, task_gives_boundaries, values_of
from hrnn.training.identity import Trust
from hrnn.training.methods import enough_memory
from hrnn.training.network import Network, learning_rate
from hrnn.training.records import Ended, Tested, Updates, Validated, recordable
from hrnn.training.run import Run
from hrnn.training.saving import begin, checkpoint_of, return_to, save
from hrnn.training.sizes import check
from hrnn.training.stop import Stop, why


@dataclass(frozen=True)
class Outcome:
    """How `train` ended: stopped ("interrupted", "terminated" or "time limit", to be resumed), or with a result."""

    stopped: str | None
    result: dict[str, Any] | None


def start(
    config: Config[Any],
    folder: Path,
    *,
    overwrite: bool = False,
    group: Group = ALONE,
    minutes: float | None = None,
    display: Display | None = None,
    tracker: Tracker | None = None,
) -> Outcome:
    """A new run in a folder; one that the same job began before torchrun started it again goes on."""
    trackers.require(config.upkeep.tracker)
    if config.learning.batch is not None:
        group.rows(config.learning.batch)  # whether it can be shared out, before any data are read
    with group.local_rank_zero_first():  # data may have to be fetched
        config = resolved(replace(config, task=config.task.placed(folder)))
        network = check(config, group)
    group.check_same_options({"run": str(folder), **to_json(config)})
    if group.first and not folders.begun_here(folder, config):
        folders.create(folder, config, overwrite)
    if display is not None:
        display.announce(config)
    return train(folder, config, network=network, group=group, minutes=minutes, display=display, tracker=tracker)


def train(
    folder: Path,
    config: Config[Any] | None = None,
    *,
    network: Network | None = None,
    trust: Trust | None = None,
    budget: Budget | None = None,
    accept_changed_data: bool = False,
    verify: bool = False,
    group: Group = ALONE,
    minutes: float | None = None,
    display: Display | None = None,
    tracker: Tracker | None = None,
) -> Outcome:
    """Begin or continue the run of a folder. The time limit is no part of the run: it only stops it for now.

    config:  what the folder holds, where the caller has it already, with its data; and the network that it describes
    trust, budget, accept_changed_data, verify: as `begin` has them
    group:   the processes that train it together; only the first one needs the folder
    tracker: whom the journal's numbers are told, too, instead of one that the configuration names: see hrnn.trackers
    """
    display, reason = display or Display(), None
    with folders.locked(folder) if group.first else nullcontext(), Stop(minutes, launched()) as stop:
        run = begin(folder, group, config, network, trust, budget, accept_changed_data, verify, tracker)
        run.scoring = display.scoring
        with closing(run.journal), display.showing(run):
            while not run.over:
                *reasons, due = group.any(*stop.reasons, run.checkpoint_due)
                if reason := why(*reasons):
                    break
                if due:
                    save(run)
                before = run.position.updates
                with run.spending("data"):
                    batch = run.course.batch(run.position.batches)
                with own_random_numbers(run):
                    sums = learn(run, batch)
                run.position.batches += 1
                after_batch(run, before, sums)
                display.show(run)
            if reason is None and run.position.validated_at != run.position.updates:
                validate(run)  # so that the weights that are tested may be the last ones
            save(run)
            try:
                with nullcontext() if reason else stop.at_once():
                    result = None if reason else finish(run)
            except KeyboardInterrupt:  # the checkpoint has everything but the final test
                if stop.reason is None:
                    raise
                result, reason = None, stop.reason
        return Outcome(reason, result)


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


def after_batch(run: Run, before: int, sums: Sums) -> None:
    """What the course decides, the journal, validation, a checkpoint of what is worth one."""
    position, every = run.position, run.config.budget.validate_every
    position.since_record.add(sums)
    status = run.course.status  # of what was learned just now; the course may go on to something else
    decision = run.course.after_update(
        position.updates, sums.report(run.task), lambda batch: values_of(run.tested, run.task, batch, run.group)
    )
    if run.passed(run.config.upkeep.journal_every, before) or decision.records:
        record_updates(run, status)
    for record in decision.records:
        run.journal.record(record)
    if decision.back_to is not None:
        return_to(run, decision.back_to)
    improved = (run.passed(every, before) if every else run.validation_due) and validate(run)
    if decision.keep or improved:
        save(run)


def record_updates(run: Run, status: dict[str, Any]) -> None:
    """What was learned since the last such record."""
    sums = run.position.since_record
    run.latest = run.report()
    record = Updates(
        update=run.position.updates,
        sequences=run.sequences,
        status=status,
        report=sums.report(run.task),
        local_losses=sums.local_losses(run.config.betas),
        frozen={f"frozen_{name}": value for name, value in (sums.frozen or Sums()).report(run.task).items()},
        moves=None if run.updates is None else run.position.moves,
        learning_rate=run.optimizers[0].param_groups[0]["lr"],
        times=run.times(),
    )
    run.journal.record(record)
    run.position.since_record = Sums()


def validate(run: Run) -> bool:
    """Score the validation part; is it as good as any so far? Of equal ones the later counts: it has learned more, and where
    few sequences are validated on, many are equal."""
    if "validation" not in run.task.parts():
        return False
    position = run.position
    with run.spending("validation"):
        report = evaluated(run, "validation")
    position.validated_at = position.updates
    if (value := report.get(run.task.score.name)) is None:
        raise UserError(f"the task's score is {run.task.score.name}, and it reports {', '.join(report)}; name one of these")
    better = not isnan(value) and (position.best is None or run.task.score.better(value, position.best))
    best = better or value == position.best
    if best:
        position.best, position.best_at = value, position.updates
    position.without_gain = 0 if better else position.without_gain + 1
    recovered = None
    if any(run.config.betas):
        with run.spending("validation"):
            recovered = recovered_of(run.tested, next(iter(run.task.evaluation("validation", run.reading))))
    update, sequences, times = position.updates, run.sequences, run.times(by_part=True)
    run.journal.record(
        Validated(update=update, sequences=sequences, report=report, best=best, recovered=recovered, times=times)
    )
    return best


def evaluated(run: Run, part: str, judge: Judge | None = None) -> dict[str, float]:
    return evaluate(run.tested, run.task, run.scoring(part, run.task.evaluation(part, run.reading)), run.group, judge)


def finish(run: Run) -> dict[str, Any]:
    """The test, once, with the best weights (the last where nothing was validated), and the run's result."""
    position, validation, test = run.position, None, None
    if position.since_record.steps:
        record_updates(run, run.course.status)
    if position.best_at is not None:
        validation = {run.task.score.name: position.best, "update": position.best_at}
        run.tested.load_state_dict(checkpoint_of(run, position.best_at).weights)
    if "test" in run.task.parts():
        judge = run.task.judge()
        with run.spending("test"):
            test = {**evaluated(run, "test", judge), **run.task.baselines("test")}
        details = None if judge is None else recordable(judge.details())
        run.journal.record(Tested(update=position.best_at or position.updates, report=test, details=details))
    ended = Ended(
        update=position.updates,
        reason=run.over or "",
        updates=position.updates,
        sequences=run.sequences,
        outcome=run.course.outcome,
        validation=validation,
        times=run.times(by_part=True),
    )
    run.journal.record(ended)
    run.journal.sync()
    result = ended.result(test, peak_of_process())
    if run.group.first:
        folders.write_result(run.folder, result)
    return result
