"""Writes src/hrnn/studies/committed/, what `hrnn reproduce NAME` shows, from the tables and curves beside this file:
`make results`. Journals stay here."""

from __future__ import annotations

import json
from pathlib import Path

from hrnn.report.committed import FOLDER, file_of
from hrnn.report.files import CURVES, TABLE

HERE = Path(__file__).resolve().parent


def files() -> dict[str, str]:
    """By name."""
    made = {}
    for path in sorted(HERE.glob(f"*/{TABLE}")):
        table, curves = (json.loads((path.parent / name).read_text()) for name in (TABLE, CURVES))
        name = file_of(table)
        if name in made:
            raise ValueError(f"{path.parent} and another folder both hold {name}; remove one")
        made[name] = json.dumps({"table": table, "curves": curves}, separators=(",", ":"), ensure_ascii=False) + "\n"
    return made


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, text in files().items():
        (FOLDER / name).write_text(text)
