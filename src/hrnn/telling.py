"""How far long work is, for who watches a program: one line in a terminal, written over again and again, or a line now and then
in a log. A library tells nothing: nobody is told before `tell` was called, and that is for a program to do."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

T = TypeVar("T")
PATIENCE, INTERVAL = 1.0, 0.5  # seconds before anything is said in a terminal, and between two times
LINES = 10.0  # the same, both, where lines stay
CLEAR = "\r\x1b[2K"


class Teller:
    """Says what is going on, from a thread of its own, as whatever is going on may not come back for long."""

    def __init__(self, stream: TextIO):
        self.stream, self.terminal, self.process = stream, stream.isatty(), os.getpid()
        self.works: list[list[str]] = []  # what is being done and how far it is, the innermost last
        self._begun, self._said = 0.0, False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, doing: str) -> list[str]:
        self.works.append([doing, ""])
        if self._thread is None:
            self._begun, self._said = time.monotonic(), False
            self._ended.clear()
            self._thread = threading.Thread(target=self._tell, daemon=True)
            self._thread.start()
        return self.works[-1]

    def end(self) -> None:
        self.works.pop()
        if not self.works and self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None
            if self._said and self.terminal:
                self._write(CLEAR)

    def _tell(self) -> None:
        wait = PATIENCE if self.terminal else LINES
        while not self._ended.wait(wait):
            wait = INTERVAL if self.terminal else LINES
            self._said = True
            line = self.line()
            room = shutil.get_terminal_size().columns - 1
            self._write(f"{CLEAR}{line[:room]}" if self.terminal else f"{line}\n")

    def line(self) -> str:
        parts = [f"{doing}: {far}" if far else doing for doing, far in list(self.works)]
        return f"{' · '.join(parts)}, {duration(time.monotonic() - self._begun)}"

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # nobody is there any more; the work goes on
            pass


_teller: Teller | None = None


def tell(stream: TextIO | None = None) -> None:
    """From now on this process tells what its main thread does, on standard error by default."""
    global _teller
    stream = stream or sys.stderr
    _teller = None if stream is None else Teller(stream)  # closed by whoever started us


@contextmanager
def working(doing: str) -> Iterator[Callable[[str], None]]:
    """Around work that may take long; what it yields is told how far that is. Nothing is said of what is over soon."""
    teller = _teller
    # A process that was forked is looked after by others; other threads answer somebody else, as those of a server.
    silent = teller is None or teller.process != os.getpid() or threading.current_thread() is not threading.main_thread()
    if teller is None or silent:
        yield lambda far: None
        return
    work = teller.begin(doing)

    def at(far: str) -> None:
        work[1] = far

    try:
        yield at
    finally:
        teller.end()


def followed(doing: str, items: Iterable[T], unit: str = "") -> Iterator[T]:
    """The items, one by one; how many there were is told, and of how many, where that is known."""
    of = f" of {len(items):,}" if isinstance(items, Sequence) else ""
    with working(doing) as at:
        for count, item in enumerate(items, 1):
            at(f"{count:,}{of} {unit}".rstrip())
            yield item


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
