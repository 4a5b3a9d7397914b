"""Files that may be gzip."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hrnn.errors import UserError

TIMES, ALWAYS = 100, 1 << 26  # a file may unpack to so many times its size, and to so many bytes however small it is


def unpacked_size(path: Path) -> int:
    """Bytes of a file as `unpacked` reads it, about, without reading it; 0 where there is none."""
    if not path.is_file():  # a pipe would let its reader wait for ever
        return 0
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"\x1f\x8b":
                return path.stat().st_size
            file.seek(-4, os.SEEK_END)  # gzip ends with that number, of its last piece and up to multiples of 4 GiB
            return max(int.from_bytes(file.read(4), "little"), path.stat().st_size)
    except OSError:
        return 0


@contextmanager
def unpacked(path: Path) -> Iterator[io.BufferedIOBase]:
    """A file to read, unpacked on the way if it is gzip (whatever it is called), as far as data that mean anything do."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield io.BufferedReader(_Unpacked(path, file), 1 << 17) if packed else file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is truncated or damaged ({error}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def check_size(path: Path, packed: int, size: int, remedy: str) -> None:
    """Refuse what unpacks to so many bytes and more."""
    if size > max(ALWAYS, TIMES * packed):
        most = f"{TIMES} times its size" if TIMES * packed > ALWAYS else f"{ALWAYS:,} bytes"
        raise UserError(f"{path} unpacks to more than {most}; if that is meant, {remedy}")


class _Unpacked(io.RawIOBase):
    """A gzip file that was made to be far larger than it looks must not fill the memory or the disk."""

    def __init__(self, path: Path, file: io.BufferedIOBase):
        self.path, self.inner, self.packed = path, gzip.GzipFile(fileobj=file), os.fstat(file.fileno()).st_size
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.inner.readinto(buffer)
        self.size += count
        check_size(self.path, self.packed, self.size, f"unpack it first: gunzip {self.path}")
        return count
