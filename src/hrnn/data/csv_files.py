"""CSV files as people write them: commas, semicolons or tabs, spaces behind them, a comma or a point within numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hrnn.data.unpacking import unpacked
from hrnn.errors import UserError

BLOCK = 1 << 22  # bytes that are parsed at a time, and by which types are guessed
MISSING = (  # instead of a number
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN",
    "n/a", "nan", "null",
)  # fmt: skip
WIDEST = 16  # spaces in front of a cell that is empty


class Form(NamedTuple):
    """How a file is written.

    spaced: are there spaces around the names of columns? Then there are some around cells, too
    point:  what stands before decimals
    """

    delimiter: str
    names: list[str]
    spaced: bool
    point: str


def form_of(path: Path) -> Form:
    """By the beginning of the file."""
    with unpacked(path) as file:
        first = file.readline(BLOCK)
        if b"\0" in first:
            raise UserError(f"{path} is UTF-16 or no text; save it again as UTF-8")
        line = first.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r\n")
        delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else delimiter_of(line)
        below = "" if delimiter == "," else file.read(BLOCK).decode("utf-8", "replace")
    names = _names(line, delimiter)
    comma = "," in below and _decimals(below, delimiter, ",") and not _decimals(below, delimiter, r"\.")
    return Form(delimiter, names, any(name != name.strip(" ") for name in names), "," if comma else ".")


def delimiter_of(line: str) -> str:
    """What stands between the names of columns in a first line; within quotes it is a part of a name."""
    return max(",;\t", key=re.sub('"[^"]*"', "", line).count)


def _names(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a name that is longer than Python's parser takes
        return line.split(delimiter)


def _decimals(text: str, delimiter: str, point: str) -> bool:
    """Is there a cell with a number that is not whole?"""
    number = rf"[-+]?\d*{point}\d+(?:[eE][-+]?\d+)?"
    return re.search(rf'(?m)(?:^|{delimiter})[ "]*{number}[ "]*\r?(?={delimiter}|$)', text) is not None


def csv_schema(path: Path) -> Any:
    """Names as they stand in the file, and types as its beginning looks."""
    from pyarrow.csv import open_csv

    with unpacked(path) as file, open_csv(file, *_options(form_of(path))) as reader:
        return reader.schema


def csv_batches(
    path: Path,
    types: Mapping[str, Any],
    written: Mapping[str, str],
    columns: Sequence[str],
    texts: Sequence[str],
    exact: Sequence[str],
) -> Iterator[Any]:
    """As `TableFile.batches` has it; written: the names that stand in the file. What is empty at first is taken for numbers.

    Labels and times have no spaces around them; names that are values, or ids, keep theirs unless the first line has some, too:
    a space may be a token.
    """
    import pyarrow
    from pyarrow import compute
    from pyarrow.csv import open_csv

    wanted = {}
    for name in columns:
        if name in texts:
            wanted[name] = pyarrow.string()
        elif (pyarrow.types.is_integer(types[name]) and name not in exact) or pyarrow.types.is_null(types[name]):
            wanted[name] = pyarrow.float64()
        else:
            wanted[name] = types[name]
    form = form_of(path)
    without = [
        place for place, name in enumerate(columns) if wanted[name] == pyarrow.string() and (form.spaced or name not in texts)
    ]
    convert = {"column_types": {written[name]: type_ for name, type_ in wanted.items()}}
    options = _options(form, include_columns=[written[name] for name in columns], **convert)
    with unpacked(path) as file, open_csv(file, *options) as reader:
        for batch in reader:
            found = batch.columns
            for place in without:
                found[place] = compute.utf8_trim_whitespace(found[place])
            yield pyarrow.RecordBatch.from_arrays(found, names=list(columns))


def trimmed(name: str) -> str:
    """A column's name without spaces, as in "id, time, x", and without quotes, which are none to the parser behind a space."""
    return name.strip().strip('"').strip()


def csv_column(path: Path, number: int) -> str:
    """The name of a column by its number; that is what an error tells."""
    names = form_of(path).names
    return trimmed(names[number]) if number < len(names) else f"#{number}"


def _options(form: Form, **convert: Any) -> tuple[Any, Any, Any]:
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    read = ReadOptions(use_threads=False, block_size=BLOCK)
    convert["decimal_point"] = form.point
    spaces = range(WIDEST + 1 if form.spaced else 1)
    convert["null_values"] = [" " * count + value for count in spaces for value in MISSING]
    return read, ParseOptions(delimiter=form.delimiter), ConvertOptions(**convert)
