"""What a study leaves in its folder: table.json, table.md, the pictures, and curves.json, from which the pictures can be drawn
again, with fewer points, without the journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hrnn.files import write_atomically
from hrnn.formats import numbered
from hrnn.report.figure import save
from hrnn.report.picture import Picture, draw, thinned, to_json

TABLE, PAGE, CURVES = "table.json", "table.md", "curves.json"


def write_files(folder: Path, entries: dict[str, Any], page: str, picture: Picture | None) -> None:
    write_atomically(folder / TABLE, json.dumps(entries, indent=1).encode() + b"\n")
    write_atomically(folder / PAGE, page.encode())
    if picture is not None:
        write_atomically(folder / CURVES, curves(picture))
        save(draw(picture), [folder / f"curves.{kind}" for kind in ("png", "svg")])


def curves(picture: Picture) -> bytes:
    """What curves.json holds."""
    return json.dumps(numbered("study", to_json(thinned(picture))), separators=(",", ":")).encode() + b"\n"
