"""What a user sees of a run while it learns: a live line in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hrnn.errors import require_extra
from hrnn.tasks import Batch
from hrnn.telling import duration
from hrnn.training.config import Config
from hrnn.training.edges import unusual
from hrnn.training.run import Run

if TYPE_CHECKING:  # whoever shows nothing needs no hrnn[cli]
    from rich.console import Console

BAR, PERCENTAGE = 12, 7  # columns of a terminal
PATIENCE = 2.0  # seconds of scoring before anything is said about it


class Display:
    """Shows nothing; the base of those that do."""

    interval = float("inf")  # seconds between two looks at the run
    _next = 0.0

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        """Around the loop."""
        yield

    def announce(self, config: Config[Any]) -> None:
        """Before a new run begins: what its task found in the data, and what was chosen."""
        for line in chosen(config):
            self.note(line)

    def note(self, words: str) -> None:
        """Print what is worth knowing of the run."""

    def warn(self, run: Run) -> None:
        """Print what may be wrong with the run."""
        for warning in run.warnings:
            print(f"warning: {warning}", file=sys.stderr, flush=True)

    def show(self, run: Run) -> None:
        """Called after every update, so it mostly returns at once."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.interval
            self.render(run)

    def render(self, run: Run) -> None:
        """Show how far the run is."""

    def scoring(self, part: str, batches: Iterable[Batch]) -> Iterable[Batch]:
        """The batches of a validation or test, on their way to being scored."""
        return counted(part, batches, self.say, self.interval)

    def say(self, words: str) -> None:
        """Show what else is going on."""


class Warnings(Display):
    """Only what may be wrong with the run, for a process that nobody watches."""

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        self.warn(run)
        yield


class Lines(Display):
    """One plain line now and then, for logs."""

    interval = 10.0

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        self._pace = Pace(run)
        self.warn(run)
        yield
        self.render(run)

    def render(self, run: Run) -> None:
        self.say(" · ".join([f"{min(run.done, 1):.1%}", *self._pace.parts(run)]))

    def say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    note = say


class Live(Display):
    """A bar with rate, time left, losses and memory, redrawn twice a second."""

    interval = 0.5

    def __init__(self, console: Console):
        self.console = console

    def note(self, words: str) -> None:
        self.console.print(words, highlight=False, markup=False)

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._pace = Pace(run)
        for warning in run.warnings:
            self.console.print(f"[yellow]warning:[/yellow] {warning}")
        columns = (BarColumn(bar_width=BAR), TextColumn("{task.percentage:>5.1f} %"), TextColumn("{task.description}"))
        # Redrawing from a thread of its own would take time from the training at moments of its choosing.
        with Bar(*columns, console=self.console, auto_refresh=False) as self._bar:
            self._line = self._bar.add_task("", total=1.0)
            yield
            self.render(run)

    def render(self, run: Run) -> None:
        self._bar.update(self._line, completed=min(run.done, 1.0))
        self.say(*self._pace.parts(run))

    def say(self, *parts: str) -> None:
        room = self.console.width - BAR - PERCENTAGE - 3
        self._bar.update(self._line, description=fitted(parts, room))
        self._bar.refresh()


def chosen(config: Config[Any]) -> Iterator[str]:
    """What a task found in its data, and the options that suit them; nothing where the task has no notes."""
    if notes := list(config.task.notes()):
        yield from notes
        model, learning, budget = config.model, config.learning, config.budget
        options = {
            "hidden_sizes": model.hidden_sizes, "periods": model.periods, "window": model.window, "batch": learning.batch,
            "learning_rate": learning.learning_rate, "schedule": learning.schedule, "epochs": budget.epochs,
            "updates": budget.updates, "sequences": budget.sequences, **unusual(model),
        }  # fmt: skip
        given = {name: value if isinstance(value, tuple) else (value,) for name, value in options.items() if value is not None}
        yield "options: " + " ".join(f"--{name.replace('_', '-')} {' '.join(map(str, some))}" for name, some in given.items())


def fitted(parts: Sequence[str], room: int) -> str:
    """As many parts as there is room for, the first ones first; what is too long for the rest lets a shorter one pass."""
    taken: list[str] = []
    for part in parts:
        if len(" · ".join([*taken, part])) <= room:
            taken.append(part)
    return " · ".join(taken) or parts[0][: max(0, room)]


def counted(part: str, batches: Iterable[Batch], say: Callable[[str], None], interval: float) -> Iterator[Batch]:
    """The batches; where they take long, `say` is told now and then how many there were."""
    begun = time.monotonic()
    due = begun + PATIENCE
    for count, batch in enumerate(batches, 1):
        yield batch
        now = time.monotonic()
        if now >= due:
            due = now + interval
            say(f"{part}: {count} batches scored in {duration(now - begun)}")


class Pace:
    """A run's state in parts, what one looks for first at the front; the rate is that since the last call."""

    def __init__(self, run: Run):
        self._last = (time.monotonic(), run.position.updates, run.done)

    def parts(self, run: Run) -> list[str]:
        now, updates, done = time.monotonic(), run.position.updates, run.done
        elapsed = max(now - self._last[0], 1e-9)
        rate, speed = (updates - self._last[1]) / elapsed, (done - self._last[2]) / elapsed
        self._last = (now, updates, done)
        numbers, metrics = run.latest or run.report(), run.task.measured
        named = {name: f"{(of := metrics.named(name)).short} {of.text(value)}" for name, value in numbers.items()}
        judged = metrics.score.name if metrics.score.name in named else "loss"
        parts = [f"{duration((1 - done) / speed)} left"] if speed > 0 and done < 1 else []
        parts += [named.pop(judged)] if judged in named else []
        parts += [f"{name} {value}" for name, value in run.course.status.items()]
        parts += [f"update {updates}", f"mem {resident_bytes() / 1e6:.0f} MB"]
        if run.position.best is not None:
            parts.append(f"best {metrics.score.text(run.position.best)}")
        if run.per_epoch:
            parts.append(f"epoch {run.position.batches / run.per_epoch:.2f}")
        parts.append(f"{rate:.2f} updates/s")
        return [*parts, *named.values()]


def resident_bytes() -> int:
    """Memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc: the peak is the next best thing
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def suitable_display() -> Display:
    """A live bar in a terminal, lines elsewhere."""
    require_extra("cli", "a display of training")
    from rich.console import Console

    console = Console(stderr=True)
    return Live(console) if console.is_terminal else Lines()
