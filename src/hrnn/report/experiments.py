"""The table of an experiment, from its results alone: as plain data first, then as a page and for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from hrnn.report.experiment_figure import figure_of
from hrnn.report.figure import save
from hrnn.report.table import Table, mean_and_spread, number
from hrnn.studies.experiment import Quantity, Row
from hrnn.studies.paper import LENGTH
from hrnn.studies.plan import Request, Runs, SeedRun, collect, search_results
from hrnn.studies.published import PUBLISHED, PublishedRow
from hrnn.studies.results import environments
from hrnn.studies.rules import ROBUST, robust_to_beta
from hrnn.training.config import RESTRICTED
from hrnn.training.files import write_atomically

Entries = dict[str, Any]
AGAIN = "† missed the first length of the curriculum and was run again from 1 by 1, at the same budget; its first attempt: none"
COLUMNS = "Vectors: by the paper's count, per batch row. MB: measured peak of one update. Minutes: of one core, per run"
AT_LEAST = "≥ the budget ended the run, not a length that it failed at"


def write(request: Request) -> list[Table]:
    """Page, data and figure of everything in the folder; returns the table and the verdicts, or nothing where no run is."""
    runs = collect(request)
    if not runs:  # the search for beta failed
        return []
    entries = entries_of(request, runs)
    write_atomically(request.folder / "table.json", json.dumps(entries, indent=1).encode() + b"\n")
    write_atomically(request.folder / "table.md", page(entries).encode())
    scaled = "" if request.scale == 1 else f"scaled: {request.scale:g} of the budget, a trial"
    figure = figure_of(request.experiment, runs, scaled)
    save(figure, [request.folder / f"curves.{kind}" for kind in ("png", "svg")])
    return [table_of(entries), verdicts_of(entries)]


def entries_of(request: Request, runs: Runs) -> Entries:
    """Everything that a table shows, as JSON: rows in the order of the experiment, those without a run left out."""
    experiment = request.experiment
    rows = [_row(request, row, runs[row.name]) for row in experiment.rows if runs.get(row.name)]

    def values(row: str, quantity: str) -> Sequence[float]:
        cells = [one["cells"][quantity] for one in rows if one["name"] == row]
        return [run["value"] for cell in cells for run in cell["runs"] if run["value"] is not None]

    expectations = [
        {"sentence": one.sentence, "rule": one.rule, "verdict": one.verdict(values)} for one in experiment.expectations
    ]
    if request.grid and experiment.chosen_by is LENGTH:
        half = (experiment.row("ours").recipe(request.profile).model.window or 0) // 2
        rule, verdict = robust_to_beta(search_results(request)["ours"], half)
        expectations.append({"sentence": ROBUST, "rule": rule, "verdict": verdict})
    entries = [run.counted.entries for several in runs.values() for run in several]
    return {
        **request.setting,
        "title": experiment.title,
        "hrnn": " and ".join(sorted({str(one["hrnn"]) for one in entries})),  # of the versions that trained, not of this one
        "settings": settings(rows),
        "quantities": [{"name": one.name, "title": one.title, "digits": one.digits} for one in experiment.quantities],
        "rows": rows,
        "expectations": expectations,
        "search": _search(request) if request.grid else None,
        "environments": environments(entries),
    }


def _row(request: Request, row: Row, runs: Sequence[SeedRun]) -> Entries:
    entries = runs[0].counted.entries
    model, learning = entries["config"]["model"], entries["config"]["learning"]
    published = PUBLISHED.get(request.experiment.name, {}).get(row.name)
    return {
        "name": row.name,
        "title": row.title,
        "gradients": "restricted" if model["model"] in RESTRICTED else "true",
        "local_loss": any(model["betas"]),
        "config": {"model": model, "learning": learning, "budget": entries["config"]["budget"]},
        "seeds": [run.seed for run in runs],
        "cells": {one.name: _cell(one, runs, published) for one in request.experiment.quantities},
        "failures": {str(run.seed): run.counted.failure for run in runs if run.counted.failure},
        "memory": entries["memory"],
        "published_memory": published.memory if published else None,
        "source": published.source if published else None,
        "minutes": round(fmean(_seconds(run) for run in runs) / 60, 2),
    }


def _seconds(run: SeedRun) -> float:
    """In which a core worked for the run, for both attempts where it was given two."""
    return sum(float(attempt.result.get("cpu_seconds", 0.0)) for attempt in (run.counted, run.first) if attempt is not None)


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
    """Every value of the search for beta, and what was chosen."""
    quantity = request.experiment.chosen_by
    assert quantity is not None
    return {
        "quantity": quantity.title,
        "chosen": request.betas,
        "values": {
            row: {f"{beta:g}": [value if math.isfinite(value) else None for value in values] for beta, values in betas.items()}
            for row, betas in search_results(request).items()
            if any(betas.values())
        },
    }


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
    parts.append(f"batch {learning['batch']}")
    parts.append(f"{learning['optimizer'].capitalize()} at {learning['learning_rate']:g}")
    if learning["clip"] is not None:
        parts.append(f"gradients clipped at {learning['clip']:g}")
    budget = rows[0]["config"]["budget"]
    if len(budgets) == 1 and budget["sequences"]:
        parts.append(f"{budget['sequences']:,} sequences per run")
    elif len(budgets) == 1 and budget["epochs"]:
        ending = f", ended by {budget['stop_after']} validations without gain" if budget["stop_after"] else ""
        parts.append(f"at most {budget['epochs']:g} epochs per run{ending}")
    return "; ".join(parts)


# From here on the table is shown, not made.


def published_text(cell: Entries | None) -> str:
    """The paper's own digits."""
    if cell is None:
        return ""
    return str(cell["words"]) if cell["mean"] is None else f"{cell['mean']} ± {cell['spread']}"


