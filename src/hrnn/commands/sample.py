"""hrnn sample: continue a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hrnn.commands.options import parse
from hrnn.errors import UserError
from hrnn.training.sampling import sample
from hrnn.training.trained import load


@dataclass(frozen=True)
class Sample:
    """Continue a prompt with the text that a run has learned to write."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    prompt: str = "\n"
    """What to continue."""
    length: int = 500
    """Characters to write."""
    temperature: float = 1.0
    """Below 1 is more cautious; 0 always takes the likeliest character."""
    seed: int = 0
    """Of the random choices."""
    checkpoint: str = "best"
    """best (on validation), last, or the number of an update."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Sample, "sample", arguments)
    if options.length < 1:
        raise UserError(f"--length is {options.length}; give at least 1")
    trained = load(options.run, options.checkpoint)
    as_bytes = getattr(trained.config.task, "symbols", "") == "bytes"
    prompt = options.prompt.encode().decode("latin-1") if as_bytes else options.prompt
    written = "".join(sample(trained, prompt, options.length, options.temperature, options.seed))
    if as_bytes:
        written = written.encode("latin-1").decode(errors="replace")
    if options.json:
        print(json.dumps({"run": str(options.run), "prompt": options.prompt, "text": written}))
    else:
        print(options.prompt + written)
    return 0
