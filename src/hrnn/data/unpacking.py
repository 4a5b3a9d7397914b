"""Files that may be gzip."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from hrnn.errors import UserError


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
def unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """A file to read, unpacked on the way if it is gzip (whatever it is called)."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if packed else file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is truncated or damaged ({error}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
