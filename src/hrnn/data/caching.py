"""Sequences on disk, made once: a folder that is whole or not there, and that knows the files it was made of."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from weakref import finalize

from hrnn.arguments import flag, path_of, whole
from hrnn.data.fingerprints import differs, fingerprint
from hrnn.data.sequences import MANIFEST, Sequences, checksum
from hrnn.data.source import Source
from hrnn.data.writing import write
from hrnn.errors import UserError
from hrnn.files import check_ours, create, folder_of, make_folder, move, remove, remove_folder, sync
from hrnn.formats import numbered
from hrnn.room import memory_of_machine

OURS = (  # names of the files in a cache, or in one that is being made
    r"(values|times|step_targets|runs|missing|offsets|ids|id_ends|target|part|group)\.(npy|grouped)|cache\.json"
)


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
    flag("verify", verify), flag("replace", replace)
    budget = (memory_of_machine() or 1 << 34) // 2 if sort_budget is None else whole("sort_budget", sort_budget)
    if folder is None:
        return _temporary(source, budget)
    place = path_of("folder", folder).expanduser().absolute()
    if (sequences := _there(place, source, verify, replace)) is not None:
        return sequences
    with _partial(place) as partial:
        if (sequences := _there(place, source, verify, replace)) is not None:  # made by another process meanwhile
            return sequences
        old = place.with_name(f".{place.name}.old")
        remove_folder(old, OURS)  # of a process that was killed between the two renames below
        check_ours(place, OURS)
        make(source, partial, budget, lasting=True)
        if _filled(place):
            move(place, old)
        move(partial, place)
        remove_folder(old, OURS)
        sync(place.parent)
    return Sequences(place)


def cached(source: Source, folder: Path) -> Sequences | None:
    """The sequences of a source from a cache that is there, which is only read; None if there is none of just these data."""
    return _there(folder, source, verify=False, replace=True)


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


def make(source: Source, folder: Path, sort_budget: int, lasting: bool) -> None:
    """Write a cache into an empty folder; lasting: have it on the disk."""
    files = source.files()
    before = {path: _stat(path) for path in files}
    manifest = write(source.open(), folder, sort_budget)
    known = {str(path): {**fingerprint(path), "mtime_ns": before[path][1]} for path in files}
    if changed := [path for path in files if _stat(path) != before[path]]:
        raise UserError(f"{changed[0]} changed while it was read; wait until it is complete")
    manifest = numbered("cache", {"source": source.options(), "files": known, **manifest})
    with create(folder / MANIFEST) as file:
        file.write(json.dumps({**manifest, "checksum": checksum(manifest)}).encode())
    if lasting:
        for path in [*folder.iterdir(), folder]:
            sync(path)


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
            make(source, Path(holder.name), budget, lasting=False)
        except BaseException:
            holder.cleanup()
            raise
    sequences = Sequences(holder.name)
    finalize(sequences, holder.cleanup)  # removed with it
    return sequences


@contextmanager
def _partial(place: Path) -> Iterator[Path]:
    """A folder beside the cache to be filled and renamed; held by one process at a time, and gone afterwards."""
    partial = place.with_name(f".{place.name}.partial")
    make_folder(place.parent)
    with _writing(place), _locked(partial) as lock:
        check_ours(partial, OURS)
        try:
            for path in partial.iterdir():  # of a process that was killed
                remove(path, partial.parent)
            yield partial
        finally:
            with suppress(OSError, UserError):
                if _is_still(lock, partial):
                    remove_folder(partial, OURS)


@contextmanager
def _locked(partial: Path) -> Iterator[int]:
    while True:
        make_folder(partial, partial.parent)
        with ExitStack() as held:
            try:
                lock = held.enter_context(folder_of(partial / MANIFEST, partial.parent))
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_still(lock, partial):  # otherwise whoever had it has finished
                yield lock
                return


def _is_still(lock: int, partial: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), partial.lstat())
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
