"""How a run is begun or opened, goes into a checkpoint and comes back. Only the first of its processes reads and writes the
folder; all of a run is read and checked first, and written only when it fits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hrnn.training.folder as folders
from hrnn.errors import DivergedError, UserError, words_of
from hrnn.files import remove, remove_partial
from hrnn.parallel import Group
from hrnn.state import State
from hrnn.tasks import Task
from hrnn.trackers import Tracked, Tracker
from hrnn.training.checkpoint import AVERAGE, Checkpoint, DamagedError, flatten_optimizer, pack, restore_optimizer, unpack
from hrnn.training.config import Budget, Config, checked, from_json, to_json
from hrnn.training.identity import Difference, Identity, Trust, compare_data, data_of
from hrnn.training.journal import JOURNAL, Journal
from hrnn.training.network import Network
from hrnn.training.records import Began, DataChanged
from hrnn.training.run import Position, Run
from hrnn.training.sizes import check, require_room

REMEDY = "put back copies of its files, or begin again with hrnn train --overwrite"
Lengths = dict[str, int]  # of the journal's files, as a checkpoint noted them


def begin(
    folder: Path,
    group: Group,
    config: Config[Any] | None,
    network: Network | None,
    trust: Trust | None,
    budget: Budget | None,
    accept_changed_data: bool,
    verify: bool = False,
    tracker: Tracker | None = None,
) -> Run:
    """The run, where its newest checkpoint was; nothing is written before all of it has been read and fits.

    config: what the folder holds, where the caller has it already, with its data
    budget: another one, which replaces the old one's updates, sequences and epochs: what it does not say sets no limit
    accept_changed_data: go on although the data are not those that the run began with
    verify: compare the checksums of data also where size and time are those that they had
    tracker: of the user's own, instead of one that the configuration names
    """
    known, stored, identity, difference = config is not None, None, None, Difference()
    if group.first:
        stored = folders.read_run(folder)
        config = config or stored.config(trust)
        if budget is not None:
            kept = {name: getattr(config.budget, name) for name in ("validate_every", "stop_after")}
            config = checked(replace(config, budget=replace(budget, **kept)))
        identity, difference = _with_data(folder, stored.identity, config.task, accept_changed_data, verify)
        if budget is not None:
            network = check(config, group)
    if not known and group.size > 1:
        content = group.broadcast(json.dumps(to_json(config)).encode() if config is not None else None)
        config = config or from_json(json.loads(content))
    assert config is not None
    require_room(config, group)
    run = Run(config, folder, group, identity, network)
    lengths = go_to_newest(run)
    run.warnings += difference.warnings
    if stored is not None:
        remove_partial(folder)
        remove_partial(folder / folders.CHECKPOINTS, folder)
        if not difference:
            _write_changes(run, stored.identity, budget)
    open_journal(run, lengths, tracker)
    with ExitStack() as failing:
        failing.callback(run.journal.close)
        if difference:
            run.journal.record(DataChanged(update=run.position.updates, changed=difference.changed, moved=difference.moved))
        began = Began(update=run.position.updates, engine=run.engine.entries(), before=run.computed_by)
        if lengths is not None:  # before a checkpoint says that it is this engine's
            run.journal.record(began)
        if any(group.any(bool(difference), lengths is None)):  # only the first process has compared the data
            save(run)  # so that it is known from now on; and before the first update: a run always has a checkpoint
        if lengths is None:
            run.journal.record(began)
        if stored is not None and difference:  # last, or a crash in between would have let them be forgotten
            _write_changes(run, stored.identity, budget)
        failing.pop_all()
    return run


def _with_data(
    folder: Path, began: Identity, task: Task, accept_changed_data: bool, verify: bool
) -> tuple[Identity, Difference]:
    """The run's identity with the data that are there now, and how they are not those that it began with."""
    difference = compare_data(began.data, task, verify=verify)
    if difference.changed and not accept_changed_data:
        raise UserError(
            f"the data of {folder} are not those that it began with: {difference}; put them back, "
            "or go on with what is there by --accept-changed-data"
        )
    return replace(began, data=data_of(task)) if difference else began, difference


def _write_changes(run: Run, began: Identity, budget: Budget | None) -> None:
    if run.identity is not None and (run.identity != began or budget is not None):
        folders.write_config(run.folder, run.config, run.identity)
    if budget is not None:  # a result is no longer final
        remove(run.folder / folders.RESULT)


