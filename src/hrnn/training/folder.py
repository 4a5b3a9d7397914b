"""The folder of a run: who may write to it, what is in it, and whether this version can read it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hrnn
from hrnn.errors import UserError, shortened, words_of
from hrnn.files import append, check_ours, make_folder, refuse_link, remove, remove_folder, write_atomically, writing
from hrnn.formats import numbered
from hrnn.hierarchy import Tokens
from hrnn.metrics import Metrics
from hrnn.tasks import TASKS, Task
from hrnn.torchrun import LostError, launcher, restarts
from hrnn.training.config import PARTS, Config, from_json, to_json
from hrnn.training.entries import ABOUT, LOCK, METRICS, SECTIONS, SWEEP, metrics_of, read_whole, sealed
from hrnn.training.entries import CONFIG as CONFIG
from hrnn.training.entries import RESULT as RESULT
from hrnn.training.entries import is_locked as is_locked
from hrnn.training.entries import read_entries as read_entries
from hrnn.training.entries import read_result as read_result
from hrnn.training.identity import Identity, Trust, as_options, new_identity, own_names
from hrnn.training.journal import EVENTS, JOURNAL

CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"
OURS = {  # in these folders of a run: the names of what we write
    CHECKPOINTS: r"update-\d+\.(safetensors|damaged)|\..*\.partial",
    TENSORBOARD: r"events\.out\.tfevents\.hrnn",
}
WRITTEN = (  # in the folder of a run, a sweep or a study
    *(CONFIG, RESULT, JOURNAL, LOCK, *OURS, EVENTS, "log.txt", "stopped-early.json", SWEEP),
    *("table.json", "table.md", "curves.json", "curves.png", "curves.svg", "equal.json"),
)
PATTERNS = (".*.partial", f"{CHECKPOINTS}/update-*", f"{CHECKPOINTS}/.*.partial")


def create(folder: Path, config: Config[Any], overwrite: bool) -> None:
    """A new run in this folder; one that is there already is refused, or removed with `overwrite`."""
    if (there := (folder / CONFIG).exists()) and not overwrite:
        raise UserError(f"{folder} already holds a run; continue it with hrnn resume, or give --overwrite or --run")
    if there and is_locked(folder):
        raise UserError(f"{folder} is being trained by another process; stop it before --overwrite")
    identity = new_identity(config)
    with working_in(folder):
        for name, ours in OURS.items() if there else ():
            check_ours(folder / name, ours, folder)
        # The new configuration comes first: if it cannot be written, the old run is still there.
        write_config(folder, config, identity)
        if there:
            for name in (RESULT, JOURNAL):
                remove(folder / name)
            for name, ours in OURS.items():
                remove_folder(folder / name, ours, folder)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make the folder, and have it for oneself. If all comes to nothing, none is left behind that was not there before."""
    new = not folder.exists()
    make_folder(folder)
    try:
        with locked(folder):
            yield
    except BaseException:
        if new:
            with suppress(OSError, UserError):
                remove_folder(folder, LOCK)
        raise


def begun_here(folder: Path, config: Config[Any]) -> bool:
    """Has torchrun started the job again, and is this the run that the job began?"""
    if not restarts() or not (folder / CONFIG).exists():
        return False
    try:
        _, _, began = (folder / LOCK).read_text().strip().partition(" ")
    except OSError:
        return False
    return began == launcher() and read_entries(folder) == to_json(config)


def entries_of(config: Config[Any], identity: Identity) -> dict[str, Any]:
    """What config.json holds, and every checkpoint of the run."""
    return {**dataclasses.asdict(identity), **to_json(config)}


def about(task: Task) -> dict[str, Any]:
    """What a reader of the run's folder would ask of the data, without having them."""
    tokens = isinstance(task.inputs, Tokens)
    inputs = task.inputs.count if isinstance(task.inputs, Tokens) else task.inputs
    return {"notes": list(task.notes()), "tokens": tokens, "inputs": inputs, "outputs": task.outputs}


def write_config(folder: Path, config: Config[Any], identity: Identity) -> None:
    entries = sealed({**entries_of(config, identity), METRICS: config.measured.to_json(), ABOUT: about(config.task)})
    write_atomically(folder / CONFIG, json.dumps(entries, indent=2).encode() + b"\n")


