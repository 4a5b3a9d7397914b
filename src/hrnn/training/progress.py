"""What a user sees of a run while it learns: a live line in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from hrnn.training.run import Run


class Progress:
    """Shows nothing; the base of those that do."""

    interval = float("inf")  # seconds between two looks at the run

    def __init__(self) -> None:
        self._next = 0.0

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        """Around the loop."""
        yield

    def show(self, run: Run) -> None:
        """Called after every update, so it mostly returns at once."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.interval
            self.render(run, now)

    def render(self, run: Run, now: float) -> None:
        """Show how far the run is."""


class Warnings(Progress):
    """Only what may be wrong with the run, for a process that nobody watches."""

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        for warning in run.warnings:
            print(f"warning: {warning}", file=sys.stderr, flush=True)
        yield


class Lines(Progress):
    """One plain line now and then, for logs."""

    interval = 10.0

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        self._pace = Pace(run)
        for warning in run.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        yield
        print(self._pace.line(run), file=sys.stderr, flush=True)

    def render(self, run: Run, now: float) -> None:
        print(self._pace.line(run), file=sys.stderr, flush=True)


class Live(Progress):
    """A bar with rate, time left, losses and memory, redrawn twice a second."""

    interval = 0.5

    def __init__(self, console: Console):
        super().__init__()
        self.console = console

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        self._pace = Pace(run)
        for warning in run.warnings:
            self.console.print(f"[yellow]warning:[/yellow] {warning}")
        columns = (BarColumn(bar_width=20), TextColumn("{task.percentage:>5.1f} %"), TextColumn("{task.description}"))
        # Redrawing from a thread of its own would take time from the training at moments of its choosing.
        with Bar(*columns, console=self.console, auto_refresh=False) as self._bar:
            self._line = self._bar.add_task("", total=1.0)
            yield
            self.render(run, time.monotonic())

    def render(self, run: Run, now: float) -> None:
        self._bar.update(self._line, completed=min(run.done, 1.0), description=self._pace.line(run))
        self._bar.refresh()


class Pace:
    """A run's state as one line; the rate is that since the line before."""

    def __init__(self, run: Run):
        self._last = (time.monotonic(), run.position.updates, run.done)

    def line(self, run: Run) -> str:
        now, updates, done = time.monotonic(), run.position.updates, run.done
        elapsed = max(now - self._last[0], 1e-9)
        rate, speed = (updates - self._last[1]) / elapsed, (done - self._last[2]) / elapsed
        self._last = (now, updates, done)
        parts = [f"update {updates}"]
        if run.per_epoch:
            parts.append(f"epoch {run.position.batches / run.per_epoch:.2f}")
        parts += [f"{name} {value}" for name, value in run.course.status.items()]
        parts += [f"{name} {_short(value)}" for name, value in (run.latest or run.report()).items()]
        if run.position.best is not None:
            parts.append(f"best {run.position.best:.4f}")
        parts += [f"{rate:.2f} updates/s", f"{resident_bytes() / 1e6:.0f} MB"]
        if speed > 0 and done < 1:
            parts.append(f"{_duration((1 - done) / speed)} left")
        return " · ".join(parts)


def _short(value: Any) -> str:
    numbers = value if isinstance(value, list) else [value]
    return " ".join("-" if one is None else f"{one:.4f}" for one in numbers)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def resident_bytes() -> int:
    """Memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc: the peak is the next best thing
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def suitable() -> Progress:
    """A live bar in a terminal, lines elsewhere."""
    console = Console(stderr=True)
    return Live(console) if console.is_terminal else Lines()
