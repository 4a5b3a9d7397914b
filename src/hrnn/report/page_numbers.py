"""What a run's records say, as columns of numbers for the curves and pictures of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hrnn.limits import LEVELS
from hrnn.metrics import LOCAL_LOSSES, LOSS, Metric, Metrics
from hrnn.report.series import LoadedRun
from hrnn.report.summary import number
from hrnn.training.journal import Record

X_AXES = ("update", "sequences", "seconds")  # what curves can be drawn against, by the entry of a record
NO_CURVES = ("engine", "data", "end")  # kinds of records
NO_METRICS = ("kind", *X_AXES)  # nor is what ends with _seconds
BY_LEVEL = ("update", "validation", "test")  # kinds whose lists have a number for each level; a course's own may have thousands
DIGITS, LONG_DIGITS = 5, 9  # of values, and of what they stand against
VALIDATIONS, INDICES = 60, 60  # of a picture of what decoders recover, at most
Entries = dict[str, Any]


def columns_of(run: LoadedRun, most: int) -> Entries:
    """By kind of record: `x`, a column for each axis; and `y`, for each metric its values, null where they are no numbers, and
    the places of the records that have it where others do not; `none`, how many records have a metric that is never a number.
    most: records of a kind"""
    found: Entries = {}
    for kind, records in _by_kind(run).items():
        records = evenly(records, most)
        values = [_flat(record, kind in BY_LEVEL) for record in records]
        names = dict.fromkeys(name for one in values for name in one)
        y: Entries = {}
        none: dict[str, int] = {}
        for name in names:
            places = [place for place, one in enumerate(values) if name in one]
            column = [values[place][name] for place in places]
            if any(value is not None for value in column):
                y[name] = {"v": column} if len(places) == len(records) else {"at": places, "v": column}
            elif name.partition("/")[0] != LOCAL_LOSSES.name:  # levels without a local loss have none
                none[name] = len(column)
        if y or none:
            x = {axis: [_rounded(record.get(axis), LONG_DIGITS) for record in records] for axis in X_AXES}
            found[kind] = {"x": x, "y": y, "none": none}
    return found


def _by_kind(run: LoadedRun) -> dict[str, list[Record]]:
    kinds: dict[str, list[Record]] = {}
    for record in run.records:
        if record["kind"] not in NO_CURVES:
            kinds.setdefault(record["kind"], []).append(record)
        progress = run.described.metrics.progress
        if record["kind"] == "end" and progress is not None and progress.in_result in record:  # after the last recorded update
            places = {name: record.get(name) for name in X_AXES}
            kinds.setdefault("update", []).append({**places, progress.name: record[progress.in_result]})
    return kinds


def _flat(record: Record, lists: bool) -> dict[str, float | None]:
    """The metrics of a record; of those with a number for each level, if lists are such, by name and level."""
    found: dict[str, float | None] = {}
    for name, value in record.items():
        if name in NO_METRICS or name.endswith("_seconds") or isinstance(value, bool | str | dict):
            continue
        if not isinstance(value, list):
            found[name] = _rounded(value, DIGITS)
        elif lists and len(value) <= LEVELS and not any(isinstance(one, bool | str | list | dict) for one in value):
            found |= {f"{name}/{level}": _rounded(one, DIGITS) for level, one in enumerate(value)}
    return found


def _rounded(value: Any, digits: int) -> float | None:
    known = number(value)
    if known is None or isinstance(known, int):
        return known
    short = float(f"{known:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def evenly(records: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them, the first and the last among these."""
    if len(records) <= most:
        return list(records)
    return [records[round(place * (len(records) - 1) / (most - 1))] for place in range(most)]


