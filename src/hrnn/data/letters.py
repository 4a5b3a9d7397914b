"""FASTA and FASTQ, plain or gzip: letters as tokens, record by record, a piece of a record at a time."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError, shortened

SUFFIXES = tuple(f"{name}{gz}" for gz in ("", ".gz") for name in (".fa", ".fasta", ".fna", ".faa", ".fq", ".fastq"))
BLOCK = 1 << 18  # bytes at a time
LINE = 1 << 26  # bytes of a line of FASTQ, or of a header, at most
STRANGE = 255

# What each alphabet's letters are, and which other letters stand for one of them: of bases all codes for "one of several".
ALPHABETS = {
    "bases": ("ACGTN", {"U": "T", **dict.fromkeys("RYSWKMBDHV", "N")}),
    "amino acids": ("ACDEFGHIKLMNPQRSTVWYX", dict.fromkeys("BJOUZ*", "X")),
}


def codes_of(alphabet: str) -> NDArray[np.uint8]:
    """(256,) the code of each byte; lower case counts as upper."""
    letters, others = ALPHABETS[alphabet]
    table = np.full(256, STRANGE, np.uint8)
    for letter in [*letters, *others]:
        table[[ord(letter), ord(letter.lower())]] = letters.index(others.get(letter, letter))
    return table


def read_letters(path: Path, alphabet: str) -> Iterator[tuple[str, Iterator[NDArray[np.uint8]]]]:
    """Records: name and pieces of codes. A record's pieces are to be read before the next one."""
    table = codes_of(alphabet)
    with unpacked(path) as file:
        start = file.read(1)
        if start not in (b">", b"@"):
            what = "is empty" if not start else f"begins with {start!r}"
            raise UserError(f"{path} {what}; FASTA begins with >, FASTQ with @")
        records = _fasta(file, path) if start == b">" else _fastq(file, path)
        for name, pieces in records:
            yield name, (_coded(piece, table, alphabet, name, path) for piece in pieces)


def _coded(letters: bytes, table: NDArray[np.uint8], alphabet: str, name: str, path: Path) -> NDArray[np.uint8]:
    codes = table[np.frombuffer(letters, np.uint8)]
    if (strange := np.flatnonzero(codes == STRANGE)).size:
        letter = chr(letters[strange[0]])
        other = "; or say letters='amino acids', if that is what they are" if alphabet == "bases" else ""
        raise UserError(
            f"sequence {shortened(name)!r} of {path} has {letter!r}, which is none of the {alphabet}; clean it{other}"
        )
    return codes


def _name(line: bytes, path: Path) -> str:
    words = line.decode("utf-8", "replace").split()
    if not words:
        raise UserError(f"{path} has a record without a name; write one behind > or @")
    return words[0]


def _fasta(file: BufferedIOBase, path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The file behind its first >. Lines may be of any length."""
    rest = b""

    def pieces() -> Iterator[bytes]:
        """Until the next record, whose beginning is left in `rest`."""
        nonlocal rest
        at_start = True  # of a line
        while data := rest or file.read(BLOCK):
            rest = b""
            end = 0 if at_start and data[:1] == b">" else data.find(b"\n>") + 1 or None
            if letters := data[:end].translate(None, b" \t\r\n"):
                yield letters
            if end is not None:
                rest = data[end:]
                return
            at_start = data.endswith(b"\n")

    first = True
    while True:
        header = b"" if first else rest[1:]
        if not first and not rest:
            return
        while b"\n" not in header and len(header) < LINE and (more := file.read(BLOCK)):
            header += more
        line, _, rest = header.partition(b"\n")
        first = False
        yield _name(line, path), pieces()


def _fastq(file: BufferedIOBase, path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The file behind its first @: four lines a record."""
    line = file.readline(LINE)
    while line:
        name = _name(line, path)
        letters, plus, quality = (file.readline(LINE).strip() for _ in range(3))
        if not plus.startswith(b"+") or len(quality) != len(letters):
            raise UserError(
                f"record {shortened(name)!r} of {path} is not four lines of FASTQ (@, letters, +, as many qualities)"
            )
        yield name, iter([letters] if letters else [])
        line = file.readline(LINE)
        if line and not line.startswith(b"@"):
            raise UserError(f"{path} has {shortened(line[:20])!r} behind record {shortened(name)!r}, where @ should stand")
        line = line[1:]
