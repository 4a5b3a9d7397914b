"""What the command line says in one sentence instead of a traceback, and the exit codes. Imports nothing heavy."""

from hrnn.native import SettingError
from hrnn.torchrun import GroupError, LostError

DONE, FAILED, MISTAKE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143  # there are no others
EXIT_CODES = {"interrupted": INTERRUPTED, "terminated": TERMINATED}  # of a run that a signal stopped
EXTRAS = {  # and what they bring
    "cli": ("tyro", "rich", "matplotlib", "tensorboard", "pooch"),
    "ray": ("ray",),
    "data": ("pyarrow", "soundfile", "sklearn"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "hub": ("huggingface_hub",),
    "report": ("plotly", "jinja2"),
}
ECHO = 80  # characters of a value that a message repeats


class UserError(ValueError):
    """Something that the user can fix."""


class DivergedError(Exception):
    """The loss, or a weight, is no longer a number."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, for whoever has to clean up on the way out."""


EXPECTED = (UserError, SettingError, GroupError, DivergedError, LostError)  # what may end a command, in a sentence


def failure_code(error: Exception) -> int:
    """The exit code of a command that such an error ended."""
    return MISTAKE if isinstance(error, UserError | SettingError | GroupError) else FAILED


def stop_code(reason: str | None) -> int:
    """That of a run that went to its end or was stopped; a time limit is no failure."""
    return EXIT_CODES.get(reason or "", DONE)


def require_extra(name: str, what: str) -> None:
    """Before the import of what an extra of the package brings: where that is missing, one sentence says so."""
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in EXTRAS[name]):
        raise UserError(f"{what} needs hrnn[{name}]; pip install 'hrnn[{name}]'")


def words_of(error: BaseException) -> str:
    """An error as another one's sentence repeats it: its kind and what it says, in one line."""
    return f"{type(error).__name__}: {shortened(' '.join(str(error).split()), 200)}"


def shortened(value: object, most: int = ECHO) -> str:
    """A value as a message repeats it: its beginning and its end where it is long."""
    try:
        text = str(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 4) :]} ({len(text):,} characters)"
