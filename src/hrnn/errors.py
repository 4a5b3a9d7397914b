"""What the command line says in one sentence instead of a traceback, and the exit codes. Imports nothing."""

DONE, FAILED, MISTAKE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143  # there are no others
EXIT_CODES = {
    "interrupted": INTERRUPTED,
    "terminated": TERMINATED,
}  # of a run that a signal stopped; a time limit is no failure
ECHO = 80  # characters of a value that a message repeats


class UserError(ValueError):
    """Something that the user can mend."""


class DivergedError(Exception):
    """The loss, or a weight, is no longer a number."""


class LostError(Exception):
    """Another process of the job is gone, or does not answer; or the folder of the run is gone."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, for whoever has to clean up on the way out."""


def shortened(value: object, most: int = ECHO) -> str:
    """A value as a message repeats it: its beginning and its end where it is long."""
    try:
        text = str(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 4) :]} ({len(text):,} characters)"
