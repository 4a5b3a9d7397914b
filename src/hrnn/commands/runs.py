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
    found, skipped = summarise(options.folder)
    for place, why in skipped.items():
        print(f"skipped {place}: {why}", file=sys.stderr)
    if skipped and not found:
        raise UserError(f"no run in {options.folder} can be read")
    if options.json:
        print(json.dumps([asdict(summary) for summary in found], default=str))
    elif found:
        console().print(table(found).terminal())
    else:
        print(f"no run in {options.folder}")
    return 0


def table(found: Sequence[Summary]) -> Table:
    words = ("run", "task", "model", "state", "result")
    rows = []
    for one in found:
        numbers = (f"{one.updates:,}", f"{one.sequences:,}", f"{one.seconds / 60:.1f}")
        rows.append([str(one.folder), one.task, one.model, one.state, *numbers, one.result])
    return Table(["run", "task", "model", "state", "updates", "sequences", "minutes", "result"], rows, words)
