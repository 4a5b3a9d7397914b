"""What a page says of a run beside its curves: its data, its time, and how it differs from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hrnn.report.summary import number
from hrnn.training.entries import ABOUT, SECTIONS
from hrnn.training.journal import Record

SHOWN_ANYWAY = (  # in the table, as counted; or too long for it, or of no interest
    "task.name", "model.model", "task.vocabulary", "task.order", "task.preprocessing", "task.weights", "task.naive",
    "task.changed", "task.cache", "budget.updates", "budget.sequences",
)  # fmt: skip
PARTS = {"data": "reading data", "validation": "validation", "test": "the test", "checkpoints": "checkpoints"}  # of its time


def data_of(entries: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Every file that the run reads: its path, its bytes and its checksum."""
    files = entries.get("data")
    found = []
    for path, file in files.items() if isinstance(files, dict) else ():
        if isinstance(file, dict) and isinstance(file.get("size"), int) and isinstance(file.get("sha256"), str):
            found.append((str(path), file["size"], file["sha256"]))
    return found


def engine_of(records: Sequence[Record]) -> dict[str, Any] | None:
    """What computed last."""
    found = [record.get("engine") for record in records if record["kind"] == "engine"]
    return found[-1] if found and isinstance(found[-1], dict) else None


def times_of(records: Sequence[Record]) -> dict[str, float]:
    """Seconds: all, those of the processor, and how they were shared out up to the last record that says it."""
    timed = [r for r in records if number(r.get("seconds")) is not None and number(r.get("update")) is not None]
    if not timed:
        return {}
    total = max(record["seconds"] for record in timed)
    found = {"all": total}
    if processor := [record["cpu_seconds"] for record in timed if number(record.get("cpu_seconds")) is not None]:
        found["of the processor"] = max(processor)
    return found | next(filter(None, map(_shared_out, reversed(timed))), {})


def _shared_out(record: Record) -> dict[str, float]:
    """The parts of its time that a record knows, the largest first; nothing where it knows none."""
    parts = {f"of {words}": number(record.get(f"{part}_seconds")) for part, words in PARTS.items()}
    known = {words: seconds for words, seconds in parts.items() if seconds is not None}
    if not known:
        return {}
    known["of learning"] = max(0.0, record["seconds"] - sum(known.values()))
    return dict(sorted(known.items(), key=lambda part: -part[1]))


def notes_of(entries: dict[str, Any]) -> list[str]:
    """What the task found in the data, line by line."""
    about, vocabulary = entries.get(ABOUT), entries["task"].get("vocabulary")
    notes = about.get("notes") if isinstance(about, dict) else None
    found = [str(note) for note in notes] if isinstance(notes, list) else []
    return [*found, f"{len(vocabulary)} symbols"] if isinstance(vocabulary, str | list) and vocabulary else found


def differing(several: Sequence[dict[str, Any]], most: int = 6) -> list[str]:
    """Options, by section and name, in which runs differ; the seed, then those with most values. Of runs on different tasks,
    not those of the task, which mean nothing to the others."""
    sections = SECTIONS if len({str(entries["task"].get("name")) for entries in several}) == 1 else SECTIONS[1:]
    values: dict[str, set[str]] = {}
    for entries in several:
        for section in sections:
            for name, value in entries[section].items():
                values.setdefault(f"{section}.{name}", set()).add(repr(value))
    there = [name for name, found in values.items() if len(found) > 1 and name not in SHOWN_ANYWAY]
    return sorted(there, key=lambda name: (name != "upkeep.seed", -len(values[name])))[:most]


def option_text(entries: dict[str, Any], name: str) -> str:
    """An option's value; of a path, of which the details have all, its last part."""
    section, _, option = name.partition(".")
    value = entries[section].get(option, "")
    several = value if isinstance(value, list) else ["" if value is None else value]
    return " ".join(str(one).rpartition("/")[2] if str(one).startswith("/") else str(one) for one in several)
