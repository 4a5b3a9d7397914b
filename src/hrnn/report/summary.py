"""What a run is and how far it came, from its folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hrnn.errors import UserError
from hrnn.training.entries import CONFIG, is_locked, read_entries, read_result
from hrnn.training.journal import read

BEST = {
    "recalled_bits_per_character": "bits per recalled character",
    "bits_per_character": "bits per character",
    "accuracy": "accuracy",
}


@dataclass(frozen=True)
class Summary:
    folder: Path
    task: str
    model: str
    state: str  # running, stopped, done, or why it cannot be read
    updates: int = 0
    sequences: int = 0
    seconds: float = 0.0
    result: str = ""


def name_of_run(entries: dict[str, Any]) -> str:
    """The model in a word, with what a reader would ask next."""
    model = entries["model"]
    sizes = "/".join(map(str, model["hidden_sizes"]))
    return f"{model['model']} {sizes}, seed {entries['upkeep']['seed']}"


def summarise(folder: Path) -> list[Summary]:
    """Every run in a folder and below it."""
    return [summary_of(path.parent) for path in sorted(folder.rglob(CONFIG))]


def summary_of(folder: Path) -> Summary:
    try:
        entries = read_entries(folder)
        records = list(read(folder))
        result = read_result(folder)
        task, model = entries["task"]["name"], entries["model"]["model"]
    except (UserError, KeyError) as error:
        return Summary(folder, "", "", f"unreadable: {error}")
    state = "running" if is_locked(folder) else "done" if result else "stopped"
    last: dict[str, Any] = next((record for record in reversed(records) if record["kind"] == "update"), {})
    return Summary(
        folder,
        task,
        model,
        state,
        last.get("update", 0),
        last.get("sequences", 0),
        last.get("seconds", 0.0),
        _result(result, records),
    )


def _result(result: dict[str, Any] | None, records: Sequence[dict[str, Any]]) -> str:
    """The number one would ask for first: length, test, else the last validation, else the last loss."""
    solved = [record["length"] for record in records if record["kind"] == "length" and record["outcome"] == "solved"]
    if solved:
        at_least = "at least " if result is None or result["at_least"] else ""
        return f"length {at_least}{max(solved)}"
    for kind in ("test", "validation", "update"):
        for record in reversed(records):
            if record["kind"] == kind:
                for name, words in BEST.items():
                    if record.get(name) is not None:
                        return f"{'training' if kind == 'update' else kind} {record[name]:.4f} {words}"
    return ""
