"""One line for what no check foresaw: memory that ran out, files, a user's own code, and mistakes of the program itself."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

HOME = str(Path(__file__).parent)
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "unable to allocate", "out of memory", "std::bad_alloc")
SHOW = "HRNN_TRACEBACK=1 in the environment shows where it came from"


def sentence(error: Exception) -> str:
    """What to say of an error that ends a command."""
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(words in what.lower() for words in OUT_OF_MEMORY):
        return f"the machine's memory is not enough for this; give a smaller --batch, --window or --hidden-sizes ({what})"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'} cannot be read or written: {error.strerror}"
    if place := users_place(error):
        return f"{place}: {what}; {SHOW}"
    return f"this is a mistake of the program: {what}; {SHOW}, please report it"


def users_place(error: BaseException) -> str | None:
    """The innermost line of a file that is neither ours nor a library's: a user's own task or cell."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        inside = frame.filename.startswith((HOME, *LIBRARIES)) or frame.filename.startswith("<")
        if not inside:
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    return None
