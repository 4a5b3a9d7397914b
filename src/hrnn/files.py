"""All that hrnn writes, renames or removes goes through here; a test keeps the rest of the package from doing it by itself.

The path that a user names may lead through links: `runs` may be a link to a large disk. Below it nothing may be one, as whoever
made the folder may have pointed it at files of somebody else. So folders below `below` are opened one by one without following
links, and files are used by their name in the folder that is open: what becomes of the path meanwhile changes nothing. Without
`below`, the folder that a file is in is what the user named.

A crash cannot spoil files either: whole files are written under another name and renamed, others only grow and can be cut back.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hrnn.errors import UserError
from hrnn.torchrun import LostError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


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


# Reading


def opened(path: Path) -> BinaryIO:
    """A file to be read. Whatever is not a file (a pipe would let its reader wait for ever) is an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    return open(path, "rb")


def content_of(path: Path) -> bytes:
    """All of a file."""
    with opened(path) as file:
        return file.read()


# Folders


def make_folder(path: Path, below: Path | None = None) -> None:
    """Make a folder, or find it there; below: one that must be there, and from which on no link is followed."""
    with writing(path):
        if below is None:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError:  # as in /proc
                raise UserError(f"{path} cannot be made: its file system holds no other folders; give another one") from None
            return
        with folder_of(path / "file", below, make=True):
            pass


@contextmanager
def folder_of(path: Path, below: Path | None = None, make: bool = False) -> Iterator[int]:
    """The folder that a file is in, open; make: if it is not there, with those between it and `below`."""
    at = path.parent if below is None else below
    folder = os.open(at, FOLDER)
    try:
        for name in path.parent.relative_to(at).parts:
            at = at / name
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            _refuse_link(folder, at)
            inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def refuse_link(path: Path, below: Path | None = None) -> None:
    """Where hrnn is going to write later: refuse a link there now."""
    with writing(path), suppress(FileNotFoundError), folder_of(path, below) as folder:
        _refuse_link(folder, path)


def _refuse_link(folder: int, path: Path) -> int:
    """What kind of file there is under a path's name in an open folder, 0 if there is none; a link is refused."""
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
    if stat.S_ISLNK(mode):
        raise UserError(f"{path} is a symbolic link, and hrnn writes only to its own files; remove the link")
    return mode


def _refuse_others(folder: int, path: Path) -> None:
    """There must be nothing under the name, or a file."""
    if (mode := _refuse_link(folder, path)) and not stat.S_ISREG(mode):
        raise UserError(f"{path} is not a regular file, which hrnn would write there; move it away, or give another name")


# Files


def _in(folder: int) -> Callable[[str, int], int]:
    """How `open` opens a file in an open folder, whatever its path leads to by now; a pipe is not waited for."""
    safely = os.O_NOFOLLOW | os.O_NONBLOCK
    return lambda path, flags: os.open(os.path.basename(path), flags | safely, 0o666, dir_fd=folder)


def create(path: Path, below: Path | None = None) -> BinaryIO:
    """A new file to write and read; nothing may be there under its name."""
    with folder_of(path, below) as folder:
        _refuse_link(folder, path)
        return open(path, "x+b", opener=_in(folder))


def change(path: Path) -> BinaryIO:
    """A file of ours that is there, to be changed in place."""
    with folder_of(path) as folder:
        _refuse_others(folder, path)
        return open(path, "r+b", opener=_in(folder))


def append(path: Path, below: Path | None = None, buffering: int = -1) -> BinaryIO:
    """A file that grows; made if it is not there. It must have no second name, which would grow as well."""
    with folder_of(path, below) as folder:
        _refuse_others(folder, path)
        file = open(path, "ab", buffering, opener=_in(folder))  # noqa: SIM115  the caller closes it
    if os.fstat(file.fileno()).st_nlink == 1:
        return file
    file.close()
    raise UserError(f"{path} has another name, to which hrnn would write as well (a hard link); put a copy in its place")


@contextmanager
def replacing(path: Path, below: Path | None = None) -> Iterator[BinaryIO]:
    """A new file that takes its name when it is whole, on the disk: a reader, or a crash, sees the old content or the new."""
    partial = path.with_name(f".{path.name}.partial")
    with folder_of(path, below) as folder:
        _refuse_others(folder, path)
        _refuse_others(folder, partial)
        with suppress(FileNotFoundError):  # of a process that was killed
            os.unlink(partial.name, dir_fd=folder)
        file = open(partial, "x+b", opener=_in(folder))  # noqa: SIM115  closed below
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                there = os.stat(partial.name, dir_fd=folder, follow_symlinks=False)
                if not os.path.samestat(os.fstat(file.fileno()), there):
                    raise UserError(f"{path} is being written by another process as well; give another name")
            _refuse_others(folder, path)
            os.replace(partial.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial.name, dir_fd=folder)
            raise


def write_atomically(path: Path, content: bytes, below: Path | None = None) -> None:
    with writing(path), replacing(path, below) as file:
        file.write(content)


def move(path: Path, target: Path, below: Path | None = None) -> None:
    """Rename a file or a folder of ours. Links are refused, and by the system what would be overwritten but for a file."""
    with folder_of(path, below) as folder, folder_of(target, below) as into:
        _refuse_link(folder, path)
        _refuse_link(into, target)
        os.replace(path.name, target.name, src_dir_fd=folder, dst_dir_fd=into)


def remove(path: Path, below: Path | None = None) -> None:
    """Remove a file, if it is there."""
    with writing(path), suppress(FileNotFoundError), folder_of(path, below) as folder:
        _refuse_others(folder, path)
        os.unlink(path.name, dir_fd=folder)


def remove_partial(path: Path, below: Path | None = None) -> None:
    """Remove what a process left that was killed while it wrote a file. Only for whoever holds the folder's lock."""
    with suppress(FileNotFoundError), folder_of(path / "file", below) as folder:
        for name in os.listdir(folder):
            if re.fullmatch(r"\..*\.partial", name):
                _refuse_others(folder, path / name)
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def check_ours(path: Path, ours: str, below: Path | None = None) -> None:
    """Refuse a folder in which there is anything but files whose names we give (a pattern); none is fine."""
    with suppress(FileNotFoundError), folder_of(path / "file", below or path.parent) as folder:
        for name in sorted(os.listdir(folder)):
            if not re.fullmatch(ours, name) or not stat.S_ISREG(_refuse_link(folder, path / name)):
                raise UserError(f"{path / name} is no file of hrnn; move it away, or give another folder")


def remove_folder(path: Path, ours: str, below: Path | None = None) -> None:
    """Remove a folder of ours with what we put there, if it is there; one with anything else is refused first."""
    check_ours(path, ours, below)
    with suppress(FileNotFoundError), folder_of(path, below) as outer:
        with folder_of(path / "file", below or path.parent) as folder:
            for name in os.listdir(folder):
                os.unlink(name, dir_fd=folder)
        os.rmdir(path.name, dir_fd=outer)


def remove_tree(path: Path) -> None:
    """Remove a folder that was not there before us, with all that is below it. Links in it go, not what they lead to."""
    assert shutil.rmtree.avoids_symlink_attacks
    shutil.rmtree(path)


def sync(path: Path) -> None:
    """Have a file, or what a folder holds, on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class AppendOnlyFile:
    """A file that is only appended to. A checkpoint notes its length; resuming cuts it back to there."""

    def __init__(self, path: Path, length: int = 0, below: Path | None = None):
        """Open the file and cut it to `length` bytes; everything after that has not happened yet. Its owner sees to it
        that it has so many."""
        self.path = path
        with writing(path):
            self._file = append(path, below)
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
