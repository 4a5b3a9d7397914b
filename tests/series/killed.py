"""`python -m tests.series.killed PLACE NUMBER ARGUMENTS`: hrnn ARGUMENTS, that kills itself when it comes to a place so often.

A place is where a power cut hurts: between a gradient and its update, in a checkpoint that is half written, in the cache.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from hrnn import cli
from hrnn.data.growing import GrowingArray
from hrnn.training import checkpoint, learning, loop

PLACES: dict[str, tuple[Any, str]] = {
    "update": (learning, "move"),
    "checkpoint": (checkpoint, "write_atomically"),
    "cache": (GrowingArray, "append"),
    "validation": (loop, "evaluated"),
}


def dying(work: Callable[..., Any], number: int) -> Callable[..., Any]:
    calls = 0

    def called(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*arguments, **options)

    return called


if __name__ == "__main__":
    place, number, *arguments = sys.argv[1:]
    holder, name = PLACES[place]
    setattr(holder, name, dying(getattr(holder, name), int(number)))
    sys.exit(cli.main(arguments))