def save(run: Run) -> None:
    """Write a checkpoint of this moment, with the states that all processes carry."""
    with run.spending("checkpoints"):
        _save(run)


def _save(run: Run) -> None:
    if not all(bool(torch.isfinite(weights).all()) for weights in run.network.parameters()):
        raise DivergedError(f"weights are no longer finite at update {run.position.updates}")
    run.times()
    states = run.group.all_gather(_of_own_rows(run, run.state).tensors()) if run.state else []
    aims = run.group.all_gather({"of_rows": run.aims}) if run.aims is not None else []
    run.saved_at = time.monotonic()
    if not run.group.first:
        return
    if run.identity is not None:
        folders.check_still_there(run.folder, run.identity.id)
    optimizers = [flatten_optimizer(optimizer) for optimizer in run.optimizers]
    sections = {
        "network": run.network.state_dict(),
        AVERAGE: run.average.network.state_dict() if run.average else {},
        **{f"optimizer{i}": tensors for i, (tensors, _) in enumerate(optimizers)},
        "state": _of_all_rows(states),
        "aims": {"of_rows": torch.cat([one["of_rows"] for one in aims])} if aims else {},
        "generator": {"indices": run.indices.get_state()},
    }
    facts = {
        "run": run.identity.id if run.identity else None,
        "config": run.entries,
        "position": run.position.to_json(),
        "course": run.course.state(),
        "optimizers": [numbers for _, numbers in optimizers],
        "journal": run.journal.sync(),
        "pins": sorted(run.course.kept | ({run.position.best_at} if run.position.best_at is not None else set())),
        "torch": torch.__version__,
        "engine": run.engine.short,
    }
    tensors = {f"{section}.{name}": value for section, named in sections.items() for name, value in named.items()}
    run.checkpoints.put(run.position.updates, Checkpoint(tensors, facts))
    run.saved_at = time.monotonic()


def go_to_newest(run: Run) -> Lengths | None:
    """Put the run where its newest checkpoint was; None: it has none yet. Nothing is written."""
    newest, complaints = None, list[str]()
    if run.group.first and run.checkpoints.updates():
        try:
            newest, complaints = run.checkpoints.newest()
        except DamagedError as error:
            raise UserError(f"no checkpoint of {run.folder} can be read: {error}; {REMEDY}") from None
    elif run.group.first:
        _refuse_without_checkpoint(run)
    checkpoint = _for_all(run, newest)
    if checkpoint is None:
        return None
    restore(run, checkpoint)
    run.warnings += [f"{complaint}; continuing from update {run.position.updates}" for complaint in complaints]
    if (written := checkpoint.facts["torch"]) != torch.__version__:
        run.warnings.append(f"started with torch {written}, this is {torch.__version__}: last bits may differ")
    if (written := checkpoint.facts["engine"]) != run.engine.short:
        run.computed_by = written
        run.warnings.append(f"computed by {written} so far, and by {run.engine.short} from here on: last bits may differ")
    return dict(checkpoint.facts["journal"])


def _refuse_without_checkpoint(run: Run) -> None:
    """A run has its first checkpoint before its first record: where only the checkpoints are gone, beginning again would wipe
    out what is left."""
    aside = sorted(run.checkpoints.folder.glob("*.damaged"))
    journal = run.folder / JOURNAL
    if aside or (journal.is_file() and journal.stat().st_size > 0):
        only = f"only {aside[-1].name}, which is damaged" if aside else "none, though the run has recorded updates"
        raise UserError(f"no checkpoint of {run.folder} can be read: there is {only}; {REMEDY}")


def open_journal(run: Run, lengths: Lengths | None, tracker: Tracker | None = None) -> None:
    """From now on the run's folder is written to: damaged checkpoints are put aside, and the journal is cut to what had been
    written when the checkpoint was."""
    if not run.group.first:
        return
    for update in run.checkpoints.updates():
        if lengths is not None and update > run.position.updates:
            run.checkpoints.put_aside(update)
    told, tracked = tracker or run.config.upkeep.tracker, None
    if told is not None and run.identity is not None:
        tracked = Tracked(told, name=run.folder.resolve().name, id=run.identity.id, config=to_json(run.config))
    run.journal = Journal(run.folder, run.config.upkeep.tensorboard, lengths, tracked)
    run.warnings += run.journal.warnings


