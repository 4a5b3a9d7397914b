"""Rows of very different lengths: batches by length, or rows that take the next sequence as soon as one has ended?

    python -m benchmarks.packed [--sequences 96] [--repeats 3] [--json FILE]

The trainer's own update on one epoch of the same sequences, whose lengths are spread evenly over their logarithm, 20 to 1,000
steps, a class each: in batches by length, as hrnn train series has them; packed, each row taking the next sequence where one
ends, in windows that carry states; and, to compare, as many steps in sequences of one length. Seconds of a core for a million
steps of all rows, the best of interleaved repeats, and how much of what windows hold is padding, which is not computed on.
64/64 units, period 10, 16 rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.run import environment
from hrnn.tasks import Batch, Series
from hrnn.tasks.series.batches import Carried
from hrnn.training.config import Budget, Config, Learning, Model, resolved
from hrnn.training.learning import learn
from hrnn.training.run import Run

ROWS, WINDOW, SHORTEST, LONGEST = 16, 500, 20, 1000


def run_on(folder: Path, lengths: np.ndarray, update: str) -> Run:
    """A run on sequences of these lengths."""
    random = np.random.default_rng(0)
    folder.mkdir()
    path = folder / "x.npz"
    np.savez(path, **{str(number): random.normal(size=(length, 3)) for number, length in enumerate(lengths)})
    task = Series(data=(path,), cache=folder / "cache", split_by="random", held_out=0.02)
    model = Model(hidden_sizes=(64, 64), periods=(10,), window=WINDOW)
    learning = Learning(batch=ROWS, update=update)  # type: ignore[arg-type]
    return Run(resolved(Config(task, model, learning, Budget(updates=1))), folder / "run")


def batches(run: Run, packed: bool) -> Iterator[Batch]:
    """Of one epoch."""
    part, _ = run.task.part("training")
    plan = Carried(part, run.reading, run.task.asked) if packed else run.task.plan(run.reading)
    return (plan.batch(index) for index in range(plan.per_epoch))


def measured(run: Run, packed: bool) -> dict[str, float]:
    places = shown = 0
    seconds = 0.0
    for batch in batches(run, packed):
        started = time.process_time()
        learn(run, batch)
        seconds += time.process_time() - started
        places += sum(window.places for window in batch.windows)
        shown += sum(window.x.shape[0] * window.x.shape[1] for window in batch.windows)
    return {"seconds_per_million_steps": 1e6 * seconds / places, "padding": 1 - places / shown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    spread = np.random.default_rng(1).random(options.sequences)
    lengths = (SHORTEST * (LONGEST / SHORTEST) ** spread).astype(int)
    equal = np.full(options.sequences, lengths.mean().astype(int) // 10 * 10)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for update in ("batch", "segment"):
            different = run_on(Path(folder) / f"different-{update}", lengths, update)
            alike = run_on(Path(folder) / f"alike-{update}", equal, update)
            found: dict[str, list[dict[str, float]]] = {"by length": [], "packed": [], "one length": []}
            for _ in range(options.repeats):
                for kind, some in found.items():
                    some.append(measured(alike if kind == "one length" else different, kind == "packed"))
            for kind, some in found.items():
                best = min(one["seconds_per_million_steps"] for one in some)
                row = {"sequences": options.sequences, "repeats": options.repeats, "update": update, "kind": kind}
                row["seconds_per_million_steps"] = round(best, 2)
                rows.append({**row, "padding": round(some[0]["padding"], 3), **environment(1)})
                print(f"{update}, {kind}: {best:.2f} s for a million steps, {some[0]['padding']:.1%} padding", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
