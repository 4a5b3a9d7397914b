"""Files as symbols: bytes as they are, or characters of a text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.data.source import Vocabulary
from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError

BLOCK = 1 << 18  # bytes at a time
EVERY_BYTE = [chr(byte) for byte in range(256)]


def read_bytes(path: Path) -> Iterator[NDArray[np.uint8]]:
    """A file as it is on disk."""
    try:
        with open(path, "rb") as file:
            while some := file.read(BLOCK):
                yield np.frombuffer(some, np.uint8)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


class Characters:
    """Characters as codes of a vocabulary that grows as they come."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._codes = np.full(0x110000, -1, np.int64)  # of each code point

    def read(self, path: Path) -> Iterator[NDArray[np.int64]]:
        """A text in UTF-8, plain or gzip."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        with unpacked(path) as file:
            more = True
            while more:
                some = file.read(BLOCK)
                more = bool(some)
                try:
                    text = decoder.decode(some, final=not more)
                except UnicodeDecodeError:
                    raise UserError(f"{path} is not UTF-8; read it as bytes, or save it again as UTF-8") from None
                if text:
                    yield self._coded(text)

    def _coded(self, text: str) -> NDArray[np.int64]:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        codes = self._codes[points]
        if (new := np.unique(points[codes < 0])).size:
            self._codes[new] = self.vocabulary.several(map(chr, new.tolist()))
            codes = self._codes[points]
        return codes
