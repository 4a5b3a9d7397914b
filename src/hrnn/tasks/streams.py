"""A text as the network reads it: codes and boundaries of its parts, laid out as one stream per batch row.

Nothing is copied for the rows: a window is gathered from the text when it is asked for. Segments begin after each match of a
pattern: one bit for each place of the text and each pattern. A pattern that says something of single characters is looked up
for each kind of character once, and then in blocks. Any other regular expression may look at the text as far as it likes, so
it gets the whole text as a str.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hrnn.errors import UserError
from hrnn.tasks.corpus import BLOCK, Characters, Codes
from hrnn.tasks.windows import Window

Rules = list[tuple[str | None, str]]
Bits = NDArray[np.uint8]  # eight places in each, the first one lowest

# Upper-case letters are rare after a full stop in lower-cased corpora, so a sentence ends with its mark and the white space
# after it, or with the line.
BOUNDARIES = {"word": r"[ \n]", "line": r"\n", "sentence": r"[.!?]\s|\n"}
# A match ends with a character of the second pattern, after one of the first where that is given. Matches of these cannot
# overlap, so that it is enough to look at two neighbours.
RULES: dict[str, Rules] = {BOUNDARIES["sentence"]: [(r"[.!?]", r"\s"), (None, r"\n")]}
ONE_CHARACTER = re.compile(r"\\[nrtfvsSdDwW]|\\[^\w\s]|[^\\^$.|?*+()\[\]{}]|\[(\\.|[^\]\\])+\]", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """The text of a part, as the network reads it.

    codes:   (characters,), places in the vocabulary; one past its end for characters that it lacks
    starts:  for each level, whether a segment begins at each place of the text and at its end
    strange: how often each character occurs that the vocabulary lacks
    """

    codes: Codes
    starts: Sequence[Bits]
    strange: dict[str, int]

    def rows(self, rows: int, *, whole: bool) -> Streams:
        """As one stream per row; `whole` counts every character once, otherwise the few last that fill no step are dropped."""
        targets = len(self.codes) - 1
        return Streams(self, rows, -(-targets // rows) if whole else targets // rows)


@dataclass(frozen=True)
class Streams:
    """A text laid out as one stream per row, one after the other: row r reads places r * steps and on."""

    part: Part
    rows: int
    steps: int

    def window(self, first: int, last: int, rows: range | None = None) -> Window:
        """Steps first..last-1 of some rows, with the boundary after the last step if there is one."""
        codes, columns = self.part.codes, np.arange(self.rows) if rows is None else np.arange(rows.start, rows.stop)
        places = np.arange(first, last + 1)[:, None] + columns * self.steps  # (steps + 1, rows)
        there = places < len(codes)  # the last row may run out of text
        values = np.where(there, codes[places.clip(max=len(codes) - 1)], 0).astype(np.int64)
        # A boundary of a level is one of all levels below it, too.
        levels = [at(bits, places.clip(max=len(codes))) & (places <= len(codes)) for bits in self.part.starts]
        starts = np.stack(levels, -1) if levels else np.empty((*places.shape, 0), bool)
        starts = np.logical_or.accumulate(starts[..., ::-1], axis=-1)[..., ::-1]
        full = self.rows * self.steps < len(codes)
        return Window(
            torch.from_numpy(values[:-1]),
            torch.from_numpy(values[1:].copy()),
            None if full else torch.from_numpy(places[:-1] < len(codes) - 1),
            None if not levels else torch.from_numpy(starts[..., 0] if len(levels) == 1 else starts.copy()),
        )


@dataclass(frozen=True, eq=False)
class Corpus:
    """The parts of one or several files that were read together, and the vocabulary that they are coded with."""

    vocabulary: str
    parts: dict[str, Part]


def spans(characters: int, shares: dict[str, float]) -> dict[str, tuple[int, int]]:
    """Where each part begins and ends; the shares are cut off the end."""
    spans_of, last = dict[str, tuple[int, int]](), characters
    for part, share in reversed(shares.items()):
        first = 0 if len(spans_of) == len(shares) - 1 else last - int(characters * share)
        spans_of[part] = first, last
        last = first
    return spans_of


def coded(
    characters: Characters, parts: dict[str, tuple[int, int]], vocabulary: str, patterns: Sequence[re.Pattern[str]]
) -> Corpus:
    """The parts of a text that was read, whose characters are used up; without a vocabulary that of its training part."""
    counts = {part: characters.counts(*span) for part, span in parts.items()}
    vocabulary = vocabulary or "".join(map(chr, sorted(characters.kinds[counts["training"] > 0].tolist())))
    starts = {part: [starts_of(characters, *span, pattern) for pattern in patterns] for part, span in parts.items()}
    kinds = [chr(kind) for kind in characters.kinds.tolist()]
    places = {character: code for code, character in enumerate(vocabulary)}
    table = np.array([places.get(kind, len(places)) for kind in kinds])
    strange = {
        part: {kinds[kind]: int(counts[part][kind]) for kind in np.flatnonzero((table == len(places)) & (counts[part] > 0))}
        for part in parts
    }
    codes = characters.become(table.astype(np.min_scalar_type(max(table[sum(counts.values()) > 0], default=0))))
    return Corpus(vocabulary, {part: Part(codes[slice(*span)], starts[part], strange[part]) for part, span in parts.items()})


def compiled(boundaries: Sequence[str]) -> list[re.Pattern[str]]:
    """Names or regular expressions, the lowest level first."""
    patterns = []
    for boundary in boundaries:
        try:
            patterns.append(re.compile(BOUNDARIES.get(boundary, boundary)))
        except (re.error, OverflowError, RecursionError) as error:
            raise UserError(f"--boundaries {boundary[:200]!r} is not a regular expression: {error}") from None
    return patterns


def starts_of(characters: Characters, first: int, last: int, pattern: re.Pattern[str]) -> Bits:
    """A bit for each place of the text of characters first..last-1, and one for its end: does a segment begin there?"""
    rules = RULES.get(pattern.pattern)
    if rules is None and ONE_CHARACTER.fullmatch(pattern.pattern):
        rules = [(None, pattern.pattern)]
    if rules is not None:
        return packed(_by_rules(characters, first, last, rules))
    text = characters.text(first, last)
    starts, ends = np.zeros(len(text) + 1, bool), (match.end() for match in pattern.finditer(text))
    while (some := np.fromiter(itertools.islice(ends, BLOCK), np.int64)).size:
        starts[some] = True
    return np.packbits(starts, bitorder="little")


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