def restore(run: Run, checkpoint: Checkpoint) -> None:
    """Be where the checkpoint was."""
    with _fitting(run, checkpoint):
        _restore_weights(run, checkpoint)
        state = checkpoint.section("state")
        run.state = _state(run, state) if state else None
        run.aims = _aims(run, checkpoint.tensors.get("aims.of_rows"))
        generator, current = checkpoint.tensors["generator.indices"], run.indices.get_state()
        if (generator.dtype, generator.shape) != (current.dtype, current.shape):
            raise ValueError(f"the generator's state is {generator.dtype} {tuple(generator.shape)}")
        run.indices.set_state(generator)
        run.position = Position.from_json(checkpoint.facts["position"])
        if run.updates is not None and run.position.moves:  # none before the first update
            run.updates.moves = list(run.position.moves)
        run.course.load_state(checkpoint.facts["course"])


def return_to(run: Run, update: int) -> None:
    """Weights and optimizer as they were then; the data, the budget and the journal go on."""
    checkpoint = checkpoint_of(run, update)
    with _fitting(run, checkpoint):
        _restore_weights(run, checkpoint)


def checkpoint_of(run: Run, update: int) -> Checkpoint:
    try:
        checkpoint = _for_all(run, run.checkpoints.get(update) if run.group.first else None)
    except DamagedError as error:
        raise UserError(
            f"{error}, and the run needs it; put back a copy of it. hrnn evaluate {run.folder} --checkpoint last scores "
            "the weights without it"
        ) from None
    assert checkpoint is not None
    return checkpoint


def _for_all(run: Run, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """What the first process has read."""
    if run.group.size == 1:
        return checkpoint
    content = run.group.broadcast(None if checkpoint is None else pack(checkpoint))
    return unpack(content, run.folder) if content else None


@contextmanager
def _fitting(run: Run, checkpoint: Checkpoint) -> Iterator[None]:
    """What is in a checkpoint is checked as it is used: names, shapes and types that are not those of this run."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        path = run.checkpoints.path(checkpoint.facts["position"]["updates"])
        raise UserError(f"{path} does not fit its run ({words_of(error)}); {REMEDY}") from None


def _restore_weights(run: Run, checkpoint: Checkpoint) -> None:
    run.network.load_state_dict(checkpoint.section("network"))
    if run.average is not None:
        run.average.network.load_state_dict(checkpoint.section(AVERAGE))
    for i, (optimizer, facts) in enumerate(zip(run.optimizers, checkpoint.facts["optimizers"], strict=True)):
        restore_optimizer(optimizer, checkpoint.section(f"optimizer{i}"), facts)


def _state(run: Run, tensors: dict[str, Tensor]) -> State:
    """The carried states of this process's rows, from those of all."""
    expected = run.network.levels.initial_state(run.reading.batch).tensors()
    for name in expected.keys() | tensors.keys():
        first, second = (None if name not in of else (of[name].dtype, tuple(of[name].shape)) for of in (expected, tensors))
        if first != second:
            raise ValueError(f"the state's {name} is {second}; expected {first}")
    state = State.from_tensors(tensors)
    return state.select(torch.tensor(run.reading.rows)) if run.group.size > 1 else state


def _aims(run: Run, of_rows: Tensor | None) -> Tensor | None:
    """Of this process's rows."""
    if of_rows is not None and len(of_rows) != run.reading.batch:
        raise ValueError(f"the aims are {tuple(of_rows.shape)}; expected one for each of {run.reading.batch} rows")
    return None if of_rows is None else of_rows[run.reading.rows.start : run.reading.rows.stop].clone()


def _of_own_rows(run: Run, state: State) -> State:
    """With rows that have ended in the middle of a batch: what is in them does not matter any more."""
    fresh = run.fresh_state()
    if state.batch == fresh.batch:
        return state
    return State.together([state, fresh.select(torch.arange(state.batch, fresh.batch))])


def _of_all_rows(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One state, as tensors, from those of the processes."""
    return State.together([State.from_tensors(state) for state in states]).tensors() if len(states) > 1 else dict(*states)
