"""Run what is missing of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import hrnn.training.folder as folders
from hrnn.files import remove
from hrnn.launching.processes import processes
from hrnn.launching.progress import ProgressTable
from hrnn.launching.units import EARLY, Ending, Engine, Unit, Watcher, prepare, stopped_early


def run(
    folder: Path,
    units: Sequence[Unit],
    engine: Engine | None = None,
    watcher: Watcher | None = None,
    *,
    leave_stopped: bool = False,
) -> Ending:
    """Train every unit to its end, in this order: what is half done is continued, what is finished is left alone.

    A folder that holds a run with other options is refused before anything is done. One process at a time may work in
    `folder`.

    leave_stopped: units that were stopped early stay so; otherwise they go on like all others
    """
    with folders.working_in(folder):
        missing = prepare(folder, units)
        if leave_stopped:
            missing = [unit for unit in missing if stopped_early(folder / unit.name) is None]
        for unit in missing:
            remove(folder / unit.name / EARLY, folder)
        if not missing:
            return Ending()
        with ProgressTable(folder, units) if watcher is None else nullcontext(watcher) as told:
            return (engine or processes())(folder, missing, told)
