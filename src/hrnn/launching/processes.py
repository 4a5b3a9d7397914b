"""The engine that needs nothing but this machine: units side by side, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hrnn.training.folder as folders
from hrnn.errors import DONE, EXIT_CODES, INTERRUPTED, TERMINATED
from hrnn.launching.units import Ending, Engine, Follower, Unit, stopped_early
from hrnn.launching.warm import Forked, Warm, available
from hrnn.training.stop import Stop
from hrnn.training.trust import Trust

LOG = "log.txt"  # in the folder of a unit: what its process said on standard error
LOOK_SECONDS = 0.2
FULL = 1 << 16  # bytes left on a disk that count as none
BUSY_SECONDS = 120.0  # how long to wait for a process of an earlier call that is still writing its last checkpoint
STOPPING_SECONDS = 600.0  # how long a unit may take to finish its update when it is told to stop


@dataclass(frozen=True)
class Child:
    unit: Unit
    process: subprocess.Popen[bytes] | Forked


def processes(jobs: int = 1) -> Engine:
    """An engine of `jobs` processes at a time, each with the threads of its configuration."""

    def engine(folder: Path, units: Sequence[Unit], follower: Follower) -> Ending:
        return _run(folder, list(units), jobs, follower)

    return engine


def _run(folder: Path, waiting: list[Unit], jobs: int, follower: Follower) -> Ending:
    ending, running, warm, since = Ending(), list[Child](), dict[int, Warm](), time.monotonic()
    with Stop(None) as stop:
        try:
            while (waiting or running) and not stop.reason:
                patient = time.monotonic() - since < BUSY_SECONDS
                # A unit that is locked belongs to a process that is about to end: others go first.
                ready = [unit for unit in waiting if not (patient and folders.is_locked(folder / unit.name))]
                for unit in ready[: jobs - len(running)]:
                    waiting.remove(unit)
                    _begin(folder, unit, running, ending, follower, warm)
                running = [child for child in running if not _ended(folder, child, ending, follower)]
                follower.look()
                time.sleep(LOOK_SECONDS)
            ending.interrupted = bool(waiting or running)
            ending.code = EXIT_CODES.get(stop.reason or "", INTERRUPTED)
        finally:
            _stop(folder, running, ending, follower)
            for one in warm.values():
                one.close()
    return ending


def _begin(folder: Path, unit: Unit, running: list[Child], ending: Ending, follower: Follower, warm: dict[int, Warm]) -> None:
    try:
        running.append(Child(unit, _start(folder / unit.name, unit.config.upkeep.threads, Trust.of(unit.config), warm)))
        follower.changed(unit, "running")
    except OSError as error:
        ending.failures[unit.name] = f"cannot be started: {error}"
        follower.changed(unit, f"failed: {ending.failures[unit.name]}")


def _start(place: Path, threads: int, own: Trust, warm: dict[int, Warm]) -> subprocess.Popen[bytes] | Forked:
    """A worker that need not import everything first, where that can be had."""
    if available():
        with suppress(OSError), open(place / LOG, "ab") as log:
            if threads not in warm:
                warm[threads] = Warm(threads, log.fileno())
            return warm[threads].launch(place, log.fileno(), own.task or "", own.cell or "")
    return launch(place, threads, own)


def launch(place: Path, threads: int, own: Trust) -> subprocess.Popen[bytes]:
    """A process group of its own: the terminal's Ctrl-C reaches the parent, and a child through the parent only, once."""
    with open(place / LOG, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hrnn.launching.worker", str(place), own.task or "", own.cell or ""],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            process_group=0,
        )


def _ended(folder: Path, child: Child, ending: Ending, follower: Follower, *, stopping: bool = False) -> bool:
    """Has the child ended, and how?"""
    code = child.process.poll()
    if code is None:
        return False
    assert child.process.stdin is not None
    child.process.stdin.close()
    note_end(folder, child.unit, code, last_line(folder / child.unit.name / LOG), ending, follower, stopping=stopping)
    return True


def note_end(
    folder: Path, unit: Unit, code: int, said: str, ending: Ending, follower: Follower, *, stopping: bool = False
) -> None:
    """What the exit code of a worker means; said: its last words."""
    if code == DONE or folders.read_result(folder / unit.name) is not None:  # a signal may come after the end
        state = "done"
    elif stopped_early(folder / unit.name) is not None:
        state = "stopped early"
    elif stopping and code in (INTERRUPTED, TERMINATED, -signal.SIGTERM, -signal.SIGKILL):
        state = "stopped"
    else:
        ending.failures[unit.name] = (
            f"killed by signal {-code}" if code < 0 else "stopped by a signal" if code in EXIT_CODES.values() else said
        )
        state = f"failed: {ending.failures[unit.name]}"
    follower.changed(unit, state)


def _stop(folder: Path, running: list[Child], ending: Ending, follower: Follower) -> None:
    """Let every child finish its update and write a checkpoint."""
    for child in running:
        with suppress(ProcessLookupError):
            child.process.terminate()
    deadline = time.monotonic() + STOPPING_SECONDS
    while running := [child for child in running if not _ended(folder, child, ending, follower, stopping=True)]:
        if time.monotonic() > deadline:  # a checkpoint of some minutes ago is better than no end
            for child in running:
                child.process.kill()
        follower.look()
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