def panels_of(runs: Sequence[tuple[LoadedRun, Entries]]) -> list[Entries]:
    """One for each metric that any run has, in the order in which one would look for it; `main`: described by the task."""
    order: dict[str, Metric] = {}
    described: set[str] = set()
    for run, _ in runs:
        for metric in run.described.metrics.all:
            order.setdefault(metric.name, metric)
            described.add(metric.name)
    names = dict.fromkeys(name for _, columns in runs for kind in columns.values() for name in kind["y"])
    first = {name: place for place, name in enumerate(order)}
    ranked = sorted(names, key=lambda name: (first.get(name.partition("/")[0], len(first)), name.partition("/")[2]))
    return [_panel(name, [run.described.metrics for run, _ in runs], described) for name in ranked]


def _panel(name: str, several: Sequence[Metrics], described: set[str]) -> Entries:
    base, _, level = name.partition("/")
    metric = next((metrics.named(base) for metrics in several if base in {one.name for one in metrics.all}), Metric(base))
    where = f", level {level}" if level else ""
    units = {metrics.named(base).unit for metrics in several if base in {one.name for one in metrics.all}}
    unit = f" ({metric.unit})" if metric.unit and len(units) == 1 else ""  # of runs with different ones, none
    marks = sorted({mark for metrics in several for mark in metrics.named(base).levels})
    return {
        "name": name,
        "title": f"{metric.label}{where}",
        "axis": f"{metric.label}{where}{unit}",
        "steps": any(metrics.progress is not None and metrics.progress.name == base for metrics in several),
        "least": metric.least,
        "most": metric.most,
        "marks": [[value, words] for value, words in marks],
        "log": any(metrics.local.name == base for metrics in several),
        "main": base in described or base == LOSS.name,
    }


def recovered_of(records: Sequence[Record], cells: int) -> list[Entries]:
    """By level below the top: `z`, by index and validation, what its decoder lost of the input so many ticks back, of 1 by
    guessing. Evenly chosen validations and indices where there are many. cells: of all levels together, at most"""
    validations = [record for record in records if record["kind"] == "validation" and _is_table(record.get("recovered"))]
    levels = max((len(record["recovered"]) for record in validations), default=0)
    made = []
    for level in range(levels):
        there = [record for record in validations if len(record["recovered"]) > level]
        reach = max(len(record["recovered"][level]) for record in there)
        indices = evenly(range(1, reach + 1), INDICES)
        shown = evenly(there, max(2, min(VALIDATIONS, cells // (levels * max(1, len(indices))))))
        rows = [[_at(record["recovered"][level], index) for record in shown] for index in indices]
        if any(value is not None for row in rows for value in row):
            x = {name: [_rounded(record.get(name), LONG_DIGITS) for record in shown] for name in X_AXES}
            thinned = len(shown) < len(there) or len(indices) < reach
            made.append({"level": level, "indices": indices, "x": x, "z": rows, "thinned": thinned})
    return made


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, list) for row in value)


def _at(values: Sequence[Any], index: int) -> float | None:
    return _rounded(values[index - 1], DIGITS) if index <= len(values) else None


def confusion_of(result: Record | None, records: Sequence[Record]) -> Entries | None:
    """Counts by class and by what it was taken for, if the result has some, or the last test or validation: an entry
    `confusion`, a square of counts, with the names of the classes in `classes` where these have names."""
    tests = [record for kind in ("test", "validation") for record in reversed(records) if record["kind"] == kind]
    for place in (result or {}, *tests):
        counts = place.get("confusion")
        if not _is_table(counts) or not counts or any(len(row) != len(counts) for row in counts):
            continue
        if any(number(value) is None for row in counts for value in row):
            continue
        names = place.get("classes")
        if not isinstance(names, list) or len(names) != len(counts):
            names = range(len(counts))
        return {"classes": [str(name) for name in names], "counts": counts}
    return None


def not_numbers(columns: Entries) -> dict[str, int]:
    """How often each metric was not a number, among the records that are shown."""
    found: dict[str, int] = {}
    for kind in columns.values():
        for name, column in kind["y"].items():
            if missing := sum(value is None for value in column["v"]):
                found[name] = found.get(name, 0) + missing
        for name, missing in kind["none"].items():
            found[name] = found.get(name, 0) + missing
    return found
