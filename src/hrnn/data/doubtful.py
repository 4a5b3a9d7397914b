"""Columns of texts that are more likely numbers, dates or remarks than names: refused, as they would become categories without
a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from hrnn.data.array_sources import unnamed
from hrnn.data.sequences import Sequences
from hrnn.data.source import Numbers
from hrnn.errors import UserError, shortened

BLOCK, LEAST = 1 << 20, 5  # steps that are looked at together; steps of a stretch, in the mean, at least
MANY, MOST = 100, 0.9  # rows from which on so large a share of different texts is no set of categories
# 3,5 or 1.234,5 or 1 234 or 1'234.5 or 1,234.5
AMOUNT = re.compile(
    r"[-+]?(\d+,\d+([eE][-+]?\d+)?|\d{1,3}([. '\u00a0\u202f]\d{3})+(,\d+)?|\d{1,3}([,'\u00a0\u202f]\d{3})+(\.\d+)?)"
)
# 1.2.2024 or 2024/02/01 or 01-02-24, perhaps with a time; or a time alone
DAY = r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d\d[./-]\d\d[./-]\d\d)"
UNIT = re.compile(r"[-+]?(\d+(\.\d+)?|\.\d+) ?[^\d\s.,;:+-]{1,6}")  # 0.25% or 12 ms
TIME = r"(\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?)"
DATE = re.compile(rf"{DAY}([ T,]+{TIME})?|{TIME}")


def check_names(entries: list[str], codes: Numbers, name: str, path: Path, alone: bool) -> None:
    """Refuse what is doubtful.

    entries, codes: the column's different texts, and the place of each row's among them
    alone: is it the only value? Then these are tokens, of which there may be many
    """
    texts = [entry for entry in entries if entry]
    numbers = [text for text in texts if _is_number(text)]
    others = [text for text in texts if not _is_number(text)]
    rows = int(np.array([bool(entry) for entry in entries])[codes].sum())
    remedy = "name the column in categorical"
    if alone and (between := _delimiter(name, texts)) is not None:
        raise UserError(
            f"{path} has one column, called {shortened(name)!r}: what stands between columns seems to be {between}; write a "
            "comma, a semicolon or a tab there"
        )
    if others and all(AMOUNT.fullmatch(text.strip()) for text in others):
        problem = f"numbers with commas or separators, such as {shortened(others[0])!r}"
        remedy = f"write them with a decimal point and nothing else, or {remedy} if they are names"
    elif others and numbers:
        problem = f"mixed types: {shortened(others[0])!r} stands among numbers"
        remedy = f"clean it, or {remedy}"
    elif others and all(DATE.fullmatch(text.strip()) for text in others):
        problem = f"dates in a form that is not read, such as {shortened(others[0])!r}"
        remedy = f"write them as 2024-12-31 23:59:00 and name the column in time, leave it out, or {remedy} if they are names"
    elif not numbers and others and any("." in text for text in others) and all(map(UNIT.fullmatch, map(str.strip, others))):
        problem = f"numbers with units, such as {shortened(others[0])!r}"
        remedy = f"write the numbers alone, or {remedy} if they are names"
    elif rows >= MANY and len(texts) > MOST * rows and not alone:
        problem = f"{len(texts):,} different texts in {rows:,} rows, such as {shortened(texts[0])!r}, too many for categories"
        remedy = f"leave it out, or {remedy} if they are"
    else:
        return
    raise UserError(f"column {name!r} of {path} has {problem}; {remedy}")


def _delimiter(name: str, texts: list[str]) -> str | None:
    """What tells the columns of a table apart that was read as a single one, in words."""
    for between, words in (("|", "'|'"), (None, "spaces")):
        count, rows = len(name.split(between)), [text.split(between) for text in texts]
        numbers = all(any("." in cell and _is_number(cell) for cell in row) for row in rows)
        if count > 1 and rows and all(len(row) == count for row in rows) and (between or numbers):
            return words
    return None


def likely_rows(names: Sequence[str]) -> bool:
    """Do names of columns look like the first row of a table that has none? Names that are numbers rise, as frequencies do."""
    if not names or not all(map(_is_number, names)):
        return False
    numbers = [float(name) for name in names]
    rise = all(one < other for one, other in pairwise(numbers))
    return not (rise and (len(numbers) > 2 or all(number.is_integer() for number in numbers)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def likely_turned(sequences: Sequences) -> str | None:
    """What to say of arrays that have more channels than steps, as those of aeon have if they are not turned round."""
    steps, channels = int(sequences.lengths.max()), sequences.layout.channels
    if steps >= len(channels) or channels != unnamed(len(channels)) or sequences.manifest["source"]["source"] == "ts":
        return None
    return (
        f"the longest array has {steps} step(s) and {len(channels)} channels, as arrays are (time, channels); if these are "
        "(channels, time), as aeon has them, give X.transpose(0, 2, 1), or [x.T for x in X]"
    )


def likely_ids(sequences: Sequences) -> list[str]:
    """Of data that are one sequence: columns that hold each of their names in one stretch of several steps, as a column that
    tells sequences apart does."""
    if len(sequences) != 1:
        return []
    found, steps = [], int(sequences.lengths[0])
    for place, name in enumerate(sequences.layout.channels):
        if sequences.layout.tokens or name not in sequences.layout.categorical:
            continue
        names, stretches = len(sequences.vocabularies[name]), 1
        for first in range(0, steps, BLOCK):
            codes = sequences.read(0, max(0, first - 1), min(steps, first + BLOCK))[:, place]
            stretches += int((codes[1:] != codes[:-1]).sum())
        if 2 <= names == stretches <= steps / LEAST:
            found.append(name)
    return found


def links_out(roots: Sequence[Path], files: Sequence[Path]) -> str | None:
    """Words about files in folders of data that are elsewhere: whoever made the folder chose what is read. None: there are
    none."""
    pairs = [(file, root) for root in roots if root.is_dir() for file in files if file.is_relative_to(root)]
    out = [file for file, root in pairs if not file.resolve().is_relative_to(root.resolve())]
    if not out:
        return None
    others = f", and {len(out) - 1:,} more are such links" if len(out) > 1 else ""
    return f"{out[0]} is a link to {out[0].resolve()}, outside the folder of the data{others}; is that meant to be read?"
