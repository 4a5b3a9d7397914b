"""What stands in the folder of a run, read as plain JSON: nothing that is named there is imported, and neither is torch."""

from __future__ import annotations

import fcntl
import hashlib
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hrnn
from hrnn.errors import UserError, shortened, words_of
from hrnn.files import content_of, opened
from hrnn.formats import check_format, numbered
from hrnn.metrics import Metrics

HEADER_BYTES = 100_000_000  # at most, as safetensors has it
CONFIG, RESULT, LOCK = "config.json", "result.json", "lock"
METRICS = "metrics"  # in config.json: how the run's numbers read
ABOUT = "about"  # what its task found in the data, in words, and how wide inputs and outputs are
SECTIONS = ("task", "model", "learning", "budget", "upkeep")
SWEEP = "sweep.json"  # in the folder of a sweep: what every run of it has in common, and what was varied


def checksum(entries: dict[str, Any]) -> str:
    """Of everything but the checksum itself, whatever the order and the white space."""
    content = {key: value for key, value in entries.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(entries: dict[str, Any]) -> dict[str, Any]:
    """Entries as config.json holds them."""
    content = numbered("run", {"version": hrnn.__version__, **entries})
    return {**content, "checksum": checksum(content)}


def read_whole(folder: Path) -> dict[str, Any]:
    """All that config.json holds; one that was edited, or is not of this version's format, is refused."""
    path = folder / CONFIG
    try:
        stored = json.loads(content_of(path))
        if not isinstance(stored, dict):
            raise TypeError("it holds no entries")
        if strange := [name for name in SECTIONS if not isinstance(stored.get(name), dict)]:
            raise TypeError(f"it has no {strange[0]}")
        check_format("run", stored, path)
        if stored.get("checksum") != checksum(stored):
            _refuse_edits(folder, stored)
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{folder} holds no run (no {CONFIG}); hrnn runs lists those of a folder") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise cannot_read(path, error) from None
    return stored


def read_entries(folder: Path) -> dict[str, Any]:
    """The options of a run."""
    entries = read_whole(folder)
    return {name: entries[name] for name in SECTIONS}


def metrics_of(entries: dict[str, Any]) -> Metrics:
    """What a run is measured by, from all that its config.json holds."""
    try:
        return Metrics.from_json(entries[METRICS])
    except (UserError, KeyError, TypeError, ValueError, AttributeError):  # to be shown, no more than that
        return Metrics()


def _refuse_edits(folder: Path, entries: dict[str, Any]) -> None:
    """config.json is not what was written: refuse it, and say what differs as far as a checkpoint tells.

    Where data are may change, as long as they are the same: whoever reads them compares their checksums.
    """
    began = as_checkpointed(folder)
    difference = "its checksum does not match, and no checkpoint tells what it was"
    if began is not None:
        known = {name: entries.get(name) for name in began}
        moved = edited_paths(began["task"], entries["task"], began["data"])
        difference = in_words(began, known, moved, "{name} is {here} and was {there}")
    if difference:
        raise UserError(
            f"{folder / CONFIG} was edited ({difference}); undo that: a run goes on as it began. "
            f"hrnn resume {folder} --updates N gives it another budget, and other options are for a run of their own"
        )


def as_checkpointed(folder: Path) -> dict[str, Any] | None:
    """The entries that the newest checkpoint carries which can be read: from its header alone."""
    for path in sorted(folder.glob("checkpoints/update-*.safetensors"), reverse=True):
        try:
            with opened(path) as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, HEADER_BYTES)))
            return dict(json.loads(header["__metadata__"]["facts"])["config"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return None


def read_result(folder: Path) -> dict[str, Any] | None:
    """What a finished run found; None while it is not finished."""
    try:
        entries = json.loads(content_of(folder / RESULT))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise cannot_read(folder / RESULT, error) from None
    if not isinstance(entries, dict):
        raise no_result(folder)
    return check_format("run", entries, folder / RESULT)


def no_result(folder: Path) -> UserError:
    return UserError(f"{folder / RESULT} holds no result; remove it, and hrnn resume {folder} writes it again")


def whole_result(folder: Path, metrics: Metrics) -> dict[str, Any] | None:
    """The same, for whoever needs all that every result says, each of the right kind."""
    result = read_result(folder)
    if result is None:
        return None
    kinds: dict[str, Any] = {"reason": str, "updates": int, "sequences": int, "seconds": int | float}
    if (progress := metrics.progress) is not None and progress.in_result in result:
        kinds |= {progress.in_result: int | float, "at_least": bool}
    kinds |= {part: dict for part in ("validation", "test") if part in result}
    whole = all(isinstance(result.get(name), kind) for name, kind in kinds.items())
    if not whole or not 0 <= result["seconds"] < 2**63:
        raise no_result(folder)
    return result


def cannot_read(path: Path, error: Exception) -> UserError:
    """Why a file cannot be read, in a sentence that does not quote what may be long."""
    why = error.strerror or str(error) if isinstance(error, OSError) else words_of(error)
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


def flat(entries: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested entries by their path, such as "task.data"."""
    by_path: dict[str, Any] = {}
    for name, value in entries.items():
        by_path |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return by_path


def in_words(
    there: dict[str, Any],
    here: dict[str, Any],
    ignored: Sequence[str] = (),
    pattern: str = "{name} is {there} there and {here} here",
) -> str:
    """The first few options in which configurations as JSON differ; ignored: options by their path, such as "task.data"."""
    first, second = flat(there), flat(here)
    named = [
        pattern.format(name=name, there=shortened(first.get(name)), here=shortened(second.get(name)))
        for name in sorted(first.keys() | second.keys())
        if name not in ignored and first.get(name) != second.get(name)
    ]
    return "; ".join(named[:3]) + ("; ..." if len(named) > 3 else "")


def edited_paths(before: dict[str, Any], after: dict[str, Any], data: dict[str, Any] | None) -> list[str]:
    """Options of a task that say where its data are: a user who moves data edits these, and nothing else.

    before: the task's entries when the run began, whose data were these
    """
    places = {Path(path) for path in data or {}}
    places |= {path.parent for path in places}

    def names_data(value: Any) -> bool:
        several = value if isinstance(value, list) else [value]
        return bool(several) and all(isinstance(path, str) and Path(path).absolute() in places for path in several)

    return [f"task.{name}" for name, value in before.items() if name in after and name != "name" and names_data(value)]
