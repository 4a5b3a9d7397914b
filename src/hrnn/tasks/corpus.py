"""Text files -> symbols, vocabulary and boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hrnn.errors import UserError
from hrnn.tasks.idx import read_bytes

# A segment begins after each match. Upper-case letters are rare after a full stop in lower-cased corpora, so a
# sentence ends with its mark and the white space after it, or with the line.
BOUNDARIES = {"word": r"[ \n]", "line": r"\n", "sentence": r"[.!?]\s|\n"}
PENN_TREEBANK = {"training": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}


def read_text(paths: Iterable[Path], symbols: str) -> str:
    """The files one after the other. Bytes become the characters 0..255, so that both kinds are a str."""
    return "".join(_decode(path, symbols) for path in paths)


def _decode(path: Path, symbols: str) -> str:
    if not path.is_file():
        raise UserError(f"{path} does not exist or is not a file; name text files with --data")
    content = read_bytes(path)
    if not content:
        raise UserError(f"{path} is empty")
    if symbols == "bytes":
        return content.decode("latin-1")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}); use --symbols bytes") from None


def penn_treebank(folder: Path) -> dict[str, Path]:
    """The three files of a folder, plain or gzip."""
    found = {}
    for part, name in PENN_TREEBANK.items():
        candidates = [folder / name, folder / f"{name}.gz"]
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            raise UserError(
                f"{folder} does not hold {name} or {name}.gz; --data takes text files, or the folder of Penn TreeBank's"
            )
        found[part] = existing[0]
    return found


def vocabulary_of(text: str) -> str:
    """Every character of the text once, in order."""
    return "".join(sorted(set(text)))


def encode(text: str, vocabulary: str, where: str) -> NDArray[np.int32]:
    """Characters -> their place in the vocabulary: int32 (characters,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    known = np.frombuffer(vocabulary.encode("utf-32-le", "surrogatepass"), np.uint32)
    places = np.searchsorted(known, codes).clip(max=len(known) - 1)
    strange = codes[known[places] != codes]
    if len(strange):
        shown = ", ".join(repr(chr(code)) for code in np.unique(strange)[:5])
        raise UserError(
            f"{where} holds {len(np.unique(strange))} character(s) that the training text never had ({shown}), "
            f"{len(strange)} times in all; replace them, or train on a text that has them"
        )
    return places.astype(np.int32)


def compiled(boundaries: Sequence[str]) -> list[re.Pattern[str]]:
    """Names or regular expressions, the lowest level first."""
    patterns = []
    for boundary in boundaries:
        try:
            patterns.append(re.compile(BOUNDARIES.get(boundary, boundary)))
        except re.error as error:
            raise UserError(f"--boundaries {boundary!r} is no regular expression: {error}") from None
    return patterns


def boundaries_of(text: str, patterns: Sequence[re.Pattern[str]]) -> NDArray[np.bool_]:
    """Where segments begin, for each level: bool (characters + 1, levels). The last row is the end of the text.

    A boundary of a level is one of all levels below it, too.
    """
    starts = np.zeros((len(text) + 1, len(patterns)), bool)
    for level, pattern in enumerate(patterns):
        starts[[match.end() for match in pattern.finditer(text)], level] = True
    return np.logical_or.accumulate(starts[:, ::-1], axis=1)[:, ::-1]
