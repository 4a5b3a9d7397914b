"""Units of work: runs in the folders of an experiment, which of them are missing, and how they ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import hrnn.training.folder as folders
from hrnn.errors import DONE, INTERRUPTED, UserError
from hrnn.files import refuse_link, write_atomically
from hrnn.formats import check_format, numbered
from hrnn.training.config import Config, Runtime, to_json
from hrnn.training.entries import in_words
from hrnn.training.sizes import check

LOG = "log.txt"  # in the folder of a unit: what its process said on standard error
EARLY = "stopped-early.json"  # in the folder of a unit that was losing: why it goes no further, though it could


@dataclass(frozen=True)
class Unit:
    """A run of an experiment. name: its folder within that of the experiment; config: resolved."""

    name: str
    config: Config[Any]


@dataclass
class Ending:
    """How the units of a call ended: a sentence for each that failed; interrupted: the rest waits for the next call."""

    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    code: int = INTERRUPTED  # the exit code where it was interrupted: of Ctrl-C, of SIGTERM, or 0 of a time limit

    @property
    def late(self) -> bool:
        """Was it its own time limit that interrupted it? Then nobody waits."""
        return self.interrupted and self.code == DONE


class Watcher(Protocol):
    """What an engine tells while it works, for a table of progress and for whoever wants to know."""

    def changed(self, unit: Unit, state: str) -> None:
        """A unit is now "running", "stopped" (to be continued), "stopped early", "done", or "failed: why"."""

    def look(self) -> None:
        """Called several times a second; how far a run is stands in its journal."""


Engine = Callable[[Path, Sequence[Unit], Watcher], Ending]
"""Trains prepared units, in this order as far as there is room, each where its folder stands, until all of them have
ended or the user interrupts. One that fails does not keep the others from going on."""


def prepare(folder: Path, units: Sequence[Unit]) -> list[Unit]:
    """Give every unit its folder with its configuration, and return those that are not finished, in the same order.

    Nothing is written unless every unit fits what is there already.
    """
    if len({unit.name for unit in units}) < len(units):
        raise ValueError("two units have the same name")
    known: set[str] = set()
    new = []
    for unit in units:
        place = folder / unit.name
        refuse_link(place / LOG, folder)
        if (place / folders.CONFIG).exists():
            if difference := in_words(folders.read_entries(place), to_json(unit.config)):
                raise UserError(f"{place} holds a run with other options ({difference}); give another folder")
        else:
            kind = json.dumps(to_json(replace(unit.config, upkeep=Runtime())))
            if kind not in known:  # seeds differ in nothing that could be a mistake
                check(unit.config)
                known.add(kind)
            new.append(unit)
    for unit in new:
        folders.create(folder / unit.name, unit.config, overwrite=False)
    return [unit for unit in units if folders.read_result(folder / unit.name) is None]


def stop_early(place: Path, why: dict[str, Any]) -> None:
    """Tell the process that works on a unit, wherever it is, to stop with a checkpoint; the unit stays stopped."""
    write_atomically(place / EARLY, json.dumps(numbered("run", why), indent=2).encode() + b"\n")


def stopped_early(place: Path) -> dict[str, Any] | None:
    """Why a unit goes no further; None if it does, or has come to its end after all."""
    try:
        why = dict(json.loads((place / EARLY).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{place / EARLY} cannot be read ({error}); remove it to let the run go on") from None
    why = check_format("run", why, place / EARLY)
    return None if (place / folders.RESULT).exists() else why
