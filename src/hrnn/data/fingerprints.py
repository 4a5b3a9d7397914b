"""Which file it is: size and SHA-256, and when it was last changed."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from hrnn.errors import UserError
from hrnn.telling import working

Fingerprint = dict[str, Any]  # of a file: its "size" in bytes and its "sha256"; dated, also "mtime_ns", when it was changed


def fingerprint(path: Path) -> Fingerprint:
    """A file's size and checksum; one that this process has read, and nobody has touched since, is not read again."""
    try:
        at = path.stat()
        return dict(_fingerprint(path, at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def dated(path: Path) -> Fingerprint:
    """A file's size, checksum and time of change: while size and time are the same, nobody need read it again."""
    try:
        changed = path.stat().st_mtime_ns  # before it is read: what is changed meanwhile has another time afterwards
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    return {**fingerprint(path), "mtime_ns": changed}


def differs(path: Path, recorded: Fingerprint, verify: bool) -> str | None:
    """How a file differs from what was recorded, in words. Same size and time of change: the same, unless `verify`; otherwise
    the checksum decides."""
    try:
        now = path.stat()
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if now.st_size != recorded["size"]:
        return f"has {now.st_size:,} bytes and had {recorded['size']:,}"
    if now.st_mtime_ns == recorded.get("mtime_ns") and not verify:
        return None
    other = f"has the same size and other content (sha256 was {recorded['sha256'][:12]}...)"
    return None if fingerprint(path)["sha256"] == recorded["sha256"] else other


@functools.lru_cache(256)
def _fingerprint(path: Path, *touched: int) -> Fingerprint:
    with open(path, "rb") as file, working(f"taking the checksum of {path.name}"):
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"size": file.tell(), "sha256": digest}
