"""Plain arguments, checked the same way everywhere: each error names the argument and the value. Needs no torch."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LARGEST = 2**63 - 1  # that torch and a file can hold
HUGE = 1e38  # of what is multiplied with weights: far beyond sense, and within float32

_NO_NUMBER = (
    TypeError,
    ValueError,
    OverflowError,
    RuntimeError,
    AttributeError,
)  # as float() may raise


def shown(value: Any) -> str:
    """The value as a message repeats it: at most 100 characters, tensors and arrays by their kind."""
    if hasattr(type(value), "shape") and hasattr(type(value), "dtype"):
        try:
            text = f"{value.dtype} of shape {tuple(value.shape)}"
        except Exception:  # a nested tensor has none
            text = f"a {type(value).__name__} of {value.dtype}"
    else:
        try:
            text = " ".join(repr(value).split())
        except Exception:  # a number of thousands of digits, or whatever a user's class does
            text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


def whole(name: str, value: Any, least: int = 1, most: int = LARGEST, remedy: str = "") -> int:
    """A whole number within limits, of any integer type."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except _NO_NUMBER:
        number = None
    if number is None or not least <= number <= most:
        limits = f"at least {least}" if most == LARGEST or number is None or number < least else f"at most {most}"
        raise ValueError(f"{name} is {shown(value)}; give {remedy or f'a whole number of {limits}'}")
    return number


def number(name: str, value: Any, *, positive: bool = False, infinite: bool = False) -> float:
    """A number that is not negative, of any type that float() understands without reading text."""
    try:
        result = math.nan if isinstance(value, bool | str | bytes | bytearray) else float(value)
    except _NO_NUMBER:
        result = math.nan
    if not result >= 0 or (positive and result == 0) or (math.isinf(result) and not infinite):
        kind = "number" if infinite else "finite number"
        raise ValueError(f"{name} is {shown(value)}; give a {kind} {'above 0' if positive else 'that is not negative'}")
    return result


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as such."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)}; give True or False")
    return value


def entries(name: str, value: Any, example: str) -> list[Any]:
    """The entries of a list, a tuple or another iterable; text, bytes, dicts and sets are none."""
    wrong = isinstance(value, str | bytes | bytearray | memoryview | Mapping | set | frozenset)
    if wrong or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {shown(value)}; give a list, e.g. {name}={example}")
    try:
        return list(value)
    except _NO_NUMBER:  # as a tensor without dimensions
        raise TypeError(f"{name} is {shown(value)}; give a list, e.g. {name}={example}") from None


def each(name: str, value: Any, count: int, levels: str = "levels") -> list[Any]:
    """One entry for each of `count` levels, from a list or from one value for all."""
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)
    found = list(value) if listed else [value] * count
    if len(found) != count:
        raise ValueError(f"{name} has {len(found)} entries for {count} {levels}; give one for each, or one for all")
    return found


def named(name: str, value: Any, example: str = "{'a': 1.0}") -> Mapping[Any, Any]:
    """Entries by name."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {shown(value)}; give a dict, e.g. {name}={example}")
    return value


def path_of(name: str, value: Any) -> Path:
    """A path, given as such or as text."""
    if not isinstance(value, str | os.PathLike) or not isinstance(text := os.fspath(value), str) or "\0" in text:
        raise TypeError(f"{name} is {shown(value)}; give a path, as a str or a pathlib.Path")
    return Path(text)
