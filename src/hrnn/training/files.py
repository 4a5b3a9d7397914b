"""Files that a crash cannot spoil: whole files written at once, and files that only grow and can be cut back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hrnn.errors import UserError
from hrnn.torchrun import LostError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A full disk, a quota, missing permission or a folder that was removed, as a sentence."""
    try:
        yield
    except FileNotFoundError:
        raise LostError(f"{path} cannot be written: the folder {path.parent} is gone") from None
    except OSError as error:
        room = "make room and try again (a run's earlier checkpoints are intact, and hrnn resume continues it)"
        remedy = room if error.errno in FULL else "see to it that this folder can be written to, or give another one"
        raise UserError(f"{path} cannot be written: {error.strerror or error}; {remedy}") from None


def opened(path: Path) -> BinaryIO:
    """A file to be read. Whatever is not a file (a pipe would let its reader wait for ever) is an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    return open(path, "rb")


def content_of(path: Path) -> bytes:
    """All of a file."""
    with opened(path) as file:
        return file.read()


def make_folder(path: Path, parents: bool = True) -> None:
    with writing(path):
        path.mkdir(parents=parents, exist_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.partial")
    with writing(path):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def remove_partial(folder: Path) -> None:
    """Remove what a process left that was killed while it wrote a file. Only for whoever holds the folder's lock."""
    for path in folder.glob(".*.partial"):
        with suppress(OSError):
            path.unlink()


class AppendOnlyFile:
    """A file that is only appended to. A checkpoint notes its length; resuming cuts it back to there."""

    def __init__(self, path: Path, length: int = 0):
        """Open the file and cut it to `length` bytes; everything after that has not happened yet. Its owner sees to it
        that it has so many."""
        self.path = path
        with writing(path):
            if path.exists() and not path.is_file():  # a pipe would let its writer wait for ever
                raise OSError("it is not a regular file")
            self._file = open(path, "ab")  # noqa: SIM115  open as long as the run
            self._file.truncate(length)
            self._file.seek(length)

    def write(self, content: bytes) -> None:
        with writing(self.path):
            self._file.write(content)

    def flush(self) -> None:
        with writing(self.path):
            self._file.flush()

    def sync(self) -> int:
        """Have everything on the disk, and return the length."""
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        with writing(self.path):
            self._file.close()
