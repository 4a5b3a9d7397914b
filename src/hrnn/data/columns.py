"""Which column of a table is what: as the user says, or by names that are in use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from hrnn.errors import UserError, shortened

# Nixtla has unique_id, ds, y; AutoGluon item_id, timestamp, target. Their y and target are values like others.
IDS = ("unique_id", "item_id", "series_id", "sequence_id", "id")
TIMES = ("ds", "timestamp", "time", "datetime", "date")
TARGETS = ("label", "labels", "class")
PARTS = ("split",)
NO_DATA = ("", "Unnamed: 0", "__index_level_0__")  # the number of a row, as pandas leaves it
INDEX = "index"  # perhaps the number of a row, too, and perhaps that of prices: what it holds decides


@dataclass(frozen=True)
class Roles:
    """Names of columns; values in the order of the table, or as the user names them."""

    values: tuple[str, ...]
    id: str | None = None
    time: str | None = None
    target: str | None = None
    part: str | None = None
    group: str | None = None

    @property
    def read(self) -> list[str]:
        """Every column that is needed."""
        others = (self.id, self.time, self.target, self.part, self.group)
        return list(dict.fromkeys([*(name for name in others if name is not None), *self.values]))


@dataclass(frozen=True)
class Wanted:
    """What the user says of the columns; None: find out. False: there is none."""

    id: str | bool | None = None
    time: str | bool | None = None
    values: Sequence[str] | None = None
    target: str | bool | None = None
    part: str | bool | None = None
    group: str | None = None


def check_column(name: object, columns: Sequence[str], where: str, role: str) -> str:
    if isinstance(name, str) and name in columns:
        return name
    near = get_close_matches(str(name), columns, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {shortened(', '.join(columns), 200)}"
    raise UserError(f"{where} has no column {shortened(name)!r} for {role}; {hint}")


def roles(columns: Sequence[str], wanted: Wanted, where: str, no_data: Collection[str] = NO_DATA) -> Roles:
    """Who plays what part among a table's columns; where: the table's name; no_data: columns that are no values by default."""
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if list(columns).count(name) > 1)
        raise UserError(f"{where} has two columns called {shortened(twice)!r}; rename one")
    taken: list[str] = list(wanted.values or ())

    def role(given: str | bool | None, names: Collection[str], what: str) -> str | None:
        if given is False:
            return None
        if given is None or given is True:
            known = {column.lower(): column for column in reversed(columns) if column not in taken}
            found = next((known[name] for name in names if name in known), None)
            if given is True and found is None:
                raise UserError(f"{where} has no column for {what} by a known name ({', '.join(names)}); name it")
        else:
            found = check_column(given, columns, where, what)
        if found is not None:
            if found in taken:
                raise UserError(f"column {found!r} of {where} is asked for twice, once for {what}; give each column one use")
            taken.append(found)
        return found

    for name in wanted.values or ():
        check_column(name, columns, where, "values")
    # What the user names is taken first, so that no guess can take it.
    order = [
        ("id", wanted.id, IDS), ("time", wanted.time, TIMES), ("target", wanted.target, TARGETS), ("part", wanted.part, PARTS),
        ("group", wanted.group or False, ()),
    ]  # fmt: skip
    order.sort(key=lambda one: not isinstance(one[1], str))
    found = {what: role(given, names, what) for what, given, names in order}
    values = wanted.values
    if values is None:
        values = [name for name in columns if name not in taken and name not in no_data]
    if not values:
        raise UserError(f"{where} has no column left for values; its columns are {shortened(', '.join(columns), 200)}")
    if len(set(values)) < len(values):
        raise UserError(f"values names a column of {where} twice: {shortened(', '.join(values), 200)}; give each once")
    return Roles(tuple(values), **found)
