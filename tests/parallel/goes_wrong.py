"""Run by torchrun in two processes: everything that goes wrong for one of them or for both, one thing after the other.

Each process writes what it printed and its exit codes, as JSON, to the file named on the command line.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch.distributed import distributed_c10d

from hrnn import files
from hrnn.cli import main
from hrnn.training import loop
from tests.waiting import wait_for

SECOND = os.environ["RANK"] == "1"
FOLDER = Path(sys.argv[1]).parent
COPY = (
    "train copy --hidden-sizes 8 8 --periods 3 --window 5 --length 4 --test-sequences 20 --updates 30 --update batch"
    " --no-tensorboard"
)


def run(*arguments: str, folder: str) -> dict:
    """What the command prints in this process, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*COPY.split(), "--run", str(FOLDER / folder), *arguments])
        except SystemExit as stopped:
            code = stopped.code
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


@contextlib.contextmanager
def after_update(number: int, act, second: bool = True):
    """Do something in one process after an update."""
    original = loop.after_update

    def follow(run, sums):
        original(run, sums)
        if second == SECOND and run.position.updates == number:
            act()

    loop.after_update = follow
    yield
    loop.after_update = original


def impatient():
    """The others are waited for a second at most from now on."""
    distributed_c10d._set_pg_timeout(timedelta(seconds=1))


def impatient_from_the_beginning():
    """Half a minute, for a torch such as 2.6 that does not change the limit of a group that is there."""
    begin = torch.distributed.init_process_group
    limit = {"timeout": timedelta(seconds=30)}
    torch.distributed.init_process_group = lambda *given, **options: begin(*given, **options | limit)


def full_disk():
    """No room for any whole file from now on."""

    def full(source, target, **folders):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.os.replace = full


def raised():
    with files.writing(Path("/data")):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


if __name__ == "__main__":
    found = {"fine": run("--batch", "10", folder="fine")}
    found["fine"]["threads"] = torch.get_num_threads()
    found["uneven"] = run("--batch", "9", folder="uneven")
    found["options"] = run("--batch", "10", "--learning-rate", "0.1" if SECOND else "0.2", folder="options")
    found["unknown"] = run("--batch", "10", "--learning-rat", "0.1", folder="unknown")
    found["there"] = run("--batch", "10", folder="fine")
    with after_update(5, raised):
        found["one fails"] = run("--batch", "10", folder="one")
    replace = os.replace
    with after_update(5, full_disk, second=False):
        found["full disk"] = run("--batch", "10", "--checkpoint-seconds", "0", folder="full")
    os.replace = replace
    found["diverged"] = run("--batch", "10", "--optimizer", "sgd", "--learning-rate", "1e38", folder="diverged")
    with after_update(7, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        found["signal"] = run("--batch", "10", folder="signal")
    # A second process that does not answer: the first one gives up, and then the second finds nobody.
    given_up = FOLDER / "given up"
    impatient_from_the_beginning()
    with after_update(5, impatient, second=False), after_update(5, lambda: wait_for(given_up.exists, "nobody gives up")):
        found["asleep"] = run("--batch", "10", folder="asleep")
    given_up.touch()
    Path(f"{sys.argv[1]}.{os.environ['RANK']}").write_text(json.dumps(found))
