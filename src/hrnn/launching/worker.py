"""One unit in a process of its own: python -m hrnn.launching.worker FOLDER [TASK CELL READER...].

TASK, CELL and each READER are the modules that the user named and that the run may therefore import; "" for none.

Standard input is a pipe that only the parent can write to and never does. When it closes the parent is gone, however it
went, and the unit stops as on SIGTERM: with a checkpoint, so that nobody finds the folder busy or the machine at work.
It stops likewise when a file in the folder says that the run is losing: whoever decides that may be on another machine.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from hrnn.errors import EXPECTED, failure_code, stop_code

LOOK_SECONDS = 0.2  # between two looks for that file


def watch_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


def watch_for(file: Path) -> None:
    while not file.exists():
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, task: str = "", cell: str = "", *readers: str) -> int:
    """Begin or continue the run of the folder; what went wrong is the last line on standard error."""
    from hrnn.launching.units import EARLY
    from hrnn.training.display import Warnings
    from hrnn.training.identity import Trust
    from hrnn.training.loop import train

    threading.Thread(target=watch_for, args=(folder / EARLY,), daemon=True).start()
    try:
        outcome = train(folder, display=Warnings(), trust=Trust(task or None, cell or None, readers))
    except EXPECTED as error:
        print(error, file=sys.stderr)
        return failure_code(error)
    return stop_code(outcome.stopped)


if __name__ == "__main__":
    threading.Thread(target=watch_parent, daemon=True).start()
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
