"""The results that come with the package: for each study and profile the table, and its curves, thinned. The files are made
from those of results/ by results/write_package_data.py; nothing here takes torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "studies" / "committed"
PROFILES = ("desk", "paper")


def file_of(entries: dict[str, Any]) -> str:
    """The name of the file for what a table.json holds."""
    return _file(entries["experiment"], entries["profile"], entries["searched"])


def _file(name: str, profile: str, searched: bool) -> str:
    return f"{name}-{profile}{'-searched' if searched else ''}.json"


def committed(name: str, profile: str | None = None, searched: bool = False) -> dict[str, Any] | None:
    """The table and the curves of a study; without a profile those of the first that has some. None: there are none."""
    there = {path.name for path in FOLDER.glob("*.json")}
    for one in PROFILES if profile is None else (profile,):
        if (file := _file(name, one, searched)) in there:
            return dict(json.loads((FOLDER / file).read_text()))
    return None


def others(entries: dict[str, Any]) -> list[str]:
    """How the other tables of the same study are asked for, and what they are."""
    name = entries["experiment"]
    words = {"paper": "the paper's size", "desk": "small, one setting for all rows"}
    tables = [json.loads(path.read_text())["table"] for path in sorted(FOLDER.glob(f"*{name}-*.json"))]
    found = []
    for one in (one for one in tables if one["called"] != entries["called"]):
        if one["experiment"] == name:
            what = "beta and rate chosen for every row" if one["searched"] else words[one["profile"]]
            found.append(f"hrnn reproduce {one['called']} ({what})")
        elif one["experiment"] == f"beta-{name}":
            found.append(f"hrnn reproduce {one['called']} (our defaults, four betas)")
    return found
