"""Where segments of a text begin: after each match of a pattern. One bit for each place of the text and each pattern.

A pattern that says something of single characters is looked up for each kind of character once, and then in blocks. Any
other regular expression may look at the text as far as it likes, so it gets the whole text as a str.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hrnn.errors import UserError
from hrnn.tasks.corpus import BLOCK, Characters

Rules = list[tuple[str | None, str]]
Bits = NDArray[np.uint8]  # eight places in each, the first one lowest

# Upper-case letters are rare after a full stop in lower-cased corpora, so a sentence ends with its mark and the white space
# after it, or with the line.
BOUNDARIES = {"word": r"[ \n]", "line": r"\n", "sentence": r"[.!?]\s|\n"}
# A match ends with a character of the second pattern, after one of the first where that is given. Matches of these cannot
# overlap, so that it is enough to look at two neighbours.
RULES: dict[str, Rules] = {BOUNDARIES["sentence"]: [(r"[.!?]", r"\s"), (None, r"\n")]}
ONE_CHARACTER = re.compile(r"\\[nrtfvsSdDwW]|\\[^\w\s]|[^\\^$.|?*+()\[\]{}]|\[(\\.|[^\]\\])+\]", re.DOTALL)


def compiled(boundaries: Sequence[str]) -> list[re.Pattern[str]]:
    """Names or regular expressions, the lowest level first."""
    patterns = []
    for boundary in boundaries:
        try:
            patterns.append(re.compile(BOUNDARIES.get(boundary, boundary)))
        except (re.error, OverflowError, RecursionError) as error:
            raise UserError(f"--boundaries {boundary[:200]!r} is not a regular expression: {error}") from None
    return patterns


def meant(boundary: str) -> str | None:
    """The name that may have been meant."""
    return next(iter(difflib.get_close_matches(boundary, BOUNDARIES, n=1)), None)


def starts_of(characters: Characters, first: int, last: int, pattern: re.Pattern[str]) -> Bits:
    """A bit for each place of the text of characters first..last-1, and one for its end: does a segment begin there?"""
    rules = RULES.get(pattern.pattern)
    if rules is None and ONE_CHARACTER.fullmatch(pattern.pattern):
        rules = [(None, pattern.pattern)]
    if rules is None:
        return packed(_by_text(characters.text(first, last), pattern))
    return packed(_by_rules(characters, first, last, rules))


def _by_rules(characters: Characters, first: int, last: int, rules: Rules) -> Iterator[NDArray[np.bool_]]:
    yield np.zeros(1, bool)  # no match ends where the text begins
    kinds = [chr(kind) for kind in characters.kinds.tolist()]

    def of(expression: str) -> NDArray[np.bool_]:
        return np.array([bool(re.fullmatch(expression, kind)) for kind in kinds])

    tables = [(None if before is None else of(before), of(end)) for before, end in rules]
    carried = [False] * len(tables)  # whether the last character of the block before is one of the first pattern
    for block in characters.blocks(first, last):
        starts = np.zeros(len(block), bool)
        for i, (before, end) in enumerate(tables):
            ends = np.take(end, block, mode="clip")  # which is faster than to raise
            if before is not None:
                befores = np.take(before, block, mode="clip")
                ends[1:] &= befores[:-1]
                ends[0] &= carried[i]
                carried[i] = bool(befores[-1])
            starts |= ends
        yield starts


def _by_text(text: str, pattern: re.Pattern[str]) -> Iterator[NDArray[np.bool_]]:
    starts = np.zeros(len(text) + 1, bool)
    ends = (match.end() for match in pattern.finditer(text))
    while (some := np.fromiter(itertools.islice(ends, BLOCK), np.int64)).size:
        starts[some] = True
    yield starts


def packed(blocks: Iterator[NDArray[np.bool_]]) -> Bits:
    """Bits from blocks of any length."""
    parts, waiting = list[Bits](), np.zeros(0, bool)
    for block in blocks:
        block = np.concatenate([waiting, block]) if waiting.size else block
        whole = len(block) // 8 * 8
        parts.append(np.packbits(block[:whole], bitorder="little"))
        waiting = block[whole:]
    return np.concatenate([*parts, np.packbits(waiting, bitorder="little")])


def at(bits: Bits, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The bits of some places."""
    found: NDArray[np.uint8] = bits[places >> 3] >> (places & 7).astype(np.uint8) & 1
    return found.astype(bool)
