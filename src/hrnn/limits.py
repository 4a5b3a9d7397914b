"""What an option may be: its type from the annotation, its range from the field. One check for the command line, for Python and
for configurations read back from files, where anything may stand.

    @dataclass(frozen=True)
    class Mine(Task):
        steps: int = option(100, at_least(1))

A number must be finite, and a whole one below 2**63, whether or not a range is given.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import os
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from hrnn.arguments import LARGEST, shown
from hrnn.errors import UserError, shortened
from hrnn.room import byte_count

NAME_BYTES, PATH_BYTES = 255, 4000  # a little below what Linux allows: files are made inside
LEVELS = 64  # entries of an option that has one for each level
UNIONS = (typing.Union, types.UnionType)
KINDS: dict[Any, tuple[tuple[type, ...], str]] = {  # what a value may be, and how that is said
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "a text"),
    Path: ((str, Path), "a path"),
    type(None): ((type(None),), "None"),
}

T = TypeVar("T")


@dataclass(frozen=True)
class Limit:
    """From `least` (or only above it) to `most` (or only below it), for every entry where an option has several."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False
    entries: int = 10_000

    def allows(self, number: float) -> bool:
        return (number > self.least if self.above else number >= self.least) and (
            number < self.most if self.below else number <= self.most
        )

    def __str__(self) -> str:
        low = f"above {self.least:g}" if self.above else f"at least {self.least:g}"
        high = f"below {self.most:g}" if self.below else f"at most {self.most:,.12g}"
        bounds = [low] * math.isfinite(self.least) + [high] * math.isfinite(self.most)
        return f"a number {' and '.join(bounds)}".replace("a number at least", "at least").strip()


def at_least(least: float, most: float = math.inf, entries: int = 10_000, *, below: float | None = None) -> Limit:
    return Limit(least, most if below is None else below, below=below is not None, entries=entries)


def above(least: float, most: float = math.inf, *, below: float | None = None) -> Limit:
    return Limit(least, most if below is None else below, above=True, below=below is not None)


def option(default: Any, limit: Limit) -> Any:
    """A field of a dataclass of options, with its range."""
    return dataclasses.field(default=default, metadata={"limit": limit})


def hidden(default: Any, limit: Limit | None = None) -> Any:
    """A field that is no option of the command line: what a task finds out of its data and keeps."""
    return dataclasses.field(default=default, metadata={"hidden": True, "limit": limit or Limit()})


def fitted(options: T) -> T:
    """The same options, checked: types, finiteness, ranges; lists as tuples and texts as paths where the annotations say so.

    Fields that are dataclasses themselves are looked into. The first mistake is a UserError that names the option.
    """
    kind: Any = type(options)
    hints, changed = hints_of(kind), {}
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            found: Any = fitted(value)
        else:
            found = typed(hints.get(field.name, Any), value, name_of(field.name))
            check_range(found, field.metadata.get("limit", Limit()), name_of(field.name))
        if field.init and (found is not value or type(found) is not type(value)):
            changed[field.name] = found
    return dataclasses.replace(options, **changed) if changed else options  # type: ignore[type-var]


def built(kind: type[T], entries: Any, where: str) -> T:
    """Options of this kind from entries of a file, each by its name; checked."""
    if not isinstance(entries, Mapping):
        raise UserError(f"{where} is {shortened(entries)}; expected options by their names")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := [name for name in entries if name not in fields]:
        raise UserError(f"{where} has no option {shortened(unknown[0])!r}; there are {', '.join(fields)}")
    if missing := [name for name, field in fields.items() if name not in entries and required(field)]:
        raise UserError(f"{where} lacks {', '.join(missing)}")
    hints = hints_of(typing.cast(Any, kind))
    values = {name: value for name, value in entries.items() if fields[name].init}
    return fitted(kind(**{name: typed(hints.get(name, Any), value, name_of(name)) for name, value in values.items()}))


def required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@functools.cache
def hints_of(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError, AttributeError):  # a user's annotation that only a type checker can follow
        return {}


def name_of(field: str) -> str:
    """An option as it stands on the command line."""
    return "--" + field.replace("_", "-")


def typed(hint: Any, value: Any, name: str) -> Any:
    """The value as the annotation has it; JSON knows neither tuples nor paths. What it does not know passes as it is."""
    try:
        return _typed(hint, value, name)
    except TypeError:
        raise UserError(f"{name} is {shown(value)}; give {words(hint)}") from None


def _typed(hint: Any, value: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        for kind in sorted(arguments, key=lambda kind: kind is Path):  # a path only where a text would not do
            with suppress(TypeError):
                return _typed(kind, value, name)
        raise TypeError
    if origin is tuple and arguments:
        if not isinstance(value, list | tuple):
            raise TypeError
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(value) != len(kinds):
            raise TypeError
        found = tuple(_typed(kind, entry, name) for kind, entry in zip(kinds, value, strict=True))
        # The value itself if it was right as it is: options that nothing changes stay the same object, with their data.
        return value if isinstance(value, tuple) and all(map(operator.is_, value, found)) else found
    if origin is Literal:
        right = any(type(one) is type(value) and one == value for one in arguments)
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return built(hint, value, name)  # as JSON has it
    elif hint in KINDS:
        right = isinstance(value, KINDS[hint][0]) and isinstance(value, bool) == (hint is bool)
    else:
        right = not (dataclasses.is_dataclass(hint) and isinstance(hint, type)) or isinstance(value, hint)
    if not right:
        raise TypeError
    return checked_path(Path(value) if isinstance(value, str) else value, name) if hint is Path else value


def checked_path(path: Path, name: str) -> Path:
    """Refuse what no file can be called."""
    sizes = [len(os.fsencode(part)) for part in path.parts]
    if max(sizes, default=0) > NAME_BYTES or sum(sizes) + len(sizes) > PATH_BYTES:
        raise UserError(
            f"{name} is {shortened(path)}, which is too long for a file; give names of at most {NAME_BYTES} bytes and "
            f"{PATH_BYTES:,} in all"
        )
    if "\0" in str(path):
        raise UserError(f"{name} is {shortened(path)!r}; a path cannot hold a zero byte")
    return path


def check_range(value: Any, limit: Limit, name: str, whole: Any = None) -> None:
    """Refuse numbers that are not finite or out of range, also among the entries of a tuple."""
    if isinstance(value, tuple):
        if len(value) > limit.entries:
            raise UserError(f"{name} has {len(value):,} entries; give at most {limit.entries:,}")
        for entry in value:
            check_range(entry, limit, name, value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    given = shortened(value if whole is None else " ".join(map(shortened, whole)))
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name} is {given}; give {limit}, and a finite one")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{name} is {given}; give numbers below 2**63")
    if not limit.allows(value):
        raise UserError(f"{name} is {given}; give {limit}")


def words(hint: Any) -> str:
    """What an annotation asks for, in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return " or ".join(words(one) for one in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin is tuple:
        return f"a list, each entry {words(arguments[0])}" if arguments else "a list"
    return KINDS[hint][1] if hint in KINDS else str(hint)


def in_bytes(text: str, name: str = "--memory") -> int:
    """500MB as a number; KiB, MiB and GiB are powers of 1024."""
    try:
        return byte_count(text)
    except ValueError:
        raise UserError(f"{name} is {shortened(text)!r}; give bytes, as in 200MB, 1.5GB or 500MiB") from None
