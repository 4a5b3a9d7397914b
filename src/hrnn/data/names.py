"""Names of categories and tokens: one name for one thing, however it was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def name_of(value: Any) -> str:
    """A category as text, "" where it is missing. Whole numbers are the same as floats, which pandas makes of them as soon as
    one is missing."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(value)
    return "" if value is None else str(value)


def plain(name: str) -> str:
    """A whole number that was written as a float, without what is behind the point; other names as they are."""
    whole = name.removesuffix(".0")
    return whole if whole.removeprefix("-").isdecimal() else name


def codes_of(names: tuple[str, ...] | list[str]) -> dict[str, int]:
    """The place of each name, for `code`."""
    return {plain(name): place for place, name in enumerate(names)} | {name: place for place, name in enumerate(names)}


def code(codes: Mapping[str, int], name: str, unknown: int) -> int:
    """A name's place: as it is written, or as another program writes that number."""
    return codes.get(name, codes.get(plain(name), unknown))
