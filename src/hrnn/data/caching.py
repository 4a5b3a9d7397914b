"""Sequences on disk, made once: a folder that is whole or not there, and that knows the files it was made of."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hrnn.data.fingerprints import differs, fingerprint
from hrnn.data.sequences import FORMAT, MANIFEST, Sequences
from hrnn.data.source import Source
from hrnn.data.writing import write
from hrnn.errors import UserError
from hrnn.room import memory_of_machine


def cache(
    source: Source,
    folder: str | Path | None = None,
    *,
    verify: bool = False,
    replace: bool = False,
    sort_budget: int | None = None,
) -> Sequences:
    """The sequences of a source, from a cache that is there or is made now.

    folder:      where the cache is, or is to be; None: in a temporary folder, which is removed with the object. What was in
                 memory cannot be compared with what is there: give None, or replace
    verify:      compare checksums of the source's files, not only size and time, with what a cache that is there was made of
    replace:     make the cache anew if it was made of other data; otherwise that is an error
    sort_budget: bytes of a file that may be brought into order, where rows of different ids are mixed; by default half the
                 machine's memory

    Reads every file once, in blocks; memory does not grow with the number of steps, and by some 200 bytes with each sequence.
    If anything fails, nothing is left behind.
    """
    budget = (memory_of_machine() or 1 << 34) // 2 if sort_budget is None else sort_budget
    if folder is None:
        return _temporary(source, budget)
    place = Path(folder).expanduser().absolute()
    if (sequences := _there(place, source, verify, replace)) is not None:
        return sequences
    with _partial(place) as partial:
        if (sequences := _there(place, source, verify, replace)) is not None:  # made by another process meanwhile
            return sequences
        make(source, partial, budget, sync=True)
        old = partial.with_name(f".{place.name}.old")
        shutil.rmtree(old, ignore_errors=True)  # of a process that was killed just here
        if _filled(place):
            os.rename(place, old)
        os.rename(partial, place)
        shutil.rmtree(old, ignore_errors=True)
        _sync(place.parent)
    return Sequences(place)


def _there(place: Path, source: Source, verify: bool, replace: bool) -> Sequences | None:
    """The cache, if it is there and made of the same data; None if it is to be made. What is no cache is never replaced."""
    if not _filled(place):
        return None
    sequences = Sequences(place)
    said = _other_options(sequences, source) or "; ".join(differences(sequences, verify)[:3])
    if not said and source.files():
        return sequences
    if not replace:
        raise UserError(f"the cache {place} was made of other data ({said or 'arrays'}); remove it, or give another folder")
    return None


def _filled(place: Path) -> bool:
    return place.exists() and not (place.is_dir() and not any(place.iterdir()))


def differences(sequences: Sequences, verify: bool = False) -> list[str]:
    """How the files that a cache was made of are no longer what they were, in words; each with its path.

    Same size and time of change: the same, unless `verify`. Another size: changed. Otherwise the checksum decides.
    """
    known = sequences.manifest["files"]
    return [f"{path} {words}" for path in known if (words := differs(Path(path), known[path], verify)) is not None]


def _other_options(sequences: Sequences, source: Source) -> str:
    """How a cache was made otherwise than the source says, in words."""
    before, now = sequences.manifest["source"], json.loads(json.dumps(source.options()))
    if list(sequences.manifest["files"]) != [str(path) for path in source.files()]:
        return "other files"
    return ", ".join(f"{key} {before.get(key)!r}" for key in now | before if before.get(key) != now.get(key))


def make(source: Source, folder: Path, sort_budget: int, sync: bool) -> None:
    """Write a cache into an empty folder."""
    files = source.files()
    before = {path: _stat(path) for path in files}
    manifest = write(source.open(), folder, sort_budget)
    known = {str(path): {**fingerprint(path), "mtime_ns": before[path][1]} for path in files}
    if changed := [path for path in files if _stat(path) != before[path]]:
        raise UserError(f"{changed[0]} changed while it was read; wait until it is complete")
    manifest = {"format": FORMAT, "source": source.options(), "files": known, **manifest}
    with open(folder / MANIFEST, "w") as file:
        json.dump(manifest, file)
    if sync:
        for path in [*folder.iterdir(), folder]:
            _sync(path)


def _sync(path: Path) -> None:
    """Have a file, or what a folder holds, on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _stat(path: Path) -> tuple[int, int]:
    try:
        now = path.stat()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    return now.st_size, now.st_mtime_ns


def _temporary(source: Source, budget: int) -> Sequences:
    with _writing(Path(tempfile.gettempdir())):
        holder = tempfile.TemporaryDirectory(prefix="hrnn-", ignore_cleanup_errors=True)
        try:
            make(source, Path(holder.name), budget, sync=False)
        except BaseException:
            holder.cleanup()
            raise
    sequences = Sequences(holder.name)
    sequences.holder = holder  # removed with it
    return sequences


@contextmanager
def _partial(place: Path) -> Iterator[Path]:
    """A folder beside the cache to be filled and renamed; held by one process at a time, and gone afterwards."""
    partial = place.with_name(f".{place.name}.partial")
    with _writing(place):
        lock = _locked(partial)
        try:
            for path in partial.iterdir():  # of a process that was killed
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            yield partial
        finally:
            with suppress(OSError):
                if _is_still(lock, partial):
                    shutil.rmtree(partial)
            os.close(lock)


def _locked(partial: Path) -> int:
    while True:
        partial.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = os.open(partial, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_still(lock, partial):
                return lock
            os.close(lock)  # whoever had it has finished


def _is_still(lock: int, partial: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), partial.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """A full disk, a quota or missing permission, as a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the cache {place} cannot be written: {error.strerror or error}; nothing is left of it, make room or give another "
            f"folder"
        ) from None
