"""The table of an experiment as plain data, from its results alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import fmean, pstdev

from hrnn.report.experiment_figure import picture_of
from hrnn.report.files import write_files
from hrnn.report.shown import Entries, page, tables_of
from hrnn.report.table import Table
from hrnn.studies.experiment import Quantity, Row
from hrnn.studies.plan import Request, Runs, SeedRun, collect, search_results
from hrnn.studies.published import PUBLISHED, PublishedRow
from hrnn.studies.results import summed
from hrnn.training.config import RESTRICTED


def write(request: Request) -> list[Table]:
    """Page, data and figure of everything in the folder; returns the table and the verdicts, or nothing where no run is."""
    runs = collect(request)
    if not runs:  # the search for beta failed
        return []
    entries = entries_of(request, runs)
    scaled = "" if request.scale == 1 else f"scaled: {request.scale:g} of the budget, a trial"
    write_files(request.folder, entries, page(entries), picture_of(request.experiment, runs, scaled))
    return tables_of(entries)


def entries_of(request: Request, runs: Runs) -> Entries:
    """Everything that a table shows, as JSON: rows in the order of the experiment, those without a run are only named."""
    experiment = request.experiment
    rows = [_row(request, row, runs[row.name]) for row in experiment.rows if runs.get(row.name)]

    def values(row: str, quantity: str) -> Sequence[float]:
        cells = [one["cells"][quantity] for one in rows if one["name"] == row]
        return [run["value"] for cell in cells for run in cell["runs"] if run["value"] is not None]

    expectations = [
        {"sentence": one.sentence, "rule": one.rule, "verdict": one.verdict(values)} for one in experiment.expectations
    ]
    return {
        **request.shown,
        "title": experiment.title,
        **summed(request.folder),
        "settings": settings(rows),
        "quantities": [{"name": one.name, "title": one.title, "digits": one.digits} for one in experiment.quantities],
        "rows": rows,
        "missing": [row.title for row in experiment.offered if not runs.get(row.name)],
        "expectations": expectations,
        "search": _search(request) if request.searched else None,
    }


def _row(request: Request, row: Row, runs: Sequence[SeedRun]) -> Entries:
    entries = runs[0].counted.entries
    model, learning = entries["config"]["model"], entries["config"]["learning"]
    published = PUBLISHED.get(request.experiment.name, {}).get(row.name)
    unfinished = {str(run.seed): run.counted.failure for run in runs if run.counted.unfinished}
    return {
        "name": row.name,
        "title": row.title,
        "gradients": model.get("gradient") or ("restricted" if model["model"] in RESTRICTED else "true"),
        "local_loss": any(model["betas"]),
        "config": {"model": model, "learning": learning, "budget": entries["config"]["budget"]},
        "seeds": [run.seed for run in runs],
        "cells": {one.name: _cell(one, runs, published) for one in request.experiment.quantities},
        "failures": {str(run.seed): run.counted.failure for run in runs if run.counted.failure and not run.counted.unfinished},
        **({"unfinished": unfinished} if unfinished else {}),
        "memory": next((memory for run in runs if (memory := run.counted.entries["memory"])), {}),
        "published_memory": published.memory if published else None,
        "source": published.source if published else None,
        "minutes": round(fmean(_seconds(run) for run in runs) / 60, 2),
    }


def _seconds(run: SeedRun) -> float:
    """In which a core worked for the run, for both attempts where it was given two."""
    return sum(attempt.cpu_seconds for attempt in (run.counted, run.first) if attempt is not None)


def _cell(quantity: Quantity, runs: Sequence[SeedRun], published: PublishedRow | None) -> Entries:
    listed = []
    for run in runs:
        result, failure = run.counted.result, run.counted.failure
        entry: Entries = {
            "seed": run.seed,
            "value": None if failure else quantity.read(result, run.counted.records),
            "at_least": quantity.name == "length" and bool(result.get("at_least")),
            "again": run.first is not None,
        }
        entry |= {"failure": failure} if failure else {}
        entry |= {"unfinished": True} if run.counted.unfinished else {}
        if run.first is not None:
            entry["first_attempt"] = quantity.read(run.first.result, run.first.records)
        listed.append(entry)
    values = [entry["value"] for entry in listed if entry["value"] is not None]
    cell = published.cells.get(quantity.name) if published else None
    return {
        "mean": fmean(values) if values else None,
        "spread": pstdev(values) if values else None,  # of the population, as the paper's can only be
        "runs": listed,
        "published": None if cell is None else {"mean": cell.mean, "spread": cell.spread, "words": cell.words},
    }


def _search(request: Request) -> Entries:
    """Every trial of the search with what it found, and which was chosen."""
    search, found = request.experiment.search, search_results(request)
    assert search is not None
    rows = []
    for row in request.experiment.rows:
        trials = [
            {"setting": trial.words, "values": [value if math.isfinite(value) else None for value in values]}
            for trial, values in found.get(row.name, {}).items()
            if values
        ]
        chosen = request.chosen.get(row.name)
        rows += [{"title": row.title, "trials": trials, "chosen": chosen.words if chosen else None}] if trials else []
    quantity = search.quantity
    return {"quantity": quantity.title, "digits": quantity.digits, "seeds": list(search.seeds), "rows": rows}


def settings(rows: Sequence[Entries]) -> str:
    """What the rows share, in a line."""
    parts = []
    for name, words in (("hidden_sizes", "units"), ("periods", "period"), ("window", "window"), ("betas", "beta")):
        values = {json.dumps(row["config"]["model"][name]) for row in rows if name != "betas" or row["local_loss"]}
        if len(values) == 1:
            value = json.loads(values.pop())
            text = ("/" if name == "hidden_sizes" else ", ").join(f"{one:g}" for one in value) if name != "window" else value
            parts += [f"{text} {words}" if name == "hidden_sizes" else f"{words} {text}"] if value else []
    learning, budgets = rows[0]["config"]["learning"], {json.dumps(row["config"]["budget"]) for row in rows}

    def shared(name: str) -> bool:
        return len({row["config"]["learning"][name] for row in rows}) == 1

    parts += [f"batch {learning['batch']}"] if shared("batch") else []
    rate = f" at {learning['learning_rate']:g}" if shared("learning_rate") else ""
    parts.append(f"{learning['optimizer'].capitalize()}{rate}")
    if learning["clip"] is not None and shared("clip"):
        parts.append(f"gradients clipped at {learning['clip']:g}")
    budget = rows[0]["config"]["budget"]
    if len(budgets) == 1 and budget["sequences"]:
        parts.append(f"{budget['sequences']:,} sequences per run")
    elif len(budgets) == 1 and budget["epochs"]:
        ending = f", ended by {budget['stop_after']} validations without gain" if budget["stop_after"] else ""
        parts.append(f"at most {budget['epochs']:g} epochs per run{ending}")
    return "; ".join(parts)
