"""The loop behind every engine: so many units at a time, whoever trains them. Signals and failures are survived."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import hrnn.training.folder as folders
from hrnn.errors import DONE, EXIT_CODES, INTERRUPTED, TERMINATED, stop_code
from hrnn.launching.units import Ending, Unit, Watcher, stopped_early
from hrnn.training.stop import Stop

LOOK_SECONDS = 0.2
FULL = 1 << 16  # bytes left on a disk that count as none
BUSY_SECONDS = 120.0  # how long to wait for a process of an earlier call that is still writing its last checkpoint
STOPPING_SECONDS = 600.0  # how long a unit may take to finish its update when it is told to stop


class Work(Protocol):
    """A unit that was handed over to be trained."""

    def outcome(self) -> tuple[int, str] | None:
        """Its exit code and its last words; None until it ends."""

    def begun(self) -> bool:
        """Is it being trained? It may have to wait for room."""

    def stop(self) -> None:
        """Let it finish its update and write a checkpoint."""

    def kill(self) -> None:
        """Do not wait for it any longer."""


@dataclass
class Active:
    unit: Unit
    work: Work
    begun: bool = False


def train_all(
    folder: Path,
    units: Sequence[Unit],
    jobs: int,
    start: Callable[[Unit], Work],
    watcher: Watcher,
    deadline: float | None = None,
) -> Ending:
    """Train the units in this order, at most `jobs` at a time.

    start: hand one over, or an OSError; deadline: by time.monotonic(), when to stop for now
    """
    waiting, active, ending, since = list(units), list[Active](), Ending(), time.monotonic()
    with Stop(None if deadline is None else (deadline - time.monotonic()) / 60) as stop:
        try:
            while (waiting or active) and not stop.reason:
                patient = time.monotonic() - since < BUSY_SECONDS
                # A unit that is locked belongs to a process that is about to end: others go first.
                ready = [unit for unit in waiting if not (patient and folders.is_locked(folder / unit.name))]
                for unit in ready[: jobs - len(active)]:
                    waiting.remove(unit)
                    try:
                        active.append(Active(unit, start(unit)))
                    except OSError as error:
                        _fail(unit, f"cannot be started: {error}", ending, watcher)
                active = _look(folder, active, ending, watcher)
                time.sleep(LOOK_SECONDS)
            if waiting or active:
                ending.interrupted, ending.code = True, stop_code(stop.reason)
        finally:
            _stop(folder, active, ending, watcher)
    return ending


def _look(folder: Path, active: Sequence[Active], ending: Ending, watcher: Watcher, *, stopping: bool = False) -> list[Active]:
    """Say what has begun and what has ended; returns the rest."""
    rest = []
    for one in active:
        if not one.begun and one.work.begun():
            one.begun = True
            watcher.changed(one.unit, "running")
        if (outcome := one.work.outcome()) is None:
            rest.append(one)
        else:
            _note_end(folder, one.unit, *outcome, ending, watcher, stopping=stopping)
    watcher.look()
    return rest


def _note_end(folder: Path, unit: Unit, code: int, said: str, ending: Ending, watcher: Watcher, *, stopping: bool) -> None:
    """What the exit code of a worker means; said: its last words."""
    if code == DONE or folders.read_result(folder / unit.name) is not None:  # a signal may come after the end
        watcher.changed(unit, "done")
    elif stopped_early(folder / unit.name) is not None:
        watcher.changed(unit, "stopped early")
    elif stopping and code in (INTERRUPTED, TERMINATED, -signal.SIGTERM, -signal.SIGKILL):
        watcher.changed(unit, "stopped")
    else:
        by_signal = "stopped by a signal" if code in EXIT_CODES.values() else said
        _fail(unit, f"killed by signal {-code}" if code < 0 else by_signal, ending, watcher)


def _fail(unit: Unit, why: str, ending: Ending, watcher: Watcher) -> None:
    ending.failures[unit.name] = why
    watcher.changed(unit, f"failed: {why}")


def _stop(folder: Path, active: Sequence[Active], ending: Ending, watcher: Watcher) -> None:
    for one in active:
        one.work.stop()
    active = [one for one in active if one.begun or one.work.begun()]
    deadline = time.monotonic() + STOPPING_SECONDS
    while active := _look(folder, active, ending, watcher, stopping=True):
        if time.monotonic() > deadline:  # a checkpoint of some minutes ago is better than no end
            for one in active:
                one.work.kill()
        time.sleep(LOOK_SECONDS)


def last_line(path: Path) -> str:
    """The last line of a log that says something; a full disk may have kept it from saying why."""
    try:
        if shutil.disk_usage(path.parent).free < FULL:
            return f"{path.parent} is on a full disk; make room, and the same command goes on"
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return lines[-1].strip() if lines else "no message"
