"""Ctrl-C and SIGTERM from the program's first line to its last: one line and exit code 130 or 143, never a traceback.

While modules are imported the process is left at once: there is nothing to clean up yet, and an exception in the middle of a
compiled module's import can surface as anything. While a command runs the signal is an exception, so that files and locks are
left in order; a second one leaves at once. When the exit code is decided, nothing changes it any more.
"""

import _signal as signal  # type: ignore[import-not-found]  # without the enums of signal, which take longer than all the rest
import os

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Watch:
    at_once = True


def watch() -> None:
    """Called once, before anything heavy is imported. What the parent process told us to ignore stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)


def command_begins() -> None:
    _Watch.at_once = False


def command_ended() -> None:
    """What is left is the interpreter's own end, which has no handlers any more."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _handle(number: int, frame: object) -> None:
    from hrnn.torchrun import is_first_process

    if _Watch.at_once:
        if is_first_process():
            os.write(2, b"hrnn: interrupted\n" if number == signal.SIGINT else b"hrnn: terminated\n")
        os._exit(128 + number)
    _Watch.at_once = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    from hrnn.errors import Terminated

    raise Terminated
