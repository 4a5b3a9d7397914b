"""Folders of runs that nobody trained: what reading and drawing them needs, at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "format": 1,
    "version": "0.1.0",
    "task": {"name": "copy", "solved": 0.15},
    "model": {"model": "ours", "hidden_sizes": [8, 8]},
    "learning": {"learning_rate": 0.01},
    "budget": {},
    "upkeep": {"seed": 0},
}


def update(number: int, **entries: Any) -> dict[str, Any]:
    """A record as a run on the copy task writes it."""
    loss = {"loss": 0.5, "recalled_bits_per_character": 1 / number, "bits_per_character": 0.5 / number, "local_losses": [0.2]}
    common = {"update": number, "sequences": 10 * number, "length": 3, "solved": 0}
    return {"kind": "update", **common, **loss, "seconds": 6.0 * number, **entries}


def write_run(folder: Path, records: list[dict[str, Any]] | None = None, **sections: Any) -> Path:
    """A run in a folder; sections: instead of those in CONFIG."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **sections}))
    records = [update(number) for number in range(1, 21)] if records is None else records
    (folder / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
