"""A text as the network reads it: codes and boundaries of its parts, laid out as one stream per batch row.

Nothing is copied for the rows: a window is gathered from the text when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hrnn.tasks.boundaries import Bits, at, starts_of
from hrnn.tasks.contract import Window
from hrnn.tasks.corpus import Characters, Codes, vocabulary_of


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
    vocabulary = vocabulary or vocabulary_of(characters.kinds, counts["training"])
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
