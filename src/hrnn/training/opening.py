"""How a run is begun, or opened to be continued: everything is read and checked first, and written only when it all fits."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hrnn.training.folder as folders
import hrnn.training.network as networks
from hrnn.errors import UserError
from hrnn.parallel import ALONE, Group
from hrnn.training.config import Budget, Config, from_json, reading, resolved, to_json
from hrnn.training.files import remove_partial
from hrnn.training.identity import Difference, Identity, compare_data, data_of
from hrnn.training.records import DataChanged
from hrnn.training.run import Run
from hrnn.training.saving import go_to_newest, open_journal, save
from hrnn.training.sizes import require_room
from hrnn.training.trust import Trust


def check(config: Config[Any], group: Group = ALONE) -> networks.Network:
    """Find mistakes in options and data now, not when the first validation comes, and before there is a folder. Returns the
    network, which was built for it."""
    require_room(config, group)
    network = networks.build(config)
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
    return network


@dataclass(frozen=True)
class Opened:
    """A run as it is to go on.

    difference: how its data are not those that it began with, for the journal
    changed:    config.json is to be written anew
    extended:   by another budget: a result is no longer final
    """

    config: Config[Any]
    identity: Identity
    warnings: list[str] = field(default_factory=list)
    difference: Difference | None = None
    changed: bool = False
    extended: bool = False

    def write_changes(self, folder: Path) -> None:
        """For whoever holds the folder's lock."""
        if self.changed:
            folders.write_config(folder, self.config, self.identity)
        if self.extended:
            (folder / folders.RESULT).unlink(missing_ok=True)


def open_run(
    folder: Path,
    config: Config[Any] | None = None,
    trust: Trust | None = None,
    budget: Budget | None = None,
    accept_changed_data: bool = False,
) -> Opened:
    """The run of a folder. Nothing is changed.

    config: what the folder holds, where the caller has it already, with its data
    budget: another one, which replaces the old one's updates, sequences and epochs: what it does not say sets no limit
    accept_changed_data: go on although the data are not those that the run began with
    """
    stored = folders.read_run(folder)
    config = config or stored.config(trust)
    if budget is not None:
        old = config.budget
        config = resolved(replace(config, budget=replace(budget, validate_every=old.validate_every, stop_after=old.stop_after)))
    extended = budget is not None
    return _with_data(folder, Opened(config, stored.identity, changed=extended, extended=extended), accept_changed_data)


def _with_data(folder: Path, opened: Opened, accept_changed_data: bool) -> Opened:
    """Compare the data with those that the run began with, and from now on know those that are there."""
    recorded, task = opened.identity.data, opened.config.task
    if recorded is None:
        known = replace(opened.identity, data=data_of(task))
        warning = (
            f"{folder} did not remember its data, as it began with an older version; from now on it knows those that are there"
        )
        return replace(opened, identity=known, warnings=[warning] if known.data else [], changed=True)
    difference = compare_data(recorded, task)
    if difference.changed and not accept_changed_data:
        raise UserError(
            f"the data of {folder} are not those that it began with: {difference}; put them back, "
            "or go on with what is there by --accept-changed-data"
        )
    if not difference.changed and not difference.moved:
        return opened
    warnings = [f"the data have changed: {difference}"] if difference.changed else []
    warnings += [f"{old} is now {new}, with the same content" for old, new in difference.moved.items()]
    identity = replace(opened.identity, data=data_of(task))
    return replace(opened, identity=identity, warnings=warnings, difference=difference, changed=True)


def begin(
    folder: Path,
    group: Group,
    config: Config[Any] | None,
    network: networks.Network | None,
    trust: Trust | None,
    budget: Budget | None,
    accept_changed_data: bool,
) -> Run:
    """The run, where its newest checkpoint was; nothing is written before all of it has been read and fits."""
    opened, known = None, config is not None
    if group.first:
        opened = open_run(folder, config, trust, budget, accept_changed_data)
        config = opened.config
        if opened.extended:
            network = check(config, group)
    if not known and group.size > 1:
        content = group.broadcast(json.dumps(to_json(config)).encode() if config is not None else None)
        config = config or from_json(json.loads(content))
    assert config is not None
    require_room(config, group)
    run = Run(config, folder, group, opened.identity if opened else None, network)
    lengths = go_to_newest(run)
    difference = None if opened is None else opened.difference
    if opened is not None:
        run.warnings += opened.warnings
        for place in (folder, folder / folders.CHECKPOINTS):
            remove_partial(place)
        if difference is None:
            opened.write_changes(folder)
    open_journal(run, lengths)
    if difference is not None:
        run.journal.record(DataChanged(update=run.position.updates, changed=difference.changed, moved=difference.moved))
    if difference is not None or lengths is None:
        save(run)  # so that it is known from now on; and before the first update: a run always has a checkpoint
    if opened is not None and difference is not None:  # last, or a crash in between would have let them be forgotten
        opened.write_changes(folder)
    return run
