"""What a page says of a run beside its curves: its data, its memory and its time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from hrnn.memory import exact_count, paper_count, predict
from hrnn.report.summary import number
from hrnn.training.formats import SECTIONS
from hrnn.training.journal import Record

SHOWN_ANYWAY = ("task.name", "model.model", "task.vocabulary", "task.order")  # or too long to be shown
RESTRICTED = ("ours", "gr-hrnn")  # as hrnn.training.config has it, without torch; a test compares them


def data_of(entries: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Every file that the run reads: its path, its bytes and its checksum."""
    files = entries.get("data")
    found = []
    for path, file in files.items() if isinstance(files, dict) else ():
        if isinstance(file, dict) and isinstance(file.get("size"), int) and isinstance(file.get("sha256"), str):
            found.append((str(path), file["size"], file["sha256"]))
    return found


def memory_of(entries: dict[str, Any], engine: dict[str, Any] | None) -> dict[str, float]:
    """Vectors by the paper's count and exactly, and predicted bytes, of one window; nothing where boundaries are given by the
    data, or the configuration says nothing sensible."""
    model = entries["model"]
    sizes, periods, window = (model.get(name) for name in ("hidden_sizes", "periods", "window"))
    batch = entries["learning"].get("batch")
    if not isinstance(periods, list) or not isinstance(window, int) or len(periods) != len(sizes) - 1:
        return {}
    try:
        if model["model"] not in RESTRICTED:
            steps = paper_count(periods, window) if model["model"] == "mr-hrnn" else window
            return {"vectors by the paper's count": steps}
        at_once = model.get("segments_at_once") or 1
        found: dict[str, float] = {
            "vectors by the paper's count": paper_count(periods, window),
            "vectors, exactly": exact_count(sizes, periods, window, at_once),
        }
        native = None if engine is None else engine.get("name") == "native"
        options: dict[str, Any] = {"cell": model["cell"], "decoder_units": model["decoder_units"], "native": native}
        options |= {"all_indices": model["indices"] == "all", "segments_at_once": at_once}
        return {**found, "predicted MB, for three symbols": round(predict(sizes, periods, window, batch, **options) / 1e6, 1)}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):  # a cell of the user's own, or nonsense
        return {}


def engine_of(records: Sequence[Record]) -> dict[str, Any] | None:
    """What computed last."""
    found = [record.get("engine") for record in records if record["kind"] == "engine"]
    return found[-1] if found and isinstance(found[-1], dict) else None


def times_of(records: Sequence[Record], whole: bool) -> dict[str, float]:
    """Seconds: all, those of the processor, and, where every record is at hand (whole), how they are shared out. A validation
    takes what lies between its record and the one before it, without the updates in between at their usual pace."""
    timed = [r for r in records if number(r.get("seconds")) is not None and number(r.get("update")) is not None]
    if not timed:
        return {}
    total = max(record["seconds"] for record in timed)
    found = {"all": total}
    if processor := [record["cpu_seconds"] for record in timed if number(record.get("cpu_seconds")) is not None]:
        found["of the processor"] = max(processor)
    pairs = list(pairwise(timed))
    paces = []
    for before, after in pairs:
        updates = after["update"] - before["update"]
        if before["kind"] == after["kind"] == "update" and updates > 0:
            paces.append(max(0.0, after["seconds"] - before["seconds"]) / updates)
    if not whole or not paces or not any(record["kind"] == "validation" for record in timed):
        return found
    pace, validation = median(paces), 0.0
    for before, after in pairs:
        if after["kind"] == "validation":
            trained = pace * (after["update"] - before["update"])
            validation += max(0.0, after["seconds"] - before["seconds"] - trained)
    validation = min(validation, total)
    return {**found, "of validations, estimated": validation, "of updates and all else": total - validation}


def differing(several: Sequence[dict[str, Any]], most: int = 6) -> list[str]:
    """Options, by section and name, in which runs differ; the seed, then those with most values."""
    values: dict[str, set[str]] = {}
    for entries in several:
        for section in SECTIONS:
            for name, value in entries[section].items():
                values.setdefault(f"{section}.{name}", set()).add(repr(value))
    there = [name for name, found in values.items() if len(found) > 1 and name not in SHOWN_ANYWAY]
    return sorted(there, key=lambda name: (name != "upkeep.seed", -len(values[name])))[:most]


def option_text(entries: dict[str, Any], name: str) -> str:
    section, _, option = name.partition(".")
    value = entries[section].get(option, "")
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
