"""One run as the page's template and script see it: plain texts, and numbers for what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hrnn.metrics import Metrics
from hrnn.report.page_facts import data_of, engine_of, notes_of, option_text, times_of
from hrnn.report.page_memory import memory_of
from hrnn.report.page_numbers import confusion_of, not_numbers, recovered_of
from hrnn.report.page_runs import ShownRun
from hrnn.report.table import Table
from hrnn.training.command import command_of

KINDS = ("update", "validation", "test")
Entries = dict[str, Any]


def template_entries(
    run: ShownRun, label: str, options: Sequence[str], columns: Entries, sample: str, measured: int | None = None
) -> Entries:
    """What the template writes down. options: those in which runs differ; measured: bytes of an update"""
    entries, records, summary = run.entries, run.loaded.records, run.summary
    engine = engine_of(records)
    facts = {
        "Folder": str(run.folder),
        "State": summary.state,
        "Result": summary.result,
        "Ended by": str((run.result or {}).get("reason", "")),
        "Seed": str(run.loaded.described.seed),
        "Begun by": f"hrnn {entries['version']}" if "version" in entries else "",
        "Engine": ", ".join(str(value) if name != "threads" else f"threads {value}" for name, value in (engine or {}).items()),
        "Id": str(entries.get("id", "")),
        "Records": _records(run),
        "Not numbers": ", ".join(f"{name} in {count} records" for name, count in not_numbers(columns).items()),
    }
    return {
        "label": label,
        "summary": summary,
        "options": [option_text(entries, name) for name in options],
        "facts": {name: text for name, text in facts.items() if text},
        "command": _command(entries),
        "data": Table(
            ["file", "bytes", "sha256"], [[path, f"{size:,}", sha] for path, size, sha in data_of(entries)], ("file", "sha256")
        ),
        "notes": notes_of(entries),
        "memory": memory_of(entries, engine, run.result, measured),
        "times": {name: f"{seconds:,.1f} s" for name, seconds in times_of(records).items()},
        "last": _last(columns, run.loaded.described.metrics),
        "sample": sample,
        "recorded": bool(columns),
    }


def _records(run: ShownRun) -> str:
    if not run.records:
        return "none yet; let it run a little"
    if run.whole:
        return f"{run.records:,}"
    return f"{len(run.loaded.records):,} of {run.records:,} are shown; the curves are thinned"


def _command(entries: Entries) -> str:
    try:
        return command_of(entries)
    except (KeyError, TypeError, AttributeError):
        return ""


def _last(columns: Entries, metrics: Metrics) -> Table:
    """The last value of every metric, by kind of record: what the curves say to whoever cannot see them."""
    columns = {kind: columns[kind] for kind in sorted(columns, key=_place)}
    names = dict.fromkeys(name for kind in columns.values() for name in kind["y"])
    heads = ["metric", *("training" if kind == "update" else kind for kind in columns)]
    rows = []
    for name in names:
        base, _, level = name.partition("/")
        label = metrics.named(base).label + (f", level {level}" if level else "")
        rows.append([label, *(_text(kind["y"].get(name)) for kind in columns.values())])
    return Table(heads, rows, ("metric",))


def _place(kind: str) -> int:
    """Of a kind of record in a table: those that every run has come first, in this order."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _text(column: Entries | None) -> str:
    values = [value for value in (column or {"v": []})["v"] if value is not None]
    return f"{values[-1]:,g}" if values else ""


def script_entries(run: ShownRun, label: str, columns: Entries, cells: int) -> Entries:
    """What the script draws. cells: of pictures of what decoders recover, at most"""
    records = run.loaded.records
    made: Entries = {"label": label, "columns": columns}
    if recovered := recovered_of(records, cells):
        made["recovered"] = recovered
    if (confusion := confusion_of(run.result, records)) is not None:
        made["confusion"] = confusion
    return made
