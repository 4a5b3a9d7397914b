"""hrnn plot: learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hrnn.commands.options import parse
from hrnn.errors import UserError
from hrnn.report.curves import draw, load


@dataclass(frozen=True)
class Plot:
    """Draw the learning curves of one or several runs of a task.

    Examples:
        hrnn plot runs/copy-ours-0 runs/copy-hrnn-0 --x sequences --output copy.svg
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs."""
    output: Path = Path("curves.png")
    """Where the picture goes; PNG or SVG by its name."""
    x: Literal["updates", "sequences", "minutes"] = "updates"
    """What the horizontal axis counts."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Plot, "plot", arguments)
    if not options.runs:
        raise UserError("which runs? Name their folders: hrnn plot runs/copy-ours-0")
    draw(load(options.runs), options.output, options.x)
    print(options.output)
    return 0
