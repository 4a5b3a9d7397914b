"""When a run stops for now, to be resumed: signals and the time limit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """Why to stop for now: a signal, or the time limit. A second signal ends the process at once.

    patient: further signals change nothing: a launcher passes on what the terminal has sent already, and sets its own limit
    """

    def __init__(self, minutes: float | None, patient: bool = False):
        self._patient = patient
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self._signal: int | None = None  # the first one
        self._raises = False
        self._before: dict[int, Any] = {}

    @property
    def reason(self) -> str | None:
        return why(*self.reasons)

    @property
    def reasons(self) -> tuple[bool, bool, bool]:
        """Interrupted, terminated, late."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return self._signal == signal.SIGINT, self._signal == signal.SIGTERM, late

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Around what need not be finished, because a checkpoint has all before it: a signal, also an earlier one, is raised as
        KeyboardInterrupt."""
        self._raises = not self._patient
        if self._raises and self._signal is not None:
            raise KeyboardInterrupt
        yield
        self._raises = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or number
        if not self._patient:
            self._restore()
        if self._raises:
            raise KeyboardInterrupt

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        self._before = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # handlers cannot be set elsewhere
            self._before = {n: signal.signal(n, self._handle) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()


def why(interrupted: bool, terminated: bool, late: bool) -> str | None:
    """The reason in words."""
    return "interrupted" if interrupted else "terminated" if terminated else "time limit" if late else None
