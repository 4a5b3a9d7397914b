"""The training loop: task -> gradient -> optimizer -> journal, until the run is over or stopped."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import hrnn.training.folder as folders
import hrnn.training.network as networks
from hrnn.errors import DivergedError, UserError
from hrnn.parallel import ALONE, Group
from hrnn.state import State
from hrnn.tasks import Batch, Window
from hrnn.torchrun import launched
from hrnn.training.config import Config, from_json, reading, resolved, to_json
from hrnn.training.display import Display
from hrnn.training.evaluation import FROZEN, Tally, evaluate, score, sums_of, task_gives_boundaries, values_of
from hrnn.training.files import remove_partial
from hrnn.training.opening import open_run, write_changes
from hrnn.training.optimizer import learning_rate
from hrnn.training.run import Run
from hrnn.training.sizes import require_room
from hrnn.training.stop import Stop, why


@dataclass(frozen=True)
class Outcome:
    """How `train` ended: stopped ("interrupted", "terminated" or "time limit", to be resumed), or with a result."""

    stopped: str | None
    result: dict[str, Any] | None


def start(config: Config[Any], folder: Path, *, overwrite: bool = False, group: Group = ALONE, **options: Any) -> Outcome:
    """A new run in a folder; one that the same job began before torchrun started it again goes on. Options as for `train`."""
    group.rows(config.learning.batch)  # whether it can be shared out, before any data are read
    with group.local_rank_zero_first():  # data may have to be fetched
        config = resolved(config)
        check(config, group)
    group.check_same_options({"run": str(folder), **to_json(config)})
    if group.first and not folders.begun_here(folder, config):
        folders.create(folder, config, overwrite)
    return train(folder, config, group=group, **options)


def check(config: Config[Any], group: Group = ALONE) -> None:
    """Find mistakes in options and data now, not when the first validation comes, and before there is a folder."""
    require_room(config, group)
    networks.build(config)
    task, budget, read = config.task, config.budget, reading(config, networks.unrolled(config), group)
    per_epoch = task.batches_per_epoch(read)
    if per_epoch is None and budget.epochs is not None:
        raise UserError("--epochs is for tasks whose data end; give --updates or --sequences")
    if (budget.validate_every or budget.stop_after) and "validation" not in task.parts():
        raise UserError("--validate-every and --stop-after are for tasks with a validation part; this one has none")
    if budget.stop_after and not (budget.validate_every or per_epoch):
        raise UserError("--stop-after counts validations; give --validate-every, too")
    task.batch(0, read)
    for part in task.parts():
        next(iter(task.evaluation(part, read)))


def train(
    folder: Path,
    config: Config[Any] | None = None,
    *,
    group: Group = ALONE,
    minutes: float | None = None,
    display: Display | None = None,
    **options: Any,
) -> Outcome:
    """Begin or continue the run of a folder. The time limit is no part of the run: it only stops it for now.

    config:  what the folder holds, where the caller has it already, with its data
    group:   the processes that train it together; only the first one needs the folder
    options: trust, budget and accept_changed_data, as `open_run` has them
    """
    display, reason = display or Display(), None
    with folders.locked(folder) if group.first else nullcontext(), Stop(minutes, launched()) as stop:
        run = begin(folder, config, group, options)
        run.scoring = display.scoring
        with display.showing(run):
            while not run.over:
                *reasons, due = group.any(stop.interrupted, stop.terminated, stop.late, run.checkpoint_due)
                if reason := why(*reasons):
                    break
                if due:
                    run.save()
                before = run.position.updates
                sums = learn(run, run.course.batch(run.position.batches))
                run.position.batches += 1
                after_batch(run, before, sums)
                display.show(run)
            run.save()
            try:
                with nullcontext() if reason else stop.at_once():
                    result = None if reason else finish(run)
            except KeyboardInterrupt:  # the checkpoint has everything but the final test
                if stop.reason is None:
                    raise
                result, reason = None, stop.reason
        run.journal.close()
        return Outcome(reason, result)


def begin(folder: Path, config: Config[Any] | None, group: Group, options: dict[str, Any]) -> Run:
    """The run, where its newest checkpoint was; nothing is written before all of it has been read and fits."""
    known = config
    opened = open_run(folder, config=config, **options) if group.first else None
    if opened is not None:
        config = opened.config
        if opened.extended:
            check(config, group)
    if known is None and group.size > 1:
        content = group.broadcast(json.dumps(to_json(config)).encode() if config is not None else None)
        config = config or from_json(json.loads(content))
    assert config is not None
    require_room(config, group)
    run = Run(config, folder, group, opened.identity if opened else None)
    records = opened.records if opened is not None else []
    if opened is not None:
        run.warnings += opened.warnings
        for place in (folder, folder / folders.CHECKPOINTS):
            remove_partial(place)
        if not records:
            write_changes(folder, opened)
    run.open_journal()
    for record in records:
        run.journal.record({**record, "update": run.position.updates})
    if records or not run.resumed:
        run.save()  # so that it is known from now on; and before the first update: a run always has a checkpoint
    if opened is not None and records:  # last, or a crash in between would have let them be forgotten
        write_changes(folder, opened)
    return run


def learn(run: Run, batch: Batch) -> Tally:
    """Backward over the windows of a batch, one update for all or for each, or many within each; returns what was summed on
    the way, in all processes. Weights are those of the whole batch: sums over processes are then its gradient."""
    tally, mine, per_batch = Tally(), Tally(), run.config.learning.update == "batch"
    state, reset = None if batch.fresh else run.state, None
    if state is None:
        state, reset = run.fresh_state(), torch.ones(batch.rows, dtype=torch.bool)
    given, rows = task_gives_boundaries(run.network), batch.rows * run.group.size
    targets = run.group.all_reduce(torch.tensor([window.targets for window in batch.windows])).tolist()
    for window, here in zip(batch.windows, targets, strict=True):
        counted, steps = (sum(targets), batch.steps) if per_batch else (here, window.steps)
        weight, local_weight = 1 / max(1, counted), 1 / (steps * rows)
        set_rate(run)
        if run.frozen_due:
            mine.add(**frozen(run, window, state))
        result = run.gradient.backward(
            run.network.levels,
            window.x,
            window.y,
            loss=lambda output, target: run.task.loss(run.network(output), target),
            betas=run.config.betas,
            state=state,
            mask=window.mask,
            boundaries=window.boundaries if given else None,
            reset=reset,
            weight=weight,
            local_weight=local_weight,
            generator=run.indices,
            updates=run.updates,
        )
        state, reset = result.state, None
        mine.add(loss=float(result.loss) / weight, _targets=window.targets, _places=window.steps * batch.rows)
        mine.add(**{name: float(value) for name, value in result.metrics.items()})
        for level, beta in enumerate(run.config.betas):
            if beta:  # otherwise it is not computed
                mine.add(**{f"_local{level}": float(result.local_losses[level]) / local_weight})
        if not per_batch:
            move(run, mine, tally)
    if per_batch:
        move(run, mine, tally)
    run.state = state
    return tally


def frozen(run: Run, window: Window, state: State) -> dict[str, float]:
    """Sums of a window that is yet to be learned. Where levels move within it the loss of learning is optimistic, as they
    adapt to its rows on the way; this one is not. It leaves no trace in the run but a number in the journal."""
    with torch.random.fork_rng(devices=[]):  # a user's cell may draw
        values, metrics, _ = score(run.network, run.task, window, state)
    return {f"{FROZEN}{name}": value for name, value in sums_of(values, metrics).items()}


def move(run: Run, mine: Tally, tally: Tally) -> None:
    """One update, unless the loss is no number: then the weights stay as they are. What this process summed since the last
    one is added up over all of them, and starts again."""
    tally.add(**run.group.all_reduce_numbers(mine.sums))
    mine.sums.clear()
    if not math.isfinite(sum(value for name, value in tally.sums.items() if not name.startswith(FROZEN))):
        raise DivergedError(f"the loss is {tally.sums['loss']} at update {run.position.updates + 1}")
    if run.updates is not None:  # the levels have moved by themselves
        run.position.moves = list(run.updates.moves)
    else:
        run.group.all_reduce_gradients(run.network.parameters())
        if run.config.learning.clip is not None:
            torch.nn.utils.clip_grad_norm_(run.network.parameters(), run.config.learning.clip)
        (optimizer,) = run.optimizers
        optimizer.step()
        optimizer.zero_grad()
    run.position.updates += 1


def set_rate(run: Run) -> None:
    """The learning rate of the next update, for every level."""
    rate = learning_rate(run.config.learning, run.position.updates, run.done)
    for optimizer in run.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def after_batch(run: Run, before: int, sums: Tally) -> None:
    """After a batch: what the course decides, the journal, validation, a checkpoint of what is worth one."""
    position, budget, upkeep = run.position, run.config.budget, run.config.upkeep
    running = Tally(position.since_record)
    running.add(**sums.sums)
    position.since_record = running.sums
    status = run.course.status  # of what was learned just now; the course may go on to something else
    decision = run.course.after_update(
        position.updates, sums.report(run.task), lambda batch: values_of(run.network, run.task, batch, run.group)
    )
    if run.passed(upkeep.journal_every, before) or decision.records:
        record_updates(run, status)
    for record in decision.records:
        run.journal.record(record)
    if decision.back_to is not None:
        run.back_to(decision.back_to)
    if budget.validate_every:
        due = run.passed(budget.validate_every, before)
    else:
        due = run.per_epoch is not None and position.batches % run.per_epoch == 0
    improved = due and validate(run)
    if decision.keep or improved:
        run.save()


def record_updates(run: Run, status: dict[str, Any]) -> None:
    """What was learned since the last such record."""
    run.latest = run.report()
    record = {"kind": "update", "update": run.position.updates, "sequences": run.sequences, **status, **run.latest}
    if run.updates is not None:
        record |= {**run.frozen_report(), "moves": run.position.moves}
    rate = run.optimizers[0].param_groups[0]["lr"]
    run.journal.record({**record, "learning_rate": rate, **run.times()})
    run.position.since_record = {}


def validate(run: Run) -> bool:
    """Score the validation part; is it the best so far?"""
    if "validation" not in run.task.parts():
        return False
    batches = run.scoring("validation", run.task.evaluation("validation", run.reading))
    report = evaluate(run.network, run.task, batches, run.group)
    value, position = report[run.task.score.name], run.position
    better = position.best is None or run.task.score.better(value, position.best)
    if better:
        position.best, position.best_at, position.without_gain = value, position.updates, 0
    else:
        position.without_gain += 1
    run.journal.record(
        {"kind": "validation", "update": position.updates, "sequences": run.sequences, **report}
        | {"best": better, **run.times()}
    )
    return better


def finish(run: Run) -> dict[str, Any]:
    """The test, once, with the best weights (the last where nothing was validated), and the run's result."""
    position = run.position
    if position.since_record:
        record_updates(run, run.course.status)
    result: dict[str, Any] = {
        "reason": run.over,
        "updates": position.updates,
        "sequences": run.sequences,
        **run.course.outcome,
    }
    if position.best_at is not None:
        result["validation"] = {run.task.score.name: position.best, "update": position.best_at}
        run.network.load_state_dict(run.checkpoint_of(position.best_at).section("network"))
    if "test" in run.task.parts():
        batches = run.scoring("test", run.task.evaluation("test", run.reading))
        result["test"] = evaluate(run.network, run.task, batches, run.group)
        run.journal.record({"kind": "test", "update": position.best_at or position.updates, **result["test"]})
    result.update(run.times())
    run.journal.record({"kind": "end", "update": position.updates, **{k: v for k, v in result.items() if k != "test"}})
    run.journal.sync()
    if run.group.first:
        folders.write_result(run.folder, result)
    return result
