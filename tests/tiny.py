"""Small data and small runs that the tests of tasks, training and the command line share."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hrnn.tasks.streams import BOUNDARIES

TINY = ("--hidden-sizes", "8", "8", "--batch", "10", "--no-tensorboard")
SENTENCE = "the quick brown fox jumps over the lazy dog\n"


def idx_bytes(array: np.ndarray) -> bytes:
    """An array of bytes as an idx file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return b"\x00\x00\x08" + bytes([array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, training: int = 240, test: int = 60, *, packed: bool = True) -> Path:
    """Four idx files of noise in which the class is the row of a bright bar."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for part, count in (("train", training), ("t10k", test)):
        labels = random.integers(10, size=count)
        images = random.integers(40, size=(count, 28, 28))
        images[np.arange(count), 2 * labels + 4] = 255
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = idx_bytes(array)
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content, 1) if packed else content)
    return folder


def write_text(path: Path, copies: int = 60) -> Path:
    path.write_text(SENTENCE * copies)
    return path


def write_walks(path: Path, walks: int = 40, steps: int = 12) -> Path:
    """A table of short sequences of two numbers, slow and fast ones."""
    gaits = ["fast" if walk % 3 else "slow" for walk in range(walks)]
    rows = [f"{w},{t},{np.sin(t * (1 + w % 3)):.4f},{t % 4},{gaits[w]}" for w in range(walks) for t in range(steps)]
    path.write_text("\n".join(["walk,time,x,y,gait", *rows]))
    return path


def literal_boundaries(text: str, names: Sequence[str]) -> np.ndarray:
    """Where segments begin, bool (characters + 1, levels), as the definition has it: after each match in the whole text."""
    starts = np.zeros((len(text) + 1, len(names)), bool)
    for level, name in enumerate(names):
        starts[[match.end() for match in re.finditer(BOUNDARIES.get(name, name), text)], level] = True
    return np.logical_or.accumulate(starts[:, ::-1], axis=1)[:, ::-1]


def real_data(name: str) -> Path:
    """A folder of real data, or skip the test and say so."""
    home = Path(os.environ.get("HRNN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (home / name).is_dir():
        pytest.skip(f"no real data: {home / name} is missing; set HRNN_DATA to the folder that holds {name}/")
    return home / name
