"""hrnn demo: what the paper claims, on a small copy task, in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from hrnn.commands.options import console, parse, require_folder
from hrnn.errors import DONE, UserError, stop_code
from hrnn.limits import at_least, option
from hrnn.memory import measure, paper_count
from hrnn.report.curves import draw
from hrnn.report.series import load
from hrnn.tasks import Copy
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved, to_json
from hrnn.training.display import suitable_display
from hrnn.training.entries import whole_result
from hrnn.training.journal import read as read_journal
from hrnn.training.loop import Outcome, start, train

SIZES, PERIODS, BATCH, WINDOW = (32, 32), (4,), 30, 40
LONG = 1000  # steps of the window whose bytes are measured
MODELS = {
    "ours": "restricted gradients and local losses",
    "hrnn": "true gradients and local losses",
    "gr-hrnn": "restricted gradients alone",
    "mr-hrnn": "true gradients in the memory of ours",
}


@dataclass(frozen=True)
class Demo:
    """Train the paper's four models on a small copy task with growing lengths, and compare what they learned.

    Restricted gradients with local losses should keep up with true gradients, in a fraction of the vectors; without local
    losses, or with true gradients over a window that needs no more memory, they should fall behind.
    """

    folder: Path = Path("runs/demo")
    """Where the runs and the picture go; what is there already is continued, not repeated."""
    updates: int = option(2000, at_least(1))
    """Updates of each model."""
    seed: int = 0
    """Of weights and data."""


def recipe(model: Any, options: Demo) -> Config[Copy]:
    """Small enough for one core and half a minute; the window allows lengths a little above 20."""
    return Config(
        Copy(start=2, step=2),
        Model(model, hidden_sizes=SIZES, periods=PERIODS, window=WINDOW, betas=None if model == "gr-hrnn" else (1.0,)),
        Learning(batch=BATCH, learning_rate=5e-3),
        Budget(updates=options.updates),
        Runtime(seed=options.seed),
    )


def main(arguments: Sequence[str]) -> int:
    options = parse(Demo, "demo", arguments)
    require_folder(options.folder, "--folder")
    screen = console()
    table = Table("model", "", box=None, header_style="bold")
    for name in ("longest length", "bits at the next", "seconds", "vectors per row", f"MB at {LONG:,} steps"):
        table.add_column(name, justify="right")
    for model, words in MODELS.items():
        screen.print(f"[bold]{model}[/bold]: {words}")
        outcome = run(options.folder / model, recipe(model, options))
        if (result := outcome.result) is None:
            return stop_code(outcome.stopped)
        longest = result["longest_solved_length"]
        shown = f"{'at least ' if result['at_least'] else ''}{longest}" if longest else "none"
        last = next(r for r in reversed(list(read_journal(options.folder / model))) if r["kind"] == "update")
        vectors = WINDOW if model == "hrnn" else paper_count(PERIODS, WINDOW)
        bits, seconds = f"{last['recalled_bits_per_character']:.2f}", f"{result['seconds']:.0f}"
        table.add_row(model, words, shown, bits, seconds, str(vectors), f"{measured(model) / 1e6:.0f}")
    screen.print(table)
    picture = options.folder / "curves.png"
    series, _ = load([options.folder / model for model in MODELS])
    draw(series, picture)
    screen.print(f"Curves: {picture}. Runs: {options.folder}; hrnn runs {options.folder} lists them.")
    return DONE


def measured(model: str) -> int:
    """Peak bytes of a longer window, where they can be told from the process's own."""
    restricted = model in ("ours", "gr-hrnn")
    window = paper_count(PERIODS, LONG) if model == "mr-hrnn" else LONG
    method = "restricted" if restricted else "full"
    return measure(children=1, method=method, hidden_sizes=SIZES, periods=PERIODS, window=window, batch=BATCH)


def run(folder: Path, config: Config[Copy]) -> Outcome:
    """A run, begun, continued or already there."""
    if (folder / folders.CONFIG).exists():
        if folders.read_entries(folder) != to_json(resolved(config)):
            raise UserError(f"{folder} holds a run with other options; give another --folder")
        if (result := whole_result(folder, config.task.measured)) is not None:
            return Outcome(None, result)
        return train(folder, display=suitable_display())
    return start(config, folder, display=suitable_display())
