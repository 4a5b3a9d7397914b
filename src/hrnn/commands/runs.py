"""hrnn runs: what is in a folder of runs, as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from hrnn.commands.options import console, parse
from hrnn.errors import UserError
from hrnn.report.summary import Summary, summarise


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
        raise UserError(f"{options.folder} is no folder; hrnn train writes runs/ by default")
    found = summarise(options.folder)
    if options.json:
        print(json.dumps([asdict(summary) for summary in found], default=str))
    elif found:
        console().print(table(found))
    else:
        print(f"no run in {options.folder}")
    return 0


def table(found: Sequence[Summary]) -> Table:
    made = Table("run", "task", "model", "state", box=None, header_style="bold")
    for name in ("updates", "sequences", "minutes"):
        made.add_column(name, justify="right")
    made.add_column("result")
    for one in found:
        numbers = (f"{one.updates:,}", f"{one.sequences:,}", f"{one.seconds / 60:.1f}")
        made.add_row(str(one.folder), one.task, one.model, one.state, *numbers, one.result)
    return made
