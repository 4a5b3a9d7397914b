"""The engine that needs nothing but this machine: units side by side, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hrnn.files import append
from hrnn.launching.engine import last_line, train_all
from hrnn.launching.units import LOG, Ending, Engine, Unit, Watcher
from hrnn.launching.warm import Forked, Warm, available
from hrnn.training.identity import Trust


class Child:
    """A unit in a process of its own."""

    def __init__(self, place: Path, process: subprocess.Popen[bytes] | Forked):
        self.place, self.process = place, process

    def outcome(self) -> tuple[int, str] | None:
        if (code := self.process.poll()) is None:
            return None
        assert self.process.stdin is not None
        self.process.stdin.close()
        return code, last_line(self.place / LOG)

    def begun(self) -> bool:
        return True

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


def processes(jobs: int = 1, deadline: float | None = None) -> Engine:
    """An engine of `jobs` processes at a time, each with the threads of its configuration; deadline: see `train_all`."""

    def engine(folder: Path, units: Sequence[Unit], watcher: Watcher) -> Ending:
        warm: dict[int, Warm] = {}

        def start(unit: Unit) -> Child:
            place = folder / unit.name
            return Child(place, _start(place, unit.config.upkeep.threads, Trust.of(unit.config), warm))

        try:
            return train_all(folder, units, jobs, start, watcher, deadline)
        finally:
            for one in warm.values():
                one.close()

    return engine


def _start(place: Path, threads: int, own: Trust, warm: dict[int, Warm]) -> subprocess.Popen[bytes] | Forked:
    """A worker that need not import everything first, where that can be had."""
    if available():
        with suppress(OSError), append(place / LOG) as log:
            if threads not in warm:
                warm[threads] = Warm(threads, log.fileno())
            return warm[threads].launch(place, log.fileno(), own.words)
    return launch(place, threads, own)


def launch(place: Path, threads: int, own: Trust) -> subprocess.Popen[bytes]:
    """A process group of its own: the terminal's Ctrl-C reaches the parent, and a child through the parent only, once."""
    with append(place / LOG) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hrnn.launching.worker", str(place), *own.words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            process_group=0,
        )
