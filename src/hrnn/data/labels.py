"""A sequence's target as sources give it: a text, or a number."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hrnn.arguments import shown
from hrnn.data.columns import check_column
from hrnn.data.source import part_named
from hrnn.errors import UserError, shortened

Target = str | float

KEYS, LABELS = ("file", "filename", "path", "id"), ("label", "labels", "class", "target", "y")


def target_of(value: Any, where: str) -> Target:
    """Texts stay texts; whatever is a number becomes a float."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"the target of {where} is {shown(value)}; give a number or a text") from None
    if not np.isfinite(number):
        raise UserError(f"the target of {where} is {number}; give a finite number, or leave that sequence out")
    return number


def targets_of(values: Sequence[Any], where: str) -> list[Target]:
    """All numbers or all texts."""
    found = [target_of(value, f"{where} {place}") for place, value in enumerate(values)]
    if found and len({type(value) for value in found}) > 1:
        raise UserError(f"targets of {where} have mixed types, numbers and texts; make them alike")
    return found


def step_targets(values: Any, steps: int, where: str) -> NDArray[np.float64]:
    """One number for each step."""
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"targets of the steps of {where} are {shown(values)}; give numbers, as many as steps") from None
    if found.shape != (steps,):
        raise UserError(f"targets of {where} have shape {found.shape} for {steps} steps; give one for each step")
    if np.isinf(found).any():
        raise UserError(f"targets of {where} have infinite values; clean them")
    return found


def numbers_if_all(texts: Sequence[str]) -> list[Target]:
    """Texts of a file that knows no types: numbers if every one of them is."""
    try:
        found = [float(text) for text in texts]
    except ValueError:
        return list(texts)
    return list(found) if np.isfinite(found).all() else list(texts)


def is_labels(path: Path) -> bool:
    """By its columns: does it speak of other files, or of ids and nothing but their labels?"""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            names = {name.strip().lower() for name in next(csv.reader(file), [])}
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return bool(names & {"file", "filename", "path"}) or ("id" in names and names <= {"id", *LABELS, "split", "group"})


def read_labels(path: Path) -> dict[str, dict[str, Target]]:
    """labels.csv: columns file (or id) and label, perhaps split and group. By file: "target", "part", "group"."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as CSV: {error}") from None
    if len(rows) < 2:
        raise UserError(f"{path} has no rows; it needs the columns file and label")
    names = [name.strip().lower() for name in rows[0]]
    key = next((name for name in KEYS if name in names), None) or check_column("file", names, str(path), "file names")
    label = next((name for name in LABELS if name in names), None)
    found: dict[str, dict[str, Target]] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(names):
            raise UserError(f"{path}, line {number}, has {len(row)} entries for {len(names)} columns")
        entries = dict(zip(names, row, strict=True))
        name = entries[key].strip()
        if name in found:
            raise UserError(f"{path} names {shortened(name)!r} twice; keep one line for each")
        facts: dict[str, Target] = {} if label is None else {"target": entries[label].strip()}
        if "split" in entries:
            facts["part"] = part_named(entries["split"], f"{path}, line {number},")
        if "group" in entries:
            facts["group"] = entries["group"].strip()
        found[name] = facts
    if label is not None:
        for facts, target in zip(found.values(), numbers_if_all([str(f["target"]) for f in found.values()]), strict=True):
            facts["target"] = target
    return found
