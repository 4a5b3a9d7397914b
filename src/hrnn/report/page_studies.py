"""The studies of a page, from what they leave in their folder or what comes with the package: tables, verdicts, curves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hrnn.errors import UserError
from hrnn.files import content_of
from hrnn.formats import check_format
from hrnn.report.committed import FOLDER, committed
from hrnn.report.figure import Line, means, summed_up
from hrnn.report.files import CURVES, TABLE
from hrnn.report.picture import Axis, Curve, Picture, from_json
from hrnn.report.shown import command_of, tables_of, trained
from hrnn.report.table import Table
from hrnn.training.entries import cannot_read

DIGITS = 6


@dataclass(frozen=True)
class Study:
    """command: that trains it again; panels: for the page's script; problem: why its curves are not there."""

    title: str
    command: str
    settings: str
    tables: list[Table]
    trained: list[str]
    panels: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    problem: str = ""


def is_study(folder: Path) -> bool:
    """Does a folder hold the table of a study? That of a sweep has no experiment."""
    try:
        entries = json.loads(content_of(folder / TABLE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(entries, dict) and "experiment" in entries


def committed_study(name: str) -> Study | None:
    """That of a name such as copy or copy-paper, if results of it come with the package."""
    if name in {path.stem for path in FOLDER.glob("*.json")}:
        found: dict[str, Any] | None = json.loads((FOLDER / f"{name}.json").read_text())
    else:
        found = committed(name)
    return None if found is None else study_of(found["table"], found["curves"])


def study_in(folder: Path) -> Study:
    """From the files of a study's folder."""
    try:
        table = json.loads(content_of(folder / TABLE))
    except (OSError, ValueError, RecursionError) as error:
        raise cannot_read(folder / TABLE, error) from None
    try:
        curves, problem = check_format("study", dict(json.loads(content_of(folder / CURVES))), folder / CURVES), ""
    except FileNotFoundError:
        curves, problem = None, f"{folder} has no {CURVES}"
    except UserError as error:
        curves, problem = None, str(error)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        curves, problem = None, str(cannot_read(folder / CURVES, error))
    try:
        check_format("study", table, folder / TABLE)
        return study_of(table, curves, problem)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{folder / TABLE} does not describe a study ({type(error).__name__}: {error})") from None


def study_of(table: dict[str, Any], curves: dict[str, Any] | None, problem: str = "") -> Study:
    panels, note = [], ""
    if curves is not None:
        try:
            picture = from_json(curves)
            made = panels_of(picture)
            json.dumps(made, allow_nan=False)  # as the page will have them
            panels, note = made, picture.note
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            problem = f"its curves cannot be read ({type(error).__name__}: {error})"
    settings = str(table.get("settings", ""))
    return Study(str(table["title"]), command_of(table), settings, tables_of(table), trained(table), panels, note, problem)


def panels_of(picture: Picture) -> list[dict[str, Any]]:
    """In a row the first says what they all show."""
    return [_panel(panel, panel.y_label or row[0].y_label) for row in picture.rows for panel in row]


def _panel(panel: Axis, y_label: str) -> dict[str, Any]:
    return {
        "title": panel.title or f"{y_label}, by {panel.x_label}",
        "x": panel.x_label,
        "y": y_label,
        "steps": panel.steps,
        "points": panel.points,
        "zero": panel.from_zero,
        "top": panel.top,
        "marks": [[value, words] for value, words in panel.marks],
        "band": panel.band,
        "curves": [_curve(curve, panel) for curve in panel.curves],
    }


def _curve(curve: Curve, panel: Axis) -> dict[str, Any]:
    """Its lines: every run's; or one of the middle, with a band around it, as the pictures in files have it."""
    lines = [line for line in curve.runs if len(line[0])]
    made: dict[str, Any] = {"label": curve.label, "place": curve.place, "lines": [_plain(line) for line in lines]}
    if panel.points:
        return {**made, "lines": [_plain(means(lines))] if lines else []}
    if panel.band is None or len(lines) < 2:
        return made
    places, middle, low, high = summed_up(lines, panel.steps, panel.band)
    return {**made, "lines": [_plain((places, middle))], "low": _plain((places, low))[1], "high": _plain((places, high))[1]}


def _plain(line: Line) -> list[list[float]]:
    return [[float(f"{value:.{DIGITS}g}") for value in column] for column in line]
