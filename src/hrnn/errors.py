"""What the command line says in one sentence instead of a traceback, and which process says it. Imports nothing heavy."""

import os


class UserError(ValueError):
    """Something that the user can mend."""


class DivergedError(Exception):
    """The loss, or a weight, is no longer a number."""


class LostError(Exception):
    """Another process of the job is gone, or does not answer."""


def is_first_process() -> bool:
    """False in all but one of the processes that torchrun starts: what all of them would say, only that one says."""
    return int(os.environ.get("WORLD_SIZE") or 1) == 1 or int(os.environ.get("RANK") or 0) == 0
