"""hrnn export: a run's model as a file for other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from hrnn.commands.options import parse, require_folder
from hrnn.errors import DONE, UserError
from hrnn.export import to_onnx, to_torch_export
from hrnn.export.series import around
from hrnn.files import make_folder
from hrnn.limits import at_least, option
from hrnn.tasks import Pixels, Series, Text, name_of
from hrnn.tasks.pixels import SIDE
from hrnn.tasks.streams import compiled
from hrnn.telling import working
from hrnn.training.identity import Trust
from hrnn.training.trained import Trained, load, warn_of_untrained

AFTER_A_MATCH = (
    "regular expressions, the lowest level's first: a boundary is true with the first character after a match, and wherever "
    "that of a higher level is"
)
ONE_BY_ONE = (
    "x is one pixel, 0 to 1: the mean of a square of pool x pool pixels over 255, row by row or, where there is one, in this "
    "order; the output after the last is the answer"
)
ENDINGS = {"onnx": ".onnx", "torch-export": ".pt2"}


@dataclass(frozen=True)
class Export:
    """Write a run's model, with its head, as a file for programs that know nothing of hrnn: one streaming step as ONNX or by
    torch.export, or a whole window by torch.export. A JSON file beside it says how to use it."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    format: Literal["onnx", "torch-export"] = "onnx"
    """What reads the file: ONNX runtimes, or torch.export.load."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; by default RUN/export/step.onnx, step.pt2 or window-N.pt2."""
    window: int | None = option(None, at_least(1, 10_000))
    """With torch-export: instead of a step, a whole window of so many steps from a fresh state."""
    dtype: Literal["float32", "float64"] = "float32"
    """Of weights, state and outputs."""
    checkpoint: str = "best"
    """best (on validation; the last where nothing was validated), last, or the number of an update."""
    own: Trust = field(default_factory=Trust)
    json: bool = False
    """Print what was written as JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Export, "export", arguments)
    if options.window is not None and options.format != "torch-export":
        raise UserError(f"--window is for --format torch-export and --format is {options.format}; drop either")
    path = _path(options)
    trained = load(options.run, options.checkpoint, **vars(options.own))
    warn_of_untrained(trained)
    torch.set_num_threads(trained.config.upkeep.threads)
    network = trained.network.to(getattr(torch, options.dtype))
    make_folder(path.parent, options.run if options.output is None else None)
    if (options.window or 0) > 20:
        print(f"{options.window} steps are unrolled, which takes some tenths of a second each", file=sys.stderr, flush=True)
    common: dict[str, Any] = {"head": network.head, "facts": facts(trained)}
    if isinstance(task := trained.config.task, Series):
        made = around(task, network.head, network.levels.dtype)
        common |= {"before": made.before, "example": made.example, "head": made.head}
        common["facts"] |= made.facts
    try:
        with working("exporting"):
            if options.format == "onnx":
                entries = to_onnx(network.levels, path, **common)
            else:
                entries = to_torch_export(network.levels, path, steps=options.window, **common)
    except ValueError as error:
        raise UserError(f"{options.run} cannot be exported: {error}") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError(why if str(path) in why else f"{path} cannot be written: {why}") from None
    if options.json:
        print(json.dumps({"file": str(path), **entries}))
    else:
        found = entries.get("checked")
        held = "" if found is None else f"; within {found['largest_difference']:.1g} of the model over {found['steps']} steps"
        print(f"{path}: {entries['kind']}, update {trained.update}{held}")
    return DONE


def _path(options: Export) -> Path:
    """Where the file goes; refused before anything is loaded."""
    name, ending = f"window-{options.window}" if options.window else "step", ENDINGS[options.format]
    path = options.output or options.run / "export" / f"{name}{ending}"
    if path.suffix != ending or path.is_dir():
        raise UserError(f"--output is {path}; give the name of a file that ends in {ending}")
    require_folder(path.parent, "--output")
    return path


def facts(trained: Trained) -> dict[str, Any]:
    """What a user of the file may want to know of the run."""
    task = trained.config.task
    found: dict[str, Any] = {"run": trained.identity.id, "update": trained.update, "task": name_of(task)}
    if isinstance(task, Text):  # symbols by their number; one more stands for all others
        found |= {"symbols": task.symbols, "vocabulary": task.vocabulary, "unknown": task.unknown}
        if task.boundaries:
            patterns = [pattern.pattern for pattern in compiled(task.boundaries)]
            found["text_boundaries"] = {"patterns": patterns, "meaning": AFTER_A_MATCH}
    if isinstance(task, Pixels):
        found["pixels"] = {"side": SIDE // task.pool, "pool": task.pool, "order": list(task.order), "meaning": ONE_BY_ONE}
    return found
