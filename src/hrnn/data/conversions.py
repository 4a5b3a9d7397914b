"""Columns of a table as numbers and texts, whatever type they have in the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hrnn.data.names import name_of
from hrnn.data.source import Numbers
from hrnn.data.table_files import CSV, TableFile
from hrnn.errors import UserError, shortened

Kind = Literal["number", "text", "time", "other"]


def kind_of(type_: Any) -> Kind:
    from pyarrow import types

    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_boolean(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_null(type_):
        return "number"
    return "time" if types.is_timestamp(type_) or types.is_date(type_) else "other"


def is_empty(file: TableFile, name: str) -> bool:
    """Does a column hold nothing, as the file's types say? Then it may be numbers or texts elsewhere."""
    from pyarrow import types

    return bool(types.is_null(file.types[name]))


def check_texts(file: TableFile, names: Sequence[str]) -> None:
    """Columns of a CSV file that are no texts because of how their letters are written."""
    from pyarrow import types

    for name in names if file.path.name.lower().endswith(CSV) else ():
        if name in file.types and types.is_binary(file.types[name]):
            raise UserError(f"column {name!r} of {file.path} is not UTF-8; save the file again as UTF-8")


def id_kind(file: TableFile, name: str | None) -> str | None:
    """What ids are: whole numbers or texts; nothing else tells sequences apart safely."""
    from pyarrow import types

    if name is None:
        return None
    type_ = file.types[name]
    type_ = type_.value_type if types.is_dictionary(type_) else type_
    if types.is_integer(type_):
        return "whole numbers"
    if kind_of(type_) == "text" or types.is_null(type_):
        return "texts"
    raise UserError(f"column {name!r} of {file.path} is {type_}; ids are whole numbers or texts")


def texts_of(column: Any, path: Path, name: str, missing: str | None = None) -> tuple[list[str], Numbers]:
    """A column as its different entries and the place of each row's among them."""
    import pyarrow
    from pyarrow import types

    if column.null_count and missing is None:
        raise UserError(f"column {name!r} of {path} has {column.null_count:,} empty row(s); fill them in, or leave them out")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode" if column.null_count else "mask")
    if isinstance(encoded, pyarrow.ChunkedArray):
        encoded = encoded.combine_chunks()
    entries = [name_of(entry) or missing or "" for entry in encoded.dictionary.to_pylist()]
    return entries, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def numbers_of(column: Any) -> NDArray[np.float64]:
    """A column of numbers, nan where it is empty."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    if types.is_float16(column.type) or not types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    found: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found


def counts_rows(file: TableFile, name: str) -> bool:
    """Is a column nothing but the number of a row: 0, 1, 2, ... or 1, 2, 3, ..., perhaps from the beginning again for another
    sequence? By the first rows."""
    from pyarrow import types

    if not types.is_integer(file.types[name]):
        return False
    batch = next(file.batches([name]), None)
    if batch is None or not batch.num_rows:
        return True
    found = numbers_of(batch.column(0))
    first = found[0]
    return bool(first in (0, 1) and np.all((np.diff(found) == 1) | (found[1:] == first)))


def time_type(file: TableFile, name: str) -> Any:
    """What times are read as: timestamps of one unit, whole numbers or floats."""
    import pyarrow
    from pyarrow import types

    type_ = file.types[name]
    if types.is_timestamp(type_):
        return pyarrow.timestamp(type_.unit)
    if types.is_date(type_):
        return pyarrow.timestamp("s")
    if kind_of(type_) == "text":
        return pyarrow.timestamp("us")
    if types.is_integer(type_):
        return pyarrow.int64()
    if kind_of(type_) == "number" and not types.is_boolean(type_):
        return pyarrow.float64()
    raise UserError(f"time {name!r} of {file.path} is {type_}; give numbers or timestamps")


def time_name(type_: Any) -> str:
    from pyarrow import types

    return str(type_) if types.is_timestamp(type_) else "number"


def times_of(column: Any, type_: Any, path: Path, name: str) -> NDArray[Any]:
    import pyarrow
    from pyarrow import types

    if column.null_count:
        raise UserError(f"time {name!r} of {path} is missing in {column.null_count:,} row(s); fill it in, or leave them out")
    try:
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pyarrow.timestamp(column.type.unit))
        column = column.cast(type_)
        if types.is_timestamp(type_):
            column = column.cast(pyarrow.int64())
    except pyarrow.ArrowException as error:
        said = shortened(" ".join(str(error).split()), 120)
        raise UserError(f"time {name!r} of {path} cannot be read as {type_} ({said}); write ISO dates or numbers") from None
    times: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if not np.isfinite(times).all():
        raise UserError(f"time {name!r} of {path} has values that are not finite; clean it")
    return times
