"""The formats of a run's files, and how those of older versions become today's.

A key that an older format lacks gets the value that stands for what that version did, written out here, never today's
default: a default may change, what an old run does may not. Whoever adds an option adds it here, too.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import hrnn
from hrnn.errors import UserError, shortened

CONFIG_FORMAT = 2  # 1: without id, data, modules and checksum
CHECKPOINT_FORMAT = 2  # 1: without run and config; its checksum left out dtypes and shapes
RESULT_FORMAT = 2  # 1: without a number
SECTIONS = ("task", "model", "learning", "budget", "upkeep")
BEGUN_BY_1 = "format1-"  # how the id of a run begins that was given none when it began

# What a version did that did not know an option yet: by section, then by option; "task NAME" is for one task alone.
ADDED_SINCE_1: dict[str, dict[str, Any]] = {
    "upkeep": {"frozen_every": 0, "tracker": None},
    "task text": {"unknown": False},
    "task needle": {"flagged": True, "decoys": 0},
    "task series": {"identified": "", "timed": ""},
    "model": {"gradient": None, "segments_at_once": 1, "normalized": False, "symbol_weights": "equal", "head": "lowest"},
    "learning": {"average": None},
}


def checksum(entries: dict[str, Any]) -> str:
    """Of everything but the checksum itself, whatever the order and the white space."""
    content = {key: value for key, value in entries.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(entries: dict[str, Any]) -> dict[str, Any]:
    """Entries of today's format as config.json holds them."""
    content = {"format": CONFIG_FORMAT, "version": hrnn.__version__, **entries}
    return {**content, "checksum": checksum(content)}


def upgrade_config(entries: dict[str, Any], path: Path) -> dict[str, Any]:
    """The entries of a config.json of any format so far, in today's form."""
    check_format(entries, CONFIG_FORMAT, path)
    if entries["format"] == 1:
        stable = {name: entries.get(name) for name in SECTIONS if name != "budget"}
        digest = hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()
        identity: dict[str, Any] = {"id": BEGUN_BY_1 + digest[:16], "data": None, "modules": {}}
        entries = {**identity, **entries, "format": CONFIG_FORMAT}
    return with_old_values(entries)


def with_old_values(entries: dict[str, Any]) -> dict[str, Any]:
    """A configuration; options that the version that wrote it did not have say what it did."""
    changed = dict(entries)
    for section, added in ADDED_SINCE_1.items():
        name, _, task = section.partition(" ")
        there = changed.get(name)
        if isinstance(there, dict) and (not task or there.get("name") == task):
            changed[name] = {**there, **{option: value for option, value in added.items() if option not in there}}
    return changed


def upgrade_facts(facts: dict[str, Any], path: Path) -> dict[str, Any]:
    """The facts of a checkpoint of any format so far, in today's form."""
    check_format({"format": 1, **facts}, CHECKPOINT_FORMAT, path)
    if "format" not in facts:
        facts = {"format": CHECKPOINT_FORMAT, "run": None, "config": None, **facts}
    return facts


def upgrade_result(result: dict[str, Any], path: Path) -> dict[str, Any]:
    """What a result.json of any format so far holds, without the number of its format."""
    check_format({"format": 1, **result}, RESULT_FORMAT, path)
    return {name: value for name, value in result.items() if name != "format"}


def check_format(entries: dict[str, Any], newest: int, path: Path) -> None:
    """Refuse what a later version wrote."""
    written = entries.get("format")
    if not isinstance(written, int) or isinstance(written, bool) or not 1 <= written <= newest:
        by = f" by hrnn {shortened(entries['version'])}" if "version" in entries else ""
        raise UserError(
            f"{path} was written{by} in format {shortened(written)} and this is hrnn {hrnn.__version__}, which knows formats "
            f"up to {newest}; use a newer version: pip install --upgrade hrnn"
        )
