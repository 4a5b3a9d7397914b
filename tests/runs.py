"""Runs for tests: folders that nobody trained, for whoever reads and draws them, and small ones to be trained, by task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hrnn.metrics import Metrics
from hrnn.tasks import TASKS
from hrnn.training.entries import sealed
from tests.data.made import write_table
from tests.series.made import panel
from tests.tiny import write_mnist, write_text

CONFIG: dict[str, Any] = {
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
    entries = {**CONFIG, **sections}
    name, options = entries["task"]["name"], {key: value for key, value in entries["task"].items() if key != "name"}
    entries["metrics"] = (TASKS[name](**options).measured if name in TASKS else Metrics()).to_json()
    (folder / "config.json").write_text(json.dumps(sealed(entries)))
    records = [update(number) for number in range(1, 21)] if records is None else records
    (folder / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


SMALL = ["--hidden-sizes", "8", "12", "--batch", "10", "--journal-every", "3", "--checkpoint-seconds", "0.05"]


def tasks(tmp_path: Path) -> dict[str, list[str]]:
    """Arguments of `hrnn train`, without those of SMALL; the data are written into the folder."""
    places = {
        "TEXT": write_text(tmp_path / "text.txt", copies=80),
        "MNIST": write_mnist(tmp_path / "mnist"),
        "TABLE": write_table(panel(), tmp_path / "table.parquet"),
    }
    commands = {
        "copy": "copy --start 1 --step 3 --patience 25 --test-sequences 20 --periods 3 --window 5 --updates 120 --betas 1"
        " --learning-rate 0.03 --update batch",
        "pixels": "pixels --data MNIST --pool 4 --permuted --periods 7 --window 30 --updates 40 --validate-every 15"
        " --schedule cosine --update batch",
        "text": "text --data TEXT --window 15 --updates 50 --validate-every 20 --update window",
        "unlocked": "text --data TEXT --window 15 --updates 30 --update segment --update-every 1 2 --clip 1"
        " --frozen-every 4 --reads inputs --context state --output-levels all --burn-in 2 --segments 2",
        "needle": "needle --steps 30 --periods 5 --window 12 --updates 50 --test-sequences 20 --validate-every 20"
        " --optimizer rmsprop --model hrnn",
        "series": "series TABLE --readout mean --periods 3 --window 6 --updates 11 --validate-every 4 --schedule constant",
    }
    return {name: [str(places.get(word, word)) for word in command.split()] for name, command in commands.items()}


def last_update(folder: Path) -> int:
    """Of the newest checkpoint."""
    return max((int(path.stem.removeprefix("update-")) for path in folder.glob("checkpoints/*.safetensors")), default=0)
