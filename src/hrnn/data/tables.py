"""Long tables: a row is a step; columns for id, time, values, target, part and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import entries, shown
from hrnn.data.columns import INDEX, NO_DATA, Roles, Wanted, check_column, roles
from hrnn.data.conversions import (
    Kind,
    check_texts,
    counts_rows,
    id_kind,
    is_empty,
    kind_of,
    numbers_of,
    texts_of,
    time_name,
    time_type,
    times_of,
)
from hrnn.data.doubtful import check_names
from hrnn.data.names import plain
from hrnn.data.source import Block, Layout, Numbers, Register, Source, Stream, Vocabulary, listed, part_named
from hrnn.data.table_files import TableFile, in_memory, open_table, reading
from hrnn.errors import UserError, shortened


@dataclass(frozen=True)
class Table(Source):
    """Files with the same columns, which follow each other; see `table`."""

    paths: tuple[tuple[Path, str | None], ...]
    wanted: Wanted
    targets: Literal["sequence", "step"] | None
    categorical: tuple[str, ...]
    held: Any = field(default=None, compare=False)

    def files(self) -> list[Path]:
        return [path for path, _ in self.paths] if self.held is None else []

    def options(self) -> dict[str, Any]:
        wanted = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self.wanted).items()}
        parts = [part for _, part in self.paths]
        return {"source": "table", **wanted, "targets": self.targets, "categorical": list(self.categorical), "parts": parts}

    def open(self) -> Stream:
        first = self.file(self.paths[0][0])
        counted = INDEX in first.types and self.wanted.values is None and counts_rows(first, INDEX)
        found = roles(list(first.types), self.wanted, str(first.path), (*NO_DATA, *([INDEX] if counted else [])))
        for name in self.categorical:
            check_column(name, found.values, str(first.path), "categorical values")
        return _Pass(self, found, first).stream

    def columns(self) -> list[str]:
        return list(self.file(self.paths[0][0]).types)

    @property
    def roles(self) -> Roles:
        """Which column is what; without one for ids each file is a sequence."""
        return roles(self.columns(), self.wanted, str(self.paths[0][0]))

    def file(self, path: Path) -> TableFile:
        return open_table(path) if self.held is None else in_memory(self.held)


def table(
    paths: Any,
    *,
    id: str | bool | None = None,
    time: str | bool | None = None,
    values: Sequence[str] | None = None,
    target: str | bool | None = None,
    targets: Literal["sequence", "step"] | None = None,
    categorical: Sequence[str] = (),
    part: str | bool | None = None,
    group: str | None = None,
) -> Table:
    """A long table in Parquet, Arrow (Feather) or CSV files.

    paths:       one file, several that follow each other, or those of each part by its name; or a table in memory that speaks
                 Arrow, as those of pyarrow, pandas and Polars
    id:          the column that tells sequences apart; by default unique_id, item_id, series_id, sequence_id or id. Without
                 one, each file is one sequence, called by its name
    time:        numbers or timestamps that increase within a sequence; by default ds, timestamp, time, datetime or date
    values:      by default every other column. Numbers are channels; texts are categorical, and tokens if there is nothing else
    target:      by default label, labels or class. y and target, as Nixtla and AutoGluon call what is to be forecast, are
                 values
    targets:     one for each "sequence" (the same in all its rows) or one for each "step"; by default as the first rows have it
    categorical: columns of whole numbers or texts that are names, not amounts
    part, group: columns, the same in all rows of a sequence; part by default split. False: there is none
    """
    if targets not in (None, "sequence", "step"):
        raise UserError(f"targets is {shown(targets)}; give 'sequence' or 'step', or None")
    values = None if values is None else tuple(entries("values", values, "['x', 'y']"))
    categorical = tuple(entries("categorical", categorical, "['code']"))
    wanted = Wanted(id, time, values, target, part, group)
    if hasattr(paths, "__arrow_c_stream__"):
        return Table(((Path("table"), None),), wanted, targets, categorical, paths)
    return Table(tuple(listed(paths)), wanted, targets, categorical)


def ids_by_file(paths: Sequence[Path]) -> dict[Path, str]:
    """What the sequences of files without ids are called: by the files' names, with as many folders as tell them apart."""
    if len(paths) == 1:
        return {paths[0]: paths[0].stem}
    if twice := [path for path, count in Counter(paths).items() if count > 1]:
        raise UserError(f"{twice[0]} is given twice, and without ids it is one sequence; give it once")
    ends = {path: ["/".join(path.parts[first:]) for first in reversed(range(len(path.parts)))] for path in paths}
    met = Counter(end for several in ends.values() for end in several)
    return {path: next(end for end in several if met[end] == 1) for path, several in ends.items()}


