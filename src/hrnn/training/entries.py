"""What stands in the folder of a run, read as plain JSON: nothing that is named there is imported, and neither is torch."""

from __future__ import annotations

import fcntl
import json
import stat
from pathlib import Path
from typing import Any

import hrnn
from hrnn.errors import UserError

FORMAT = 1  # of the run folder; raised when an older run can no longer be continued
CONFIG, RESULT, LOCK = "config.json", "result.json", "lock"


def content_of(path: Path) -> bytes:
    """A file as it stands. Whatever is no file (a pipe would let its reader wait for ever) is an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is no regular file")
    return path.read_bytes()


def read_entries(folder: Path) -> dict[str, Any]:
    """config.json as it stands, if this version understands it."""
    try:
        entries = json.loads(content_of(folder / CONFIG))
        written_by, written_as = entries["version"], entries["format"]
    except FileNotFoundError:
        raise UserError(f"{folder} holds no run (no {CONFIG}); hrnn runs lists those of a folder") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise cannot_read(folder / CONFIG, error) from None
    if written_as != FORMAT:
        raise UserError(
            f"{folder} was written by hrnn {written_by} (format {written_as}) and this is {hrnn.__version__} "
            f"(format {FORMAT}); use that version: pip install hrnn=={written_by}"
        )
    return with_old_values({key: value for key, value in entries.items() if key not in ("format", "version")})


def with_old_values(entries: dict[str, Any]) -> dict[str, Any]:
    """A configuration; options that the version that wrote it did not have say what it did, never today's default."""
    upkeep = entries.get("upkeep")
    return entries | ({"upkeep": {"frozen_every": 0, **upkeep}} if isinstance(upkeep, dict) else {})


def read_result(folder: Path) -> dict[str, Any] | None:
    """What a finished run found; None while it is not finished."""
    try:
        entries = json.loads(content_of(folder / RESULT))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise cannot_read(folder / RESULT, error) from None
    if not isinstance(entries, dict):
        raise UserError(f"{folder / RESULT} holds no result; remove it, and hrnn resume {folder} writes it again")
    return entries


def cannot_read(path: Path, error: Exception) -> UserError:
    """Why a file cannot be read, in a sentence that does not quote what may be long."""
    why = error.strerror or str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {str(error)[:100]}"
    return UserError(f"{path} cannot be read ({why})")


def is_locked(folder: Path) -> bool:
    """Is a process at work on this run?"""
    try:
        if not stat.S_ISREG((folder / LOCK).stat().st_mode):
            return False
        with open(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
