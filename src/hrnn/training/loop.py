"""The training loop: task -> gradient -> optimizer -> journal, until the run is over or stopped."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import hrnn.training.folder as folders
from hrnn import trackers
from hrnn.errors import UserError
from hrnn.parallel import ALONE, Group
from hrnn.resident import peak_of_process
from hrnn.tasks import Decision, Judge
from hrnn.torchrun import launched
from hrnn.trackers import Tracker
from hrnn.training.config import Budget, Config, resolved, to_json
from hrnn.training.display import Display
from hrnn.training.evaluation import Sums, evaluate, recovered_of, values_of
from hrnn.training.identity import Trust
from hrnn.training.learning import updates
from hrnn.training.network import Network
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
        run.scoring, run.note = display.scoring, display.note
        with closing(run.journal), display.showing(run):
            made = updates(run)
            while not run.over:
                *reasons, due = group.any(*stop.reasons, run.checkpoint_due)
                if reason := why(*reasons):
                    break
                if due:
                    save(run)
                after_update(run, next(made))
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


def after_update(run: Run, sums: Sums) -> None:
    """The journal, what the course decides at the end of a batch, validation, a checkpoint of what is worth one."""
    position, status, decision = run.position, run.course.status, Decision()  # of what was learned; the course may go on
    position.since_record.add(sums)
    position.of_batch.add(sums)
    if not position.windows:
        report, position.of_batch = position.of_batch.report(run.task), Sums()
        decision = run.course.after_update(
            position.updates, report, lambda batch: values_of(run.tested, run.task, batch, run.group)
        )
    if position.updates % run.config.upkeep.journal_every == 0 or decision.records:
        record_updates(run, status)
    for record in decision.records:
        run.journal.record(record)
    if decision.back_to is not None:
        return_to(run, decision.back_to)
    improved = run.validation_due and validate(run)
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