class _Pass:
    """One pass over the files; what was found in the first holds for the others."""

    def __init__(self, source: Table, found: Roles, first: TableFile):
        self.source, self.roles = source, found
        check_texts(first, found.read)
        self.id_type = id_kind(first, found.id)
        self.names = ids_by_file([path for path, _ in source.paths]) if found.id is None else {}
        self.kinds = {name: self._value_kind(self._filled(first, name), name) for name in found.values}
        names = tuple(name for name in found.values if self.kinds[name] == "text")
        self.tokens = names == found.values and len(names) == 1
        self.vocabularies = {name: Vocabulary() for name in names}
        self.time_type = None if found.time is None else time_type(first, found.time)
        self.labels: Vocabulary | None = None
        self.target_kind: Kind | None = None
        if found.target is not None:
            self.target_kind = kind_of(self._filled(first, found.target).types[found.target])
            if self.target_kind not in ("number", "text"):
                raise UserError(
                    f"target {found.target!r} of {first.path} is {first.types[found.target]}; give numbers or texts"
                )
            if self.target_kind == "text":
                self.labels = Vocabulary()
        self.targets = self._targets(first)
        layout = Layout(
            found.values, self.tokens, categorical=() if self.tokens else names,
            time=None if self.time_type is None else time_name(self.time_type), target=self.targets, target_name=found.target,
        )  # fmt: skip
        self.register = Register()
        labels = self.labels if self.targets == "step" else None
        self.stream = Stream(layout, self.register, self._blocks(), self.vocabularies, labels)

    def _filled(self, first: TableFile, name: str) -> TableFile:
        """The first file that has something in a column, which says what it holds."""
        files = (first, *(self.source.file(path) for path, _ in self.source.paths[1:])) if is_empty(first, name) else ()
        return next((file for file in files if name in file.types and not is_empty(file, name)), first)

    def _value_kind(self, file: TableFile, name: str) -> Kind:
        kind = kind_of(file.types[name])
        if kind not in ("number", "text"):
            raise UserError(
                f"column {name!r} of {file.path} is {file.types[name]}, which is no value of a step; name the columns that are "
                f"with values, or the time with time"
            )
        return "text" if name in self.source.categorical else kind

    def _targets(self, file: TableFile) -> Literal["sequence", "step"] | None:
        """Whether the target stays the same within sequences, by the first rows."""
        target, identity = self.roles.target, self.roles.id
        if target is None or self.source.targets is not None:
            return None if target is None else self.source.targets
        if identity is None:
            return "step"
        batch = next(file.batches([identity, target], [identity]), None)
        if batch is None or not batch.num_rows:
            return "sequence"
        ids = batch.column(identity).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        codes = batch.column(target).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((codes, ids))
        same = ids[order][1:] == ids[order][:-1]
        return "step" if np.any(same & (codes[order][1:] != codes[order][:-1])) else "sequence"

    def _blocks(self) -> Iterator[Block]:
        steps = 0
        for path, part in self.source.paths:
            file = self.source.file(path)
            self._check(file)
            kept = [name for name in (self.roles.id, self.roles.part, self.roles.group) if name is not None]
            kept += list(self.vocabularies)
            self.looked = False
            for batch in file.batches(self.roles.read, kept, [self.roles.time] if self.roles.time is not None else []):
                with reading(path):
                    if batch.num_rows:
                        yield self._block(batch, path, part)
                        steps += batch.num_rows
        if not steps:
            raise UserError(f"{self.source.paths[0][0]} has no rows")

    def _check(self, file: TableFile) -> None:
        """Later files have what the first one has, of the same kind."""
        for name in self.roles.read:
            check_column(name, list(file.types), str(file.path), "what the first file has")
        check_texts(file, self.roles.read)
        if (now := id_kind(file, self.roles.id)) != self.id_type:
            raise UserError(
                f"ids in column {self.roles.id!r} are {self.id_type} in the first file and {now} in {file.path}; make them "
                f"alike"
            )
        for name, kind in self.kinds.items():
            if not is_empty(file, name) and (other := self._value_kind(file, name)) != kind:
                raise UserError(f"column {name!r} is {kind} in the first file and {other} in {file.path}; make them alike")
        target = self.roles.target
        if target is not None and not is_empty(file, target) and (other := kind_of(file.types[target])) != self.target_kind:
            raise UserError(
                f"target {target!r} is {self.target_kind} in the first file and {other} in {file.path}; make them alike"
            )
        if self.roles.time is not None and (time_name(time_type(file, self.roles.time)) == "number") != (
            time_name(self.time_type) == "number"
        ):
            raise UserError(
                f"time {self.roles.time!r} is of another kind in {file.path} than in the first file; make them alike"
            )

    def _block(self, batch: Any, path: Path, part: str | None) -> Block:
        columns = {name: batch.column(name) for name in self.roles.read}
        numbers = self._numbers(columns, path, batch.num_rows)
        if part is not None:
            fact = self.register.fact("part")
            assert fact.labels is not None
            if (wrong := fact.note(numbers, np.full(len(numbers), float(fact.labels.code(part))))) is not None:
                self._contradiction("part", numbers[wrong], path)
        for name, column in (("part", self.roles.part), ("group", self.roles.group)):
            if column is not None and (name == "group" or part is None):  # the parts of files come before a column
                self._fact(name, texts_of(columns[column], path, column), numbers, path)
        targets = self._target(columns, numbers, path)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1])
        times = None if self.roles.time is None else times_of(columns[self.roles.time], self.time_type, path, self.roles.time)
        values, self.looked = self._values(columns, path), True
        return Block(values, starts, numbers[starts], times, targets)

    def _numbers(self, columns: dict[str, Any], path: Path, rows: int) -> Numbers:
        """Of the sequence that each row belongs to."""
        if self.roles.id is None:
            return np.full(rows, self.register.ids.code(self.names[path]), np.int64)
        entries, codes = texts_of(columns[self.roles.id], path, self.roles.id)
        return self.register.ids.several(entries)[codes]

    def _fact(self, name: str, texts: tuple[list[str], Numbers], numbers: Numbers, path: Path) -> None:
        entries, codes = texts
        if name == "part":
            entries = [part_named(entry, f"column {self.roles.part!r} of {path}") for entry in entries]
        fact = self.register.fact(name)
        assert fact.labels is not None
        if (wrong := fact.note(numbers, fact.labels.several(entries)[codes].astype(np.float64))) is not None:
            self._contradiction(name, numbers[wrong], path)

    def _contradiction(self, name: str, number: int, path: Path) -> None:
        remedies = {
            "target": "; or give targets='step', if each row has its own",
            "part": "; give sequences of different parts different ids, or all files as data and split by time if they go on",
        }
        remedy = remedies.get(name, "")
        raise UserError(
            f"sequence {shortened(self.register.ids.entries[number])!r} of {path} has two values for its {name}; a sequence "
            f"has one{remedy}"
        )

    def _target(self, columns: dict[str, Any], numbers: Numbers, path: Path) -> NDArray[Any] | None:
        name = self.roles.target
        if name is None:
            return None
        if self.labels is not None:
            entries, codes = texts_of(columns[name], path, name, missing="")
            values = np.array([self.labels.code(entry) if entry else np.nan for entry in entries])[codes]
        else:
            values = numbers_of(columns[name])
            if np.isinf(values).any():
                raise UserError(f"target {name!r} of {path} has infinite values; clean it")
        if self.targets == "sequence" and np.isnan(values).any():
            who = self.register.ids.entries[numbers[np.argmax(np.isnan(values))]]
            raise UserError(
                f"target {name!r} is missing for sequence {shortened(who)!r} of {path}; fill it in, or leave that out"
            )
        if self.targets == "step":
            return values
        fact = self.register.fact("target", labels=False)
        fact.labels = self.labels
        if (wrong := fact.note(numbers, values)) is not None:
            self._contradiction("target", numbers[wrong], path)
        return None

    def _values(self, columns: dict[str, Any], path: Path) -> NDArray[Any]:
        if self.tokens:
            name = self.roles.values[0]
            return self._codes(columns[name], name, path)
        values = np.empty((len(columns[self.roles.values[0]]), len(self.roles.values)), np.float64)
        for place, name in enumerate(self.roles.values):
            numeric = self.kinds[name] == "number"
            values[:, place] = numbers_of(columns[name]) if numeric else self._codes(columns[name], name, path)
        return values

    def _codes(self, column: Any, name: str, path: Path) -> Numbers:
        """Categories; one that is missing is a category of its own, ""."""
        entries, codes = texts_of(column, path, name, missing="")
        if name in self.source.categorical:
            entries = [plain(entry) for entry in entries]
        elif not self.looked:
            check_names(entries, codes, name, path, self.tokens)
        return self.vocabularies[name].several(entries)[codes]
