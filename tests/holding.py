"""Runs that wait in their middle for a signal, so that they are killed or stopped there, however busy the machine is.

A run that comes to the update writes its process into a file named after it, and goes no further before a signal has come. It
does so once: where it is begun again, or resumed, the file is there already.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

ROOT = Path(__file__).parents[1]
UPDATE, PLACE = "HRNN_TESTS_HELD_AT", "HRNN_TESTS_HELD_IN"


def holding(update: int, place: Path) -> dict[str, str]:
    """Variables for a process whose runs are to be held; it and its children have to import hrnn as anybody does."""
    place.mkdir()
    paths = [ROOT / "tests" / "held", ROOT / "src", ROOT]
    return {UPDATE: str(update), PLACE: str(place), "PYTHONPATH": os.pathsep.join(map(str, paths))}


def held(place: Path, name: str, rank: int = 0, *, over: Callable[[], object] = lambda: None) -> int:
    """Wait for a run, and return its process. over: what is not None once nothing can come any more."""
    file = place / f"{name}.{rank}"
    wait_for(lambda: (file.exists() and file.read_text()) or over() is not None, f"{name} does not come to its update")
    return int(file.read_text())


def hold(update: int, place: Path, after_update: Callable[..., None]) -> Callable[..., None]:
    """In place of hrnn.training.loop.after_update."""

    def follow(run: Any, *arguments: Any) -> None:
        after_update(run, *arguments)
        if run.position.updates >= update:
            _wait(place / f"{run.folder.name}.{run.group.rank}")

    return follow


def _wait(file: Path) -> None:
    """For a signal, which is handled as it would have been."""
    came: list[int] = []

    def handler(before: Any) -> Callable[..., None]:
        def handle(*arguments: Any) -> None:
            came.append(1)
            before(*arguments)

        return handle

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler(known) for number, known in before.items() if callable(known)}
    try:
        with open(file, "x") as opened:
            for number, handle in ours.items():
                signal.signal(number, handle)
            opened.write(str(os.getpid()))
    except FileExistsError:
        return
    while not came:
        time.sleep(0.01)
    for number in ours:
        if signal.getsignal(number) is ours[number]:
            signal.signal(number, before[number])


class _Finder:
    """Holds in the training loop as soon as that is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "hrnn.training.loop":
            return None
        sys.meta_path.remove(self)
        found = util.find_spec(name)
        execute = found.loader.exec_module

        def execute_and_hold(module: Any) -> None:
            execute(module)
            module.after_update = hold(int(os.environ[UPDATE]), Path(os.environ[PLACE]), module.after_update)

        found.loader.exec_module = execute_and_hold
        return found


def install() -> None:
    """In a process that was started with the variables of `holding`."""
    sys.meta_path.insert(0, _Finder())
