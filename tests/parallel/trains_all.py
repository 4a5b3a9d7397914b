"""Run by torchrun in two processes: one run after the other, each killed once.

On the command line: a JSON file of {"name": [arguments of hrnn], ...} and how many of the runs, the first ones, are killed. In
the attempt number n (from 0) the second process kills itself in the middle of run number n, and torchrun starts both again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from hrnn.cli import main
from hrnn.torchrun import restarts
from hrnn.training import loop

KILLED_AT = 17  # updates


def killed_after_some_updates(after_update):
    def follow(run, sums):
        after_update(run, sums)
        if run.position.updates >= KILLED_AT and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)

    return follow


if __name__ == "__main__":
    commands, kills = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
    original = loop.after_update
    for number, arguments in enumerate(commands.values()):
        loop.after_update = killed_after_some_updates(original) if number == restarts() < kills else original
        code = main(arguments)
        if code:
            sys.exit(code)