def run_text(run: Entries, digits: int) -> str:
    if "failure" in run:
        return "failed"
    if run["value"] is None:
        return "-"
    whole = float(run["value"]).is_integer() and digits <= 1
    return ("≥" if run["at_least"] else "") + number(run["value"], 0 if whole else digits) + ("†" if run["again"] else "")


def table_of(entries: Entries) -> Table:
    """The table as text; the paper's figures where it has some."""
    rows = entries["rows"]
    compared = {one["name"] for one in entries["quantities"] if any(row["cells"][one["name"]]["published"] for row in rows)}
    counted = any(row["published_memory"] for row in rows)
    heads = ["model", "gradients", "local loss"]
    for quantity in entries["quantities"]:
        heads += [quantity["title"], "every run", *(["published"] if quantity["name"] in compared else [])]
    heads += ["vectors", *(["published"] if counted else []), "MB", "minutes"]
    lines = []
    for row in rows:
        line = [row["title"], row["gradients"], "yes" if row["local_loss"] else "no"]
        for quantity in entries["quantities"]:
            cell, digits = row["cells"][quantity["name"]], quantity["digits"]
            mean = "none" if cell["mean"] is None else mean_and_spread(cell["mean"], cell["spread"], digits)
            line += [mean, ", ".join(run_text(run, digits) for run in cell["runs"])]
            line += [published_text(cell["published"])] if quantity["name"] in compared else []
        memory = row["memory"]
        line.append("" if memory["paper_count"] is None else f"{memory['paper_count']:,}")
        line += [str(row["published_memory"] or "")] if counted else []
        line += [f"{memory['measured_bytes'] / 1e6:.1f}", f"{row['minutes']:.1f}"]
        lines.append(line)
    scaled = f" (scaled: {entries['scale']:g} of the budget, a trial)" if entries["scale"] != 1 else ""
    title = f"{entries['title']}, profile {entries['profile']}{scaled}"
    return Table(heads, lines, ("model", "gradients", "local loss"), title, notes(entries))


def notes(entries: Entries) -> list[str]:
    """What the signs in the table mean, which seeds were run, and what failed."""
    seeds = {tuple(row["seeds"]) for row in entries["rows"]}
    by_row = "; ".join(f"{row['title']}: {' '.join(map(str, row['seeds']))}" for row in entries["rows"])
    shared = f"every run in the order of its seed ({' '.join(map(str, min(seeds)))})"
    which = shared if len(seeds) == 1 else f"seeds of every run: {by_row}"
    lines = [f"Mean ± population standard deviation over the runs; {which}.", f"{COLUMNS}."]
    runs = [run for row in entries["rows"] for cell in row["cells"].values() for run in cell["runs"]]
    lines += [f"{AT_LEAST}."] if any(run["at_least"] for run in runs) else []
    lines += [f"{AGAIN}."] if any(run["again"] for run in runs) else []
    for row in entries["rows"]:
        lines += [f"{row['title']}, seed {seed}, failed: {why}." for seed, why in row["failures"].items()]
    return lines


def page(entries: Entries) -> str:
    """The table as a page."""
    options = f" --profile {entries['profile']}" if entries["profile"] != "desk" else ""
    options += (" --grid" if entries["grid"] else "") + (f" --scale {entries['scale']:g}" if entries["scale"] != 1 else "")
    table = table_of(entries)
    parts = [f"# {entries['title']}", f"`hrnn reproduce {entries['experiment']}{options}`: {entries['settings']}."]
    if entries["scale"] != 1:
        parts.append(f"**Scaled: budgets are {entries['scale']:g} times those of the recipe. A trial, not a result.**")
    parts.append(table.markdown())
    parts.append("\n".join(f"- {note}" for note in table.notes))
    if entries["search"]:
        parts += ["## Search for beta", _search_text(entries["search"])]
    if entries["expectations"]:
        verdicts = [[one["sentence"], f"**{one['verdict']}**", one["rule"]] for one in entries["expectations"]]
        heads = ["expectation", "verdict", "rule, written down before the runs"]
        parts += ["## What was expected", Table(heads, verdicts).markdown()]
    words = "{date}, hrnn {hrnn}, torch {torch}, Python {python}, {processor}, {cores} cores, {system}"
    where = {words.format(**one, hrnn=entries["hrnn"]) for one in entries["environments"]}
    parts.append("\n".join(f"- {one}" for one in sorted(where)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _search_text(search: Entries) -> str:
    heads = ["model", *next(iter(search["values"].values()), {}), "chosen"]
    lines = []
    for row, betas in search["values"].items():
        cells = [", ".join("-" if value is None else f"{value:g}" for value in values) for values in betas.values()]
        lines.append([row, *cells, f"{search['chosen'][row]:g}" if row in search["chosen"] else ""])
    return f"By beta, {search['quantity']} of seeds that are not reported above.\n\n{Table(heads, lines).markdown()}"


def verdicts_of(entries: Entries) -> Table:
    rows = [[one["sentence"], one["verdict"]] for one in entries["expectations"]]
    return Table(["expected", "verdict"], rows, words=("expected", "verdict"))
