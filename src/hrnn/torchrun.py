"""How this process was started: alone, or by torchrun as one of several. Imports nothing heavy."""

from __future__ import annotations

import os


class GroupError(ValueError):
    """The processes of a job were not started so that they can work together."""


class LostError(Exception):
    """What a process needs to go on is gone: another process of the job, or the folder of its run."""


def many() -> bool:
    """Was this process started as one of several?"""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def launched() -> bool:
    """Was it started by a launcher, which passes signals on, perhaps more than once?"""
    return many() or "TORCHELASTIC_RUN_ID" in os.environ


def restarts() -> int:
    """How often torchrun has started the job again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)


def launcher() -> str:
    """What started this process: the same for all that torchrun starts, and starts again, for one job."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return name if name != "none" else str(os.getppid())


def is_first_process() -> bool:
    """False in all but one of the processes that torchrun starts: what all of them would say, only that one says."""
    return int(os.environ.get("WORLD_SIZE") or 1) == 1 or int(os.environ.get("RANK") or 0) == 0
