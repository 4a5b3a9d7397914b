"""hrnn runs: what is in a folder of runs, as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hrnn.commands.options import console, parse
from hrnn.errors import UserError
from hrnn.report.summary import Summary, summarise
from hrnn.report.table import Table


@dataclass(frozen=True)
class Runs:
    """A table of the runs in a folder and in the folders below it."""

    folder: Annotated[Path, tyro.conf.Positional] = Path("runs")
    """Where to look."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Runs, "runs", arguments)
    if not options.folder.is_dir():
        raise UserError(f"{options.folder} is not a folder; hrnn train writes runs/ by default")
    summaries, skipped = summarise(options.folder)
    for place, why in skipped.items():
        print(f"skipped {place}: {why}", file=sys.stderr)
    if skipped and not summaries:
        raise UserError(f"no run in {options.folder} can be read")
    if options.json:
        print(json.dumps([asdict(summary) for summary in summaries], default=str))
    elif summaries:
        console().print(table(summaries).terminal())
    else:
        print(f"no run in {options.folder}")
    return 0


def table(summaries: Sequence[Summary]) -> Table:
    words = ("run", "task", "model", "state", "result")
    rows = []
    for run in summaries:
        numbers = (f"{run.updates:,}", f"{run.sequences:,}", f"{run.seconds / 60:.1f}")
        rows.append([str(run.folder), run.task, run.model, run.state, *numbers, run.result])
    return Table(["run", "task", "model", "state", "updates", "sequences", "minutes", "result"], rows, words)
