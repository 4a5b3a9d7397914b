"""How far an experiment is: one live table in a terminal, plain lines elsewhere. All of it is read from journals."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

import hrnn.training.folder as folders
from hrnn.errors import UserError
from hrnn.launching.units import Unit, stopped_early
from hrnn.training.journal import newest

TAIL = 1 << 16  # bytes at the end of a journal in which its last record of updates is looked for
LIVE_SECONDS, LINE_SECONDS = 1.0, 60.0
SHOWN = 3  # numbers of a run at most
IDLE = ("waiting", "done", "stopped early")
NOT_RUNNING = 12  # units of the live table that are not at work


@dataclass(frozen=True)
class Standing:
    """What the last record of a run's updates says, and of one that has ended its result."""

    update: int = 0
    share: float | None = None  # of the budget, where it counts updates or sequences
    seconds: float = 0.0
    numbers: str = ""


def standing(folder: Path, unit: Unit) -> Standing:
    record = last_update(folder / unit.name)
    counted = unit.config.budget.updates is not None or unit.config.budget.sequences is not None
    done = unit.config.share_done(record.get("update", 0), record.get("sequences", 0))
    measured, numbers, where = unit.config.task.measured, record, ""
    if (result := folders.read_result(folder / unit.name)) is not None:  # its last batch says little of what a run came to
        if result.get("test"):
            numbers, where = result["test"], " on test"
        if measured.progress is not None:
            numbers = {**numbers, measured.progress.name: result.get(measured.progress.in_result)}
    metrics = [metric for metric in measured.all if numbers.get(metric.name) is not None]
    shown = [f"{metric.short} {metric.text(numbers[metric.name])}" for metric in metrics[:SHOWN]]
    share = min(1.0, done) if counted else None
    return Standing(record.get("update", 0), share, record.get("seconds", 0.0), ", ".join(shown) + where)


def last_update(folder: Path) -> dict[str, Any]:
    """The last record of updates near the end of a run's journal; empty if there is none yet, or it cannot be read."""
    try:
        return newest(folder, "update", within=TAIL).get("update", {})
    except UserError:
        return {}


class ProgressTable:
    """Watches an engine; a context manager, so that the terminal is left in order."""

    def __init__(self, folder: Path, units: Sequence[Unit], console: Console | None = None):
        self.folder, self.units = folder, list(units)
        self.console = console or Console(stderr=True)
        self.states = {unit.name: self._state(unit) for unit in units}
        self._live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._next = 0.0

    def _state(self, unit: Unit) -> str:
        if folders.read_result(self.folder / unit.name) is not None:
            return "done"
        return "stopped early" if stopped_early(self.folder / unit.name) is not None else "waiting"

    def __enter__(self) -> ProgressTable:
        if self._live:
            self._live.start()
        else:
            done = self._count("done")
            self._say(
                f"{len(self.units)} run{'s' if len(self.units) > 1 else ''}"
                + (f", {done} of them there already" if done else "")
            )
            self._next = time.monotonic() + LINE_SECONDS
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.update(self.grid(), refresh=True)
            self._live.stop()

    def changed(self, unit: Unit, state: str) -> None:
        self.states[unit.name] = state
        if not self._live:
            now = standing(self.folder, unit)
            word = "continues" if state == "running" and now.update else state
            self._say(f"{unit.name} {word}" + (f": update {now.update}, {now.numbers}" if now.update else ""))

    def look(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (LIVE_SECONDS if self._live else LINE_SECONDS)
            if self._live:
                self._live.update(self.grid(), refresh=True)
            else:
                self._say(self.line())

    def line(self) -> str:
        """Where everything stands, in one line."""
        at_work = []
        for unit in self.units:
            if self.states[unit.name] == "running":
                now = standing(self.folder, unit)
                share = "" if now.share is None else f" ({now.share:.0%})"
                at_work.append(f"{unit.name} update {now.update}{share}")
        return f"{self._count('done')} of {len(self.units)} done; " + ("; ".join(at_work) or "none running")

    def grid(self) -> Table:
        """Those at work or failed, and as many of the others as fit, in the order of the units."""
        made = Table("run", "state", box=None, header_style="bold")
        for name in ("updates", "of budget", "minutes"):
            made.add_column(name, justify="right")
        made.add_column("")
        idle = [unit.name for unit in self.units if self.states[unit.name] in IDLE]
        waiting = [name for name in idle if self.states[name] == "waiting"][: NOT_RUNNING // 2]
        finished = [name for name in idle if self.states[name] != "waiting"][len(waiting) - NOT_RUNNING :]
        for unit in self.units:
            state = self.states[unit.name]
            if state in IDLE and unit.name not in (*waiting, *finished):
                continue
            now = standing(self.folder, unit)
            share = "" if now.share is None or not now.update else f"{now.share:.0%}"
            made.add_row(unit.name, state, f"{now.update:,}", share, f"{now.seconds / 60:.1f}", now.numbers)
        early = f", {count} stopped early" if (count := self._count("stopped early")) else ""
        made.caption = f"{self._count('done')} of {len(self.units)} done{early}, {self._count('waiting')} waiting"
        return made

    def _count(self, state: str) -> int:
        return sum(one == state for one in self.states.values())

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
