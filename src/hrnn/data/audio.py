"""Recordings: wav, and whatever else soundfile reads, a block of samples at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.errors import UserError, require_extra, shortened

SUFFIXES = (".wav", ".flac", ".ogg", ".aiff", ".aif")
BLOCK = 1 << 16  # samples at a time


@dataclass(frozen=True)
class Recording:
    rate: int  # samples per second
    channels: int


def recording(path: Path) -> Recording:
    """What a file says of itself."""
    require_extra("data", f"{path.name}, a recording,")
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            return Recording(file.samplerate, file.channels)
    except (soundfile.SoundFileError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from None


def samples(path: Path, like: Recording) -> Iterator[NDArray[np.float32]]:
    """(samples, channels) between -1 and 1, a block at a time."""
    import soundfile

    if (now := recording(path)) != like:
        what = (
            f"{now.rate:,} samples a second and the first file {like.rate:,}; resample one of them"
            if now.rate != like.rate
            else f"{now.channels} channels and the first file {like.channels}; make them alike"
        )
        raise UserError(f"{path} has {what}")
    try:
        with soundfile.SoundFile(path) as file:
            while len(some := file.read(BLOCK, "float32", always_2d=True)):
                yield some
    except (soundfile.SoundFileError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} cannot be read as a recording ({shortened(' '.join(str(error).split()), 120)}); save it again as wav"
    )
