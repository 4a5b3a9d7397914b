"""Text files -> characters as small numbers, block by block: no file is ever in memory as a whole, nor as a str."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError
from hrnn.telling import working

Codes = NDArray[np.unsignedinteger[Any]]  # as narrow as the largest one allows

BLOCK = 1 << 16  # bytes or characters at a time: what is made of them on the way stays in the cache
PIECE = 1 << 26  # characters in one array: large enough that freed memory goes back to the system
PENN_TREEBANK = {"training": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}


class Characters:
    """The characters of a text, each as the number of its kind. Kinds are numbered as they come, ASCII first.

    kinds: code point of each kind, uint32
    """

    def __init__(self, symbols: str):
        self.kinds = np.arange(256 if symbols == "bytes" else 128, dtype=np.uint32)
        self.length = 0
        self._pieces: list[Codes] = []
        self._room = 0  # left in the last piece
        self._numbers = np.full(0x110000, -1, np.int32) if symbols != "bytes" else None  # kind of each code point
        if self._numbers is not None:
            self._numbers[:128] = self.kinds

    def add(self, text: str) -> None:
        """Append characters of any kind."""
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        assert self._numbers is not None
        numbers = self._numbers[points]
        if (new := np.unique(points[numbers < 0])).size:
            self._numbers[new] = np.arange(len(self.kinds), len(self.kinds) + new.size)
            self.kinds = np.concatenate([self.kinds, new])
            numbers = self._numbers[points]
        self.add_numbers(numbers)

    def add_numbers(self, numbers: NDArray[Any]) -> None:
        """Append characters whose kinds are known."""
        dtype = np.min_scalar_type(len(self.kinds) - 1)
        if not self._pieces or self._room < len(numbers) or self._pieces[-1].dtype != dtype:
            if self._pieces:
                self._pieces[-1] = self._pieces[-1][: len(self._pieces[-1]) - self._room]
            self._room = max(PIECE, len(numbers))
            self._pieces.append(np.empty(self._room, dtype))
        first = len(self._pieces[-1]) - self._room
        self._pieces[-1][first : first + len(numbers)] = numbers
        self._room -= len(numbers)
        self.length += len(numbers)

    def blocks(self, first: int, last: int) -> Iterator[Codes]:
        """The kinds of characters first..last-1, a few at a time."""
        begin = 0
        for piece in self._pieces:
            end = min(begin + len(piece), self.length)
            for at in range(max(first, begin), min(last, end), BLOCK):
                yield piece[at - begin : min(at + BLOCK, last, end) - begin]
            begin = end

    def counts(self, first: int, last: int) -> NDArray[np.int64]:
        """How often each kind occurs among characters first..last-1."""
        counts = np.zeros(len(self.kinds), np.int64)
        for block in self.blocks(first, last):
            counts += np.bincount(block, minlength=len(counts))
        return counts

    def text(self, first: int, last: int) -> str:
        """Characters first..last-1 as a str, which takes 1 to 4 bytes for each."""
        return "".join(self.kinds[block].tobytes().decode("utf-32-le") for block in self.blocks(first, last))

    def become(self, table: Codes) -> Codes:
        """All characters with every kind replaced by what the table has for it; afterwards these are gone."""
        codes, begin = np.empty(self.length, table.dtype), 0
        while self._pieces:  # whose memory is given back while that of the result is filled
            piece = self._pieces.pop(0)
            end = min(begin + len(piece), self.length)
            for at in range(begin, end, BLOCK):
                block = piece[at - begin : min(at + BLOCK, end) - begin]
                np.take(table, block, out=codes[at : at + len(block)], mode="clip")  # which is faster than to raise
            begin = end
        return codes


def read_characters(paths: Iterable[Path], symbols: str) -> Characters:
    """The files one after the other; symbols: "bytes" or "characters"."""
    characters = Characters(symbols)
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} does not exist or is not a file; name text files with --data")
        before = characters.length
        with unpacked(path) as file, working(f"reading {path.name}") as at:
            _read(iter(lambda: file.read(BLOCK), b""), characters, path, symbols, at)
        if characters.length == before:
            raise UserError(f"{path} is empty")
    return characters


def _read(blocks: Iterable[bytes], characters: Characters, path: Path, symbols: str, at: Callable[[str], None]) -> None:
    decoder, read = codecs.getincrementaldecoder("utf-8")(), 0
    for block in itertools.chain(blocks, [b""]):  # the end may come in the middle of a character
        waiting = len(decoder.getstate()[0])  # bytes of a character that the block before began
        if symbols == "bytes" or (block.isascii() and not waiting):
            characters.add_numbers(np.frombuffer(block, np.uint8))
        else:
            try:
                characters.add(decoder.decode(block, final=not block))
            except UnicodeDecodeError as error:
                raise UserError(f"{path} is not UTF-8 (byte {read - waiting + error.start}); use --symbols bytes") from None
        read += len(block)
        at(f"{read:,} bytes")


def penn_treebank(folder: Path) -> dict[str, Path]:
    """The three files of a folder, plain or gzip."""
    files = {}
    for part, name in PENN_TREEBANK.items():
        existing = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not existing:
            raise UserError(
                f"{folder} does not hold {name} or {name}.gz; --data takes text files, or the folder of Penn TreeBank's"
            )
        files[part] = existing[0]
    return files


def complain_about(strange: Mapping[str, int], where: str) -> UserError:
    """Characters that a vocabulary lacks, and how often each occurs."""
    shown = ", ".join(map(repr, sorted(strange)[:5]))
    return UserError(
        f"{where} holds {len(strange)} character(s) that the training text never had ({shown}), "
        f"{sum(strange.values())} times in all; replace them, or train on a text that has them"
    )
