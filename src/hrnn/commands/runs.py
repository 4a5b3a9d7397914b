"""hrnn runs: what is in a folder of runs, as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
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
    found, skipped = summarise(options.folder)
    for place, why in skipped.items():
        print(f"skipped {place}: {why}", file=sys.stderr)
    if skipped and not found:
        raise UserError(f"no run in {options.folder} can be read")
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
        words = [escape(shown(str(word))) for word in (one.folder, one.task, one.model, one.state, *numbers, one.result)]
        made.add_row(*words)
    return made


def shown(text: str) -> str:
    """What a file of somebody else says must not steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
