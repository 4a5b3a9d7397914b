"""The number of its format, which every kind of file that hrnn writes and reads carries under "format".

A kind whose content changes gets the next number, and whoever reads it a function that makes today's form of the one before.
Files of 0.1.0 and 0.2.0 have lower numbers than FIRST, or none, and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hrnn
from hrnn.errors import UserError, shortened

FIRST = 5
FORMATS = {
    "model": 5,  # HRNN.save
    "state": 5,  # State.save
    "hub": 5,  # config.json and head.safetensors of a folder for the Hub
    "export": 5,  # what stands beside an exported model, and in it
    "preprocessing": 5,  # among a run's options
    "cache": 5,  # cache.json
    "run": 5,  # config.json, for the journal, too; result.json; stopped-early.json
    "checkpoint": 5,
    "sweep": 5,  # sweep.json and table.json
    "study": 5,  # results of runs, table.json, curves.json, equal.json
}


def numbered(kind: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """What is written."""
    return {"format": FORMATS[kind], **entries}


def check_format(kind: str, entries: Mapping[str, Any], path: object) -> dict[str, Any]:
    """The entries without their number. What this version does not read is refused: of an earlier version, or of a later."""
    newest, written = FORMATS[kind], entries.get("format", 0)
    if not isinstance(written, int) or isinstance(written, bool):
        raise UserError(f"{path} has format {shortened(written)}, which is no number; put back a copy of it, or make it anew")
    if written < FIRST:
        number = f"format {shortened(written)}" if "format" in entries else "no number of a format"
        raise UserError(
            f"{path} has {number}, as files of hrnn before 0.3.0 have, which this version does not read; remove it and make it "
            "anew, or use hrnn 0.2.0"
        )
    if written > newest:
        by = f" by hrnn {shortened(entries['version'])}" if "version" in entries else ""
        raise UserError(
            f"{path} was written{by} in format {shortened(written)} and this is hrnn {hrnn.__version__}, which knows formats "
            f"up to {newest}; use a newer version: pip install --upgrade hrnn"
        )
    return {name: value for name, value in entries.items() if name != "format"}