@dataclass(frozen=True)
class Stored:
    """What config.json says. options: by section, as JSON; metrics: how the run's numbers read."""

    folder: Path
    options: dict[str, Any]
    identity: Identity
    metrics: Metrics

    def config(self, trust: Trust | None = None) -> Config[Any]:
        """The options. A task, a cell or a reader of the run's own is imported only if the user trusts it; by default not."""
        (trust or Trust()).load(self.folder, self.options, self.identity.modules)
        with _describing(self.folder):
            return from_json(self.options)


def read_run(folder: Path) -> Stored:
    """A run as its config.json has it; no code of it is imported."""
    entries = read_whole(folder)
    with _describing(folder):
        options = {name: dict(entries[name]) for name in SECTIONS}
        _check_complete(options, folder / CONFIG)
        identity = Identity(entries["id"], entries["data"], entries["modules"])
        if not isinstance(identity.id, str) or not isinstance(identity.modules, dict):
            raise TypeError("it has no id")
        for name, file in identity.data.items():
            if not isinstance(file["size"], int) or not isinstance(file["sha256"], str):
                raise TypeError(f"the checksum of {name} is missing")
            if not isinstance(file["mtime_ns"], int):
                raise TypeError(f"the time of {name} is no number")
    return Stored(folder, options, identity, metrics_of(entries))


@contextmanager
def _describing(folder: Path) -> Iterator[None]:
    """Whatever is wrong with a configuration is a sentence."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{folder / CONFIG} does not describe a run ({words_of(error)})") from None


def _check_complete(options: dict[str, dict[str, Any]], path: Path) -> None:
    """Every option of a built-in section must be there: one that is not would take today's default."""
    task = options["task"].get("name")
    own: dict[str, type] = {"task": TASKS[task]} if isinstance(task, str) and task in TASKS else {}
    for name, kind in (PARTS | own).items():
        known = {field.name for field in dataclasses.fields(kind) if field.init}
        given = set(options[name]) - ({"name"} if name == "task" else set())
        if missing := sorted(known - given):
            raise UserError(f"{path} has no {name}.{missing[0]}; it does not describe a run that this version knows")
        if strange := sorted(map(str, given - known)):
            unknown = f"{name}.{shortened(strange[0])}"
            raise UserError(f"{path} has {unknown}, which this version (hrnn {hrnn.__version__}) does not know")


def resume_command(folder: Path) -> str:
    """What to type to go on with a run."""
    try:
        own = own_names(read_entries(folder))
    except UserError:
        own = {}
    return f"hrnn resume {folder} {as_options(own)}".rstrip()


def check_still_there(folder: Path, run: str) -> None:
    """Does the folder still hold the run that is being trained? Somebody may have removed or replaced it."""
    try:
        entries = json.loads((folder / CONFIG).read_bytes())
    except FileNotFoundError:
        raise LostError(f"{folder} was removed while its run was being trained; nothing is left of it") from None
    except (OSError, ValueError):
        return  # not for now: it may be back at the next checkpoint
    if isinstance(entries, dict) and entries.get("id") != run:
        raise LostError(f"{folder} now holds another run than the one that was being trained; this one ends here")


def write_result(folder: Path, result: dict[str, Any]) -> None:
    write_atomically(folder / RESULT, json.dumps(numbered("run", result), indent=2).encode() + b"\n")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two processes in one run would spoil it; the lock goes with the process, however it ends. A run may be of somebody else:
    links in the place of what is written there are refused now, and not when it comes to it."""
    for path in (*(folder / name for name in WRITTEN), *(path for pattern in PATTERNS for path in folder.glob(pattern))):
        refuse_link(path, folder)
    with writing(folder / LOCK):  # unbuffered: what could not be written is not tried again when it is closed
        file = append(folder / LOCK, buffering=0)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{folder} is being trained by another process; wait for it, or stop it") from None
        with writing(folder / LOCK):
            file.truncate(0)
            file.write(f"{os.getpid()} {launcher()}\n".encode())
        yield
