"""One unit in a process of its own: python -m hrnn.experiments.worker FOLDER.

Standard input is a pipe that only the parent can write to and never does. When it closes the parent is gone, however it
went, and the unit stops as on SIGTERM: with a checkpoint, so that nobody finds the folder busy or the machine at work.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

DONE, FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130  # as the command line has them


def watch_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path) -> int:
    """Begin or continue the run of the folder; what went wrong is the last line on standard error."""
    from hrnn.errors import DivergedError, UserError
    from hrnn.training.loop import train
    from hrnn.training.progress import Warnings

    try:
        outcome = train(folder, progress=Warnings())
    except UserError as error:
        print(error, file=sys.stderr)
        return MISTAKE
    except DivergedError as error:
        print(error, file=sys.stderr)
        return FAILED
    return INTERRUPTED if outcome.stopped else DONE


if __name__ == "__main__":
    threading.Thread(target=watch_parent, daemon=True).start()
    sys.exit(main(Path(sys.argv[1])))
