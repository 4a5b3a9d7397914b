"""How a run is opened to be continued: everything is read and checked first, and written only when it all fits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hrnn.training.folder as folders
from hrnn.errors import UserError
from hrnn.training.config import Config, resolved
from hrnn.training.identity import Identity, compare_data, data_of
from hrnn.training.trust import Trust


@dataclass(frozen=True)
class Opened:
    """A run as it is to go on. records: what its journal is to know of it; changed: config.json is to be written anew."""

    config: Config[Any]
    identity: Identity
    warnings: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    changed: bool = False
    extended: bool = False  # by another budget: a result is no longer final


def open_run(
    folder: Path,
    trust: Trust | None = None,
    budget: dict[str, Any] | None = None,
    accept_changed_data: bool = False,
    config: Config[Any] | None = None,
) -> Opened:
    """The run of a folder. Nothing is changed.

    budget: another one, which replaces the old one as a whole: what is not named sets no limit
    accept_changed_data: go on although the data are not those that the run began with
    config: what the folder holds, where the caller has it already, with its data
    """
    _, identity = folders.read_run(folder)
    config = config or folders.read_config(folder, trust)
    if budget:
        nothing = dict.fromkeys(("updates", "sequences", "epochs"))
        config = resolved(replace(config, budget=replace(config.budget, **{**nothing, **budget})))
    return _with_data(folder, Opened(config, identity, changed=bool(budget), extended=bool(budget)), accept_changed_data)


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
    record = {"kind": "data", "changed": difference.changed, "moved": difference.moved}
    identity = replace(opened.identity, data=data_of(task))
    return replace(opened, identity=identity, warnings=warnings, records=[record], changed=True)


def write_changes(folder: Path, opened: Opened) -> None:
    """Write down what has changed. For whoever holds the folder's lock."""
    if opened.changed:
        folders.write_config(folder, opened.config, opened.identity)
    if opened.extended:
        (folder / folders.RESULT).unlink(missing_ok=True)
