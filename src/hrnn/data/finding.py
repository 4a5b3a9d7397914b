"""The source that paths name, by what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hrnn.data.array_sources import array_files, arrays
from hrnn.data.folders import TABLE, folder
from hrnn.data.labels import is_labels
from hrnn.data.source import Paths, Source, existing, listed
from hrnn.data.table_files import is_table
from hrnn.data.tables import table
from hrnn.data.ts import archive
from hrnn.errors import UserError, shortened

IN_A_COLUMN = "write the label as a column of each table, say targets='sequence' (--targets sequence),"


def find(data: Any, **options: Any) -> Source:
    """A source by the names of files: tables, .npy and .npz, .ts, and folders (or files) for everything else.

    data:    a path, several, or those of each part by its name; or a table in memory (pandas, Polars, pyarrow); a Source stays
             as it is; anything else is taken for arrays
    options: those of `table`, `array_files`, `archive`, `folder` or `arrays`, whichever it is
    """
    if isinstance(data, Source):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return _called(table, data, options)
    try:
        paths = [existing(path) for path, _ in listed(data)]
    except UserError:
        if _names(data):
            raise
        return _called(arrays, data, options)
    names = [path.name.lower() for path in paths]
    if all(path.is_file() and is_table(path) for path in paths):
        _refuse_labels(paths)
        return _called(table, data, options)
    if all(map(is_array, paths)):
        return _called(array_files, data, options)
    if all(name.endswith((".ts", ".ts.gz")) for name in names):
        return _called(archive, data, options)
    if len(paths) == 1 and paths[0].is_dir():
        inside = sorted(path for path in paths[0].iterdir() if path.is_file() and not path.name.startswith("."))
        if series := [path for path in inside if path.name.lower().endswith(".ts")]:
            return _called(archive, series, options)
        if any(path.name != TABLE for path in inside) and all(is_table(path) for path in inside):
            _refuse_labels(inside)
            return _called(table, inside, options)
        if inside and all(map(is_array, inside)):
            return _called(array_files, inside, options)
    if "kind" not in options and all(map(is_table, _below(paths))):
        _refuse_folders(paths)
    if "kind" not in options and all(map(is_array, _below(paths))) and (some := sorted(_below(paths))):
        raise UserError(
            f"{some[0].parent} holds arrays, which have no classes or parts in folders or {TABLE}: put them into a .npz file "
            "as x (sequences, time, channels) and y (sequences,), or name all files"
        )
    return _called(folder, data, options)


def is_array(path: Path) -> bool:
    """By its name."""
    return path.name.lower().endswith((".npy", ".npz"))


def _refuse_labels(tables: list[Path]) -> None:
    """A table of labels beside others. Recordings have their classes there, tables in themselves."""
    labels = [path for path in tables if path.name == TABLE and is_labels(path)]
    if labels and len(tables) > 1:
        raise UserError(f"{labels[0]} has labels, and those of tables are not read from there: {IN_A_COLUMN} and take it away")


def _refuse_folders(paths: list[Path]) -> None:
    """Folders with nothing but tables. Those of recordings are classes or parts; tables are read from one folder only."""
    if tables := sorted(_below(paths)):
        raise UserError(
            f"{tables[0].parent} holds tables, and a folder is no class or part of theirs: {IN_A_COLUMN} and put all into one "
            "folder, or name all files"
        )


def _below(paths: list[Path]) -> Iterator[Path]:
    """The files in folders and in folders within, but for hidden ones and labels."""
    for root in paths:
        for path in root.rglob("*"):
            names = path.relative_to(root).parts
            if path.is_file() and path.name != TABLE and not any(name.startswith(".") for name in names):
                yield path


def _names(data: Any) -> bool:
    """Is it meant as paths?"""
    some = (
        [data]
        if isinstance(data, str) or hasattr(data, "__fspath__")
        else list(data.values() if isinstance(data, dict) else data)
    )
    within = [one for several in some if isinstance(several, list | tuple) for one in several]  # those of a part
    return not some or any(isinstance(one, str) for one in some) or any(hasattr(one, "__fspath__") for one in [*some, *within])


def _called(kind: Any, data: Paths, options: dict[str, Any]) -> Source:
    try:
        source: Source = kind(data, **options)
    except TypeError:
        import inspect

        known = list(inspect.signature(kind).parameters)[1:]
        unknown = sorted(set(options) - set(known))
        if not unknown:
            raise
        raise UserError(f"{unknown[0]!r} is no option of {kind.__name__}: {shortened(', '.join(known), 200)}") from None
    return source
