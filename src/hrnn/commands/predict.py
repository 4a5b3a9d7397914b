"""hrnn predict: what a run on series says of other data, as a table; or of lines as they come."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from hrnn.commands.options import parse
from hrnn.data.columns import roles
from hrnn.data.csv_files import MISSING, delimiter_of, trimmed
from hrnn.errors import DONE, UserError, require_extra
from hrnn.files import FULL, replacing
from hrnn.tasks import Series
from hrnn.telling import working
from hrnn.training.identity import Trust
from hrnn.training.predicting import Predicted, beside, columns_for, predictions
from hrnn.training.streaming import Stream
from hrnn.training.trained import Trained, load, warn_of_untrained

ROWS = 100_000  # of the output that are written at once


@dataclass(frozen=True)
class Predict:
    """Classes with probabilities, numbers or forecasts for other data, by a run on series.

    One row for each sequence or step; of a forecast, one for each step ahead. With --follow, lines of CSV from standard input
    are answered one by one.

    Examples:
        hrnn predict runs/series-ours-0 sensors.csv --output predicted.parquet
        hrnn predict runs/series-ours-0 --follow
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    data: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Files or a folder, of the kind that the run learned from; targets are not needed."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """A file to be written, .parquet or .csv; by default CSV on standard output."""
    follow: bool = False
    """Read CSV (commas, semicolons or tabs) from standard input, its first line the names of columns, and answer each line at
    once. Sequences are told apart by the column for ids, if there is one; memory grows with their number, not with their
    length. Times are written as the data had them: timestamps, such as 2024-01-01 00:00:07, or numbers. A forecast is one line:
    x+1, x+2 and so on are what follows of x."""
    skip_bad: bool = False
    """With --follow: leave out lines that cannot be used, as if they had not come, instead of ending with the first. Each is
    reported on standard error, with its number and why, and at the end how many there were."""
    checkpoint: str = "best"
    """best (on validation; the last where nothing was validated), last, or the number of an update."""
    own: Trust = field(default_factory=Trust)


def main(arguments: Sequence[str]) -> int:
    options = parse(Predict, "predict", arguments)
    if options.follow == bool(options.data):
        raise UserError("give data, or --follow to read lines from standard input, and not both")
    if options.follow and options.output is not None:
        raise UserError(f"--output is {options.output} and --follow answers on standard output; drop one of the two")
    if options.skip_bad and not options.follow:
        raise UserError("--skip-bad is for --follow; drop it")
    if options.output is not None and options.output.suffix not in (".parquet", ".csv"):
        raise UserError(f"--output is {options.output}; give a name that ends with .parquet or .csv")
    trained = load(options.run, options.checkpoint, **vars(options.own))
    task = trained.config.task
    if not isinstance(task, Series):
        raise UserError(f"{options.run} is no run on series; hrnn evaluate and hrnn sample are for others")
    warn_of_untrained(trained)
    torch.set_num_threads(trained.config.upkeep.threads)
    if options.follow:
        return follow(trained, options.skip_bad)
    require_extra("data", "hrnn predict")
    paths = tuple(path.expanduser().absolute() for path in options.data)
    rows = count = 0
    # Answers that go to the terminal show by themselves how far it is.
    hidden = nullcontext(lambda far: None) if options.output is None and sys.stdout.isatty() else working("predicting")
    with writer(options.output) as write, hidden as at:
        for some in gathered(reported(predictions(trained.network, task, paths), at)):
            table = as_table(some)
            write(table)
            rows, count = rows + table.num_rows, count + len(some)
    if options.output is not None:
        print(f"{options.output}: {rows:,} rows")
    return DONE


def reported(found: Iterator[Predicted], at: Callable[[str], None]) -> Iterator[Predicted]:
    """The same; at: is told how many answers there were."""
    rows = 0
    for one in found:
        rows += len(one.steps)
        at(f"{rows:,} rows")
        yield one


def gathered(found: Iterator[Predicted]) -> Iterator[list[Predicted]]:
    """Answers, so many rows together."""
    some: list[Predicted] = []
    rows = 0
    for one in found:
        some.append(one)
        rows += len(one.steps)
        if rows >= ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


def as_table(some: list[Predicted]) -> Any:
    import pyarrow as pa

    ids = np.repeat(np.array([one.id for one in some], dtype=object), [len(one.steps) for one in some])
    columns: dict[str, Any] = {"id": pa.array(ids, pa.string()), "step": np.concatenate([one.steps for one in some])}
    for name, column in beside(some[0].columns, ("id", "step")).items():
        values = np.concatenate([one.columns[name] for one in some])
        columns[column] = pa.array(values, pa.string()) if values.dtype == object else pa.array(values)
    return pa.table(columns)


@contextmanager
def writer(path: Path | None) -> Iterator[Callable[[Any], None]]:
    """A file that is there when it is complete, or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    if path is None:
        first = True

        def to_output(table: Any) -> None:
            nonlocal first
            options = pyarrow.csv.WriteOptions(include_header=first)
            pyarrow.csv.write_csv(table, getattr(sys.stdout, "buffer", sys.stdout), options)
            first = False

        sys.stdout.flush()
        yield to_output
        return
    kind, files = pyarrow.parquet.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter, list[Any]()

    def to_file(table: Any) -> None:
        if not files:
            files.append(kind(whole, table.schema))
        files[0].write_table(table)

    try:
        with replacing(path) as whole:
            try:
                yield to_file
            finally:
                for file in files:
                    file.close()
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = "make room" if error.errno in FULL else "see to it that its folder is there and can be written to"
        raise UserError(f"{path} cannot be written: {error.strerror or error}; {remedy}") from None


