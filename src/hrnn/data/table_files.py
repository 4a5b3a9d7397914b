"""Files of tables, batch by batch: Parquet, Arrow (Feather) and CSV, through pyarrow. None is ever in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hrnn.data.csv_files import csv_batches, csv_column, csv_schema, trimmed
from hrnn.errors import UserError, require_extra, shortened, words_of

ROWS = 1 << 16  # of a batch
BUFFER = 1 << 20  # bytes of a column that are read at a time
PARQUET, ARROW, CSV = (".parquet", ".pq"), (".arrow", ".feather", ".ipc"), (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SUFFIXES = (*PARQUET, *ARROW, *CSV)
MALFORMED = "it is damaged, or rows differ in their number of cells"
DAMAGED = "it is damaged, not such a file, or of a newer version of the format than the installed pyarrow knows"


def is_table(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class TableFile:
    """types: pyarrow's type of each column, for CSV as its beginning looks. written: a column's name as it stands in a CSV
    file, perhaps with spaces around it"""

    path: Path
    types: dict[str, Any]
    written: dict[str, str] = field(default_factory=dict)

    def batches(self, columns: Sequence[str], texts: Sequence[str] = (), exact: Sequence[str] = ()) -> Iterator[Any]:
        """Record batches with these columns in their order. Of a CSV file columns of whole numbers are read as floats, as what
        looks like them at first may be none later; but some as `texts`, and others, which may be too large, `exact`."""
        name = self.path.name.lower()
        with reading(self.path):
            if name.endswith(CSV):
                yield from csv_batches(self.path, self.types, self.written, columns, texts, exact)
            elif name.endswith(PARQUET):
                yield from _parquet(self.path).iter_batches(ROWS, columns=list(columns), use_threads=False)
            else:
                yield from _arrow_batches(self.path, columns)


@dataclass(frozen=True)
class TableInMemory(TableFile):
    """One that another package holds; `path` is a name for messages."""

    held: Any = None  # with Arrow's protocol, as pyarrow, pandas and Polars have it

    def batches(self, columns: Sequence[str], texts: Sequence[str] = (), exact: Sequence[str] = ()) -> Iterator[Any]:
        yield from self.held.select(list(columns)).to_batches(ROWS)


def in_memory(held: Any) -> TableInMemory:
    require_extra("data", "a table in memory")
    import pyarrow

    path = Path(f"the {type(held).__name__}")
    try:
        whole = pyarrow.table(held)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({words_of(error)}); give each column one type and one name") from None
    return TableInMemory(path, dict(zip(whole.schema.names, whole.schema.types, strict=True)), held=whole)


def open_table(path: Path) -> TableFile:
    """Look at a file's columns."""
    require_extra("data", f"{path.name}, a table,")
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise UserError(f"{path} is no table by its name; tables end with {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"{path} does not exist or is not a file; name a table")
    with reading(path):
        if name.endswith(CSV):
            schema = csv_schema(path)
        else:
            schema = _parquet(path).schema_arrow if name.endswith(PARQUET) else _arrow(path).schema
        names = [trimmed(name) for name in schema.names] if name.endswith(CSV) else schema.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{path} has two columns called {shortened(twice)!r}; rename one")
        return TableFile(path, dict(zip(names, schema.types, strict=True)), dict(zip(names, schema.names, strict=True)))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What pyarrow says of a file, as a sentence."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, EOFError, UnicodeDecodeError, MemoryError) as error:
        said = " ".join(str(error).split())
        if wrong := re.search(r"CSV column #(\d+):.*conversion error to ([\w ]+).*: invalid value '(.*?)'", said):
            column = csv_column(path, int(wrong[1]))
            raise UserError(
                f"column {shortened(column)!r} of {path} has mixed types: {shortened(wrong[3])!r} stands among values of type "
                f"{wrong[2]}; clean it, or name the column in categorical"
            ) from None
        if _format(path) == "CSV" and (isinstance(error, UnicodeDecodeError) or "invalid UTF8 data" in said):
            raise UserError(f"{path} is not UTF-8; save it again as UTF-8") from None
        if said == "Empty CSV file":
            raise UserError(f"{path} is empty") from None
        what = MALFORMED if _format(path) == "CSV" else DAMAGED
        raise UserError(f"{path} cannot be read as {_format(path)}: {what} ({shortened(said, 200)})") from None


def _format(path: Path) -> str:
    name = path.name.lower()
    return "CSV" if name.endswith(CSV) else "Parquet" if name.endswith(PARQUET) else "Arrow"


def _parquet(path: Path) -> Any:
    import pyarrow.parquet

    # Buffered: of a row group of any size only a little is in memory, not all pages of its columns.
    return pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


def _arrow(path: Path) -> Any:
    import pyarrow
    import pyarrow.ipc

    source = pyarrow.memory_map(str(path)) if path.stat().st_size else pyarrow.BufferReader(b"")
    try:
        return pyarrow.ipc.open_file(source)
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_stream(source)


def _arrow_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    reader = _arrow(path)
    whole = (reader.get_batch(i) for i in range(reader.num_record_batches)) if hasattr(reader, "get_batch") else reader
    for batch in whole:
        chosen = batch.select(list(columns))
        chosen.validate(full=True)  # the file's own offsets are followed blindly otherwise
        yield from (chosen.slice(first, ROWS) for first in range(0, chosen.num_rows, ROWS))
