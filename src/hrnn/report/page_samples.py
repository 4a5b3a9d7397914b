"""What a page shows of runs beyond what they wrote down, where somebody asks for it: samples of text from their best
checkpoints, and the bytes of an update, measured now. This takes torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hrnn.errors import UserError
from hrnn.report.page_runs import ShownRun
from hrnn.telling import followed


def samples_of(runs: Sequence[ShownRun], length: int, problems: dict[str, str]) -> dict[Path, str]:
    """So many characters of each run on text. Code that a run names is not imported; why one has none is in problems."""
    found = {}
    on_text = [run for run in runs if run.summary.task == "text"]
    if not on_text:
        problems["--sample"] = "none of the runs is on text"
    for run in followed("writing samples", on_text, "runs"):
        try:
            found[run.folder] = _sample(run.folder, length)
        except UserError as error:
            problems[f"{run.folder}, its sample"] = str(error)
    return found


def bytes_of_updates(runs: Sequence[ShownRun], problems: dict[str, str]) -> dict[Path, int]:
    """Peak bytes of an update of each run above its process before it, in child processes; it takes the run's data. Code that a
    run names is not imported; what could not be measured is in problems."""
    from hrnn.launching.measuring import bytes_of
    from hrnn.training.folder import read_run

    found = {}
    for run in followed("memory", runs, "runs"):
        try:
            found[run.folder] = bytes_of(read_run(run.folder).config())
        except (UserError, ValueError) as error:
            problems[f"{run.folder}, its memory"] = str(error)
    return found


def _sample(folder: Path, length: int) -> str:
    from hrnn.tasks import Text
    from hrnn.training.trained import load, sample

    trained = load(folder)
    task = trained.config.task
    without_lines = isinstance(task, Text) and "\n" not in task.vocabulary
    text = "".join(sample(trained, task.vocabulary[0] if without_lines else "\n", length))
    in_bytes = isinstance(task, Text) and task.symbols == "bytes"
    return text.encode("latin-1").decode(errors="replace") if in_bytes else text
