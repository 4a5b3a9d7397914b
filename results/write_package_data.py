"""Writes src/hrnn/studies/committed/, what `hrnn reproduce NAME` shows, from the tables and curves beside this file:
`make results`. Journals stay here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hrnn.report.committed import FOLDER, file_of
from hrnn.report.files import CURVES, TABLE

HERE = Path(__file__).resolve().parent


def files() -> dict[str, str]:
    """By name."""
    made = {}
    for path in sorted(HERE.glob(f"*/{TABLE}")):
        table, curves = (json.loads((path.parent / name).read_text()) for name in (TABLE, CURVES))
        table["rows"] = [shown(row) for row in table["rows"]]
        name = file_of(table)
        if name in made:
            raise ValueError(f"{path.parent} and another folder both hold {name}; remove one")
        made[name] = json.dumps({"table": table, "curves": curves}, separators=(",", ":"), ensure_ascii=False) + "\n"
    return made


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Of the settings of a row only what its table may show; all of them are in results/."""
    if "config" not in row:
        return row
    betas, rate = row["config"]["model"]["betas"], row["config"]["learning"]["learning_rate"]
    return row | {"config": {"model": {"betas": betas}, "learning": {"learning_rate": rate}}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, text in files().items():
        (FOLDER / name).write_text(text)
