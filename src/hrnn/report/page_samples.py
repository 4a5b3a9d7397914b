"""What runs on text write, for a page, from their best checkpoints; this takes torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hrnn.errors import UserError
from hrnn.report.page_runs import ShownRun


def samples_of(runs: Sequence[ShownRun], length: int, problems: dict[str, str]) -> dict[Path, str]:
    """So many characters of each run on text. Code that a run names is not imported; why one has none is in problems."""
    found = {}
    for run in runs:
        if run.summary.task != "text":
            continue
        try:
            found[run.folder] = _sample(run.folder, length)
        except UserError as error:
            problems[f"{run.folder}, its sample"] = str(error)
    return found


def _sample(folder: Path, length: int) -> str:
    from hrnn.tasks import Text
    from hrnn.training.trained import load, sample

    trained = load(folder)
    text = "".join(sample(trained, "\n", length))
    task = trained.config.task
    as_bytes = isinstance(task, Text) and task.symbols == "bytes"
    return text.encode("latin-1").decode(errors="replace") if as_bytes else text