def follow(trained: Trained, skip_bad: bool = False) -> int:
    """Lines of CSV in, an answer to each out, at once. skip_bad: go on behind those that cannot be used."""
    if sys.stdin is None:  # closed by whoever started us, as `<&-` does
        raise UserError("standard input is closed; give lines of CSV")
    if hasattr(sys.stdin, "reconfigure"):  # what is no UTF-8 is found in its own line, whatever the locale
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    first = sys.stdin.readline().removeprefix("\ufeff")  # a mark that some programs put before UTF-8
    if not first:
        raise UserError("standard input is empty; give a first line with the names of columns")
    delimiter = delimiter_of(first)
    header = _cells_of(first, delimiter, 1)
    header, written = [trimmed(name) for name in header], header
    task: Series = trained.config.task
    pre = task.learned
    played = roles(header, columns_for(task, header, "the first line"), "the first line")
    if pre.interval and played.time is None:
        raise UserError("the first line has no column of times, and training had one; add it")
    numeric = {pre.channels[place] for place in pre.numeric}
    streams: dict[str, Stream] = {}
    about = Stream(trained.network, task).answers  # a run that cannot be followed says so now

    def answered(text: str, number: int) -> list[Any]:
        cells = _cells_of(text, delimiter, number)
        if len(cells) != len(header):
            raise UserError(f"line {number} has {len(cells)} cells and the first line {len(header)}; give one for each column")
        line = dict(zip(header, cells if header == written else map(str.strip, cells), strict=True))
        for channel in numeric:
            if line[channel] in MISSING:
                line[channel] = ""
            elif delimiter != ",":  # numbers may have a comma before their decimals
                line[channel] = line[channel].replace(",", ".")
        name = line[played.id] if played.id is not None else ""
        stream = streams.get(name) or Stream(trained.network, task)
        try:
            answer = stream.step(line, line[played.time] if pre.interval and played.time is not None else None)
        except UserError as error:
            raise UserError(f"line {number}: {error}") from None
        streams[name] = stream
        return [name, stream.steps - 1, *_cells(answer, about.names, about.ahead)]

    out, lines, bad = csv.writer(sys.stdout, lineterminator="\n"), 0, 0
    try:
        for number, text in enumerate(sys.stdin, 2):
            if text == "\n":
                continue
            lines += 1
            try:
                row = answered(text, number)
            except UserError as error:
                if not skip_bad:
                    raise UserError(f"{error}; --skip-bad goes on without such lines") from None
                bad += 1
                print(f"skipped {error}", file=sys.stderr, flush=True)
                continue
            if lines == bad + 1:
                out.writerow(["id", "step", *_headings(about.names, about.ahead)])
            out.writerow(row)
            sys.stdout.flush()
    finally:
        if skip_bad:
            print(f"skipped {bad:,} of {lines:,} lines", file=sys.stderr)
    return DONE


def _cells_of(text: str, delimiter: str, number: int) -> list[str]:
    """A line by itself: quotes that are not closed would swallow those that follow."""
    try:
        cells = next(csv.reader([text], delimiter=delimiter, strict=True), [])
        "".join(cells).encode()
    except csv.Error as error:
        raise UserError(f"line {number} cannot be read as CSV: {error}") from None
    except UnicodeEncodeError:
        raise UserError(f"line {number} is not UTF-8; convert it, as iconv does") from None
    return cells


def _headings(columns: Sequence[str], ahead: int) -> list[str]:
    return [f"{name}+{step}" for step in range(1, ahead + 1) for name in columns] if ahead else list(columns)


def _cells(answer: dict[str, Any] | None, columns: Sequence[str], ahead: int) -> list[Any]:
    """One line, a forecast step by step; empty where there is no answer."""
    if answer is None:
        return [""] * len(_headings(columns, ahead))
    if ahead:
        return [repr(float(answer[name][step])) for step in range(ahead) for name in columns]
    return [value if isinstance(value, str) else repr(float(value)) for value in (answer[name] for name in columns)]
