"""hrnn plot: learning curves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hrnn.commands.options import parse
from hrnn.errors import UserError
from hrnn.report.curves import figure_of
from hrnn.report.figure import save
from hrnn.report.series import load
from hrnn.telling import working


@dataclass(frozen=True)
class Plot:
    """Draw the learning curves of one or several runs of a task; of a sweep, mean and spread of each setting.

    Examples:
        hrnn plot runs/copy-ours-0 runs/copy-hrnn-0 --x sequences --output copy.svg
        hrnn plot sweeps/copy --output sweep.pdf
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs, of sweeps, or with runs below them."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("curves.png")
    """Where the picture goes; PNG, SVG or PDF by its name."""
    x: Literal["updates", "sequences", "minutes"] = "updates"
    """What the horizontal axis counts."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Plot, "plot", arguments)
    if not options.runs:
        raise UserError("which runs? Name their folders: hrnn plot runs/copy-ours-0")
    if options.output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"--output is {options.output}; give a name that ends with .png, .svg or .pdf")
    series, skipped = load(options.runs)
    files = [path.name for path in skipped if path.is_file()]  # beside the runs of a sweep, where the shell names everything
    if len(skipped) == 1 and not series:
        path, why = next(iter(skipped.items()))
        raise UserError(why if str(path) in why else f"{path}: {why}")
    for path, why in skipped.items():
        if path.name not in files:
            print(f"skipped {path}: {why}", file=sys.stderr)
    if files:
        print(f"skipped what is not a run: {', '.join(files)}", file=sys.stderr)
    if not series:
        raise UserError("none of these can be drawn")
    with working("drawing"):
        save(figure_of(series, options.x), [options.output])
    print(options.output)
    return 0
