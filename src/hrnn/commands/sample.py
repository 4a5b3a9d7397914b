"""hrnn sample: continue a prompt."""

from __future__ import annotations

import codecs
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch
import tyro

from hrnn.commands.options import parse
from hrnn.errors import DONE, UserError
from hrnn.limits import at_least, option
from hrnn.tasks import Text
from hrnn.training.identity import Trust
from hrnn.training.trained import load, sample

COOLEST = 0.001  # below it a division overflows


@dataclass(frozen=True)
class Sample:
    """Continue a prompt with the text that a run has learned to write."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    prompt: str = "\n"
    """What to continue."""
    length: int = option(500, at_least(1, 1_000_000))
    """Characters to write."""
    temperature: float = option(1.0, at_least(0, 1000))
    """Below 1 is more cautious; 0 always takes the likeliest character."""
    seed: int = 0
    """Of the random choices."""
    checkpoint: str = "best"
    """best (on validation), last, or the number of an update."""
    own: Trust = field(default_factory=Trust)
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Sample, "sample", arguments)
    if 0 < options.temperature < COOLEST:
        raise UserError(f"--temperature is {options.temperature}; give 0, or at least {COOLEST}")
    trained = load(options.run, options.checkpoint, **vars(options.own))
    torch.set_num_threads(trained.config.upkeep.threads)
    task = trained.config.task
    as_bytes = isinstance(task, Text) and task.symbols == "bytes"
    prompt = options.prompt.encode(errors="surrogateescape").decode("latin-1") if as_bytes else options.prompt
    written = sample(trained, prompt, options.length, options.temperature, options.seed)
    if as_bytes:  # a character may be several bytes, which come byte by byte
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        written = itertools.chain(
            (decoder.decode(byte.encode("latin-1")) for byte in written), iter(lambda: decoder.decode(b"", True), "")
        )
    if options.json:
        print(json.dumps({"run": str(options.run), "prompt": options.prompt, "text": "".join(written)}))
        return DONE
    first = next(written)  # before the prompt is shown: it may be refused
    print(options.prompt, first, sep="", end="")
    for characters in written:
        print(characters, end="", flush=sys.stdout.isatty())
    print()
    return DONE
