"""The engine that needs nothing but this machine: units side by side, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hrnn.experiments.units import Ending, Engine, Follower, Unit
from hrnn.experiments.worker import DONE, INTERRUPTED
from hrnn.training.folder import is_locked
from hrnn.training.stop import Stop

LOG = "log.txt"  # in the folder of a unit: what its process said on standard error
LOOK_SECONDS = 0.2
BUSY_SECONDS = 120.0  # how long to wait for a process of an earlier call that is still writing its last checkpoint
STOPPING_SECONDS = 600.0  # how long a unit may take to finish its update when it is told to stop


@dataclass(frozen=True)
class Child:
    unit: Unit
    process: subprocess.Popen[bytes]


def processes(jobs: int = 1) -> Engine:
    """An engine of `jobs` processes at a time, each with the threads of its configuration."""

    def engine(folder: Path, units: Sequence[Unit], follower: Follower) -> Ending:
        return _run(folder, list(units), jobs, follower)

    return engine


def _run(folder: Path, waiting: list[Unit], jobs: int, follower: Follower) -> Ending:
    ending, running, since = Ending(), list[Child](), time.monotonic()
    with Stop(None) as stop:
        try:
            while (waiting or running) and not stop.reason:
                patient = time.monotonic() - since < BUSY_SECONDS
                # A unit that is locked belongs to a process that is about to end: others go first.
                ready = [unit for unit in waiting if not (patient and is_locked(folder / unit.name))]
                for unit in ready[: jobs - len(running)]:
                    waiting.remove(unit)
                    running.append(Child(unit, _launch(folder, unit)))
                    follower.changed(unit, "running")
                running = [child for child in running if not _ended(folder, child, ending, follower)]
                follower.look()
                time.sleep(LOOK_SECONDS)
            ending.interrupted = bool(waiting or running)
        finally:
            _stop(folder, running, ending, follower)
    return ending


def _launch(folder: Path, unit: Unit) -> subprocess.Popen[bytes]:
    """A process group of its own: the terminal's Ctrl-C reaches the parent, and a child through the parent only, once."""
    with open(folder / unit.name / LOG, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hrnn.experiments.worker", str(folder / unit.name)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": str(unit.config.upkeep.threads)},
            process_group=0,
        )


def _ended(folder: Path, child: Child, ending: Ending, follower: Follower, *, stopping: bool = False) -> bool:
    """Has the child ended, and how?"""
    code = child.process.poll()
    if code is None:
        return False
    assert child.process.stdin is not None
    child.process.stdin.close()
    if code == DONE:
        follower.changed(child.unit, "done")
    elif stopping and code in (INTERRUPTED, -signal.SIGTERM, -signal.SIGKILL):
        follower.changed(child.unit, "stopped")
    else:
        why = last_line(folder / child.unit.name / LOG)
        sentence = f"killed by signal {-code}" if code < 0 else "stopped by a signal" if code == INTERRUPTED else why
        ending.failures[child.unit.name] = sentence
        follower.changed(child.unit, f"failed: {sentence}")
    return True


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
    """The last line of a log that says something."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1].strip() if lines else "no message"
