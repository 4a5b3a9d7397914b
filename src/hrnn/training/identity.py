"""What a run is made of: its own name, the data it learns from, and where the modules that it names were; and whose code may
run when it is opened, as importing such a module runs it.

The identity is made once, when the run is begun, and stands in config.json; checkpoints carry it, too.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hrnn.data.fingerprints import Fingerprint, dated, differs
from hrnn.errors import UserError, shortened
from hrnn.tasks import Task, load_object, name_of
from hrnn.training.config import Config, to_json


@dataclass(frozen=True)
class Identity:
    """
    id:      of the run, drawn at random
    data:    every file that the task reads, by its path, with size, checksum and time of change
    modules: the folder of each module that a task, cell or reader was loaded from, by its name
    """

    id: str
    data: dict[str, Fingerprint]
    modules: dict[str, str]


def new_identity(config: Config[Any]) -> Identity:
    """That of a run which is about to begin; reads the data once."""
    return Identity(
        secrets.token_hex(8), data_of(config.task), modules_of([name_of(config.task), config.model.cell, *config.model.reader])
    )


def modules_of(names: Sequence[str]) -> dict[str, str]:
    """Where the modules are that were imported as module:Name."""
    found = {}
    for module in (name.partition(":")[0] for name in names if ":" in name):
        top = sys.modules.get(module.partition(".")[0])
        if (file := getattr(top, "__file__", None)) is not None:
            place = Path(file).absolute().parent
            found[module] = str(place.parent if Path(file).name == "__init__.py" else place)
    return found


def files_of(task: Task, parts: Sequence[str] | None = None) -> list[Path]:
    """Every file that the task reads for these parts, once, in a fixed order; by default for all."""
    parts = ("training", *task.parts()) if parts is None else parts
    return list(dict.fromkeys(Path(path).absolute() for part in parts for path in task.files(part)))


def data_of(task: Task) -> dict[str, Fingerprint]:
    return {str(path): dated(path) for path in files_of(task)}


@dataclass(frozen=True)
class Difference:
    """How data are not what a run began with. changed: in words, each with its file; moved: same content, by the old path."""

    changed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed or self.moved)

    def __str__(self) -> str:
        return "; ".join(self.changed[:3]) + (f"; and {len(self.changed) - 3} more" if len(self.changed) > 3 else "")

    @property
    def warnings(self) -> list[str]:
        """What a user who goes on should know."""
        changed = [f"the data have changed: {self}"] if self.changed else []
        return changed + [f"{before} is now {now}, with the same content" for before, now in self.moved.items()]


def compare_data(
    recorded: dict[str, Fingerprint], task: Task, parts: Sequence[str] | None = None, verify: bool = False
) -> Difference:
    """Hold what the task would read for these parts against what was recorded; by default for all. A file with the size and the
    time that it had is the same, unless `verify`; otherwise the checksum decides."""
    now, difference = files_of(task), Difference()
    before = {Path(path): path for path in recorded}
    if len(now) == len(before) and set(now) != set(before):  # a user has moved them: the order tells which is which
        before = dict(zip(now, recorded, strict=True))
    chosen = set(now if parts is None else files_of(task, parts))
    for path, name in before.items():
        if path in now and path not in chosen:
            continue
        if (words := differs(path, recorded[name], verify)) is not None:
            difference.changed.append(f"{path} {words}")
        elif str(path) != name:
            difference.moved[name] = str(path)
    difference.changed.extend(f"{path} is new" for path in now if path in chosen and path not in before)
    return difference


@dataclass(frozen=True)
class Trust:
    """Modules that a run names are imported only if you name them as well, or trust the run."""

    task: str | None = None
    """The run's own task, module:Name, to be imported."""
    cell: str | None = None
    """The run's own cell, module:Name, to be imported."""
    reader: tuple[str, ...] = ()
    """The run's own readers, module:Name, to be imported, the lowest level's first, each once."""
    trust: bool = False
    """Import whatever modules the run names. Only for runs whose code you would run."""

    @property
    def words(self) -> list[str]:
        """What it names, for the command line of a worker."""
        return [self.task or "", self.cell or "", *self.reader]

    @staticmethod
    def of(config: Config[Any]) -> Trust:
        """What a configuration names that the user has written, and not read from a file."""
        named = own_names(to_json(config))
        (task,), (cell,) = (named.get(option, (None,)) for option in ("task", "cell"))
        return Trust(task, cell, named.get("reader", ()))

    def load(self, folder: Path, entries: dict[str, Any], modules: dict[str, str]) -> None:
        """Import what the run names, unless the user did not; where it is not found, say where it was."""
        named = own_names(entries)
        given = {
            "task": () if self.task is None else (self.task,),
            "cell": () if self.cell is None else (self.cell,),
            "reader": self.reader,
        }
        for option, names in given.items():
            if names and names != (there := named.get(option)):
                raise UserError(
                    f"--{option} is {' '.join(names)} and {folder} has {' '.join(there or ()) or 'none of its own'}; give the "
                    "same, or drop it"
                )
        wanted = {option: names for option, names in named.items() if given[option] != names}
        if wanted and not self.trust:
            options = as_options(wanted)
            raise UserError(
                f"{folder} names code of its own, which would run if it were opened; if that is yours, or you trust it, "
                f"add {options} (or --trust)"
            )
        for option, name in ((option, name) for option, names in named.items() for name in names):
            try:
                load_object(name, f"--{option}")
            except UserError as error:
                was_in = modules.get(name.partition(":")[0])
                hint = f"; it was in {was_in} when the run began: work there, or add that folder to PYTHONPATH"
                raise UserError(f"{error}{hint if was_in else ''}") from None


def own_names(entries: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The modules that a run's entries name, each once, by the option that names them."""
    readers = entries["model"].get("reader")
    found = {"task": [entries["task"].get("name")], "cell": [entries["model"].get("cell")]}
    found["reader"] = readers if isinstance(readers, list) else [readers]
    for option, names in found.items():
        if strange := [name for name in names if not isinstance(name, str)]:
            raise UserError(f"the run's configuration has {option} {shortened(strange[0])!r}, which is not a name")
    own = {option: tuple(dict.fromkeys(name for name in names if ":" in name)) for option, names in found.items()}
    return {option: names for option, names in own.items() if names}


def as_options(names: dict[str, tuple[str, ...]]) -> str:
    """What `own_names` found as one types it."""
    return " ".join(f"--{option} {' '.join(several)}" for option, several in names.items())
