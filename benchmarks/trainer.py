"""What the trainer costs: updates of `hrnn train` beside the bare engine (backward and optimizer step) on the same batches.

    python -m benchmarks.trainer [--repeats N] [--json FILE]

Interleaved, one thread, process time; the ratio is the bare engine's best time over the trainer's. Penn TreeBank is measured
where its folder is found (HRNN_DATA, or beside the project).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.configurations import text_source
from benchmarks.run import environment
from hrnn.tasks import Copy, Text
from hrnn.training import folder as folders
from hrnn.training import literal
from hrnn.training.config import Budget, Config, resolved
from hrnn.training.display import Lines
from hrnn.training.learning import learn
from hrnn.training.loop import after_update
from hrnn.training.run import Run

ENDLESS = Budget(updates=10**6)


def configurations() -> dict[str, Config]:
    """By name; text only where there is some."""
    found: dict[str, Config] = {
        "copy, paper": Config(Copy(length=100), literal.MODEL, literal.LEARNING, ENDLESS),
        "copy, 64/64": Config(
            Copy(length=20),
            replace(literal.MODEL, hidden_sizes=(64, 64), periods=(5,), window=60),
            replace(literal.LEARNING, batch=50),
            ENDLESS,
        ),
    }
    path = text_source()[1]
    if path is not None:
        found["Penn TreeBank, paper"] = Config(
            Text(data=(path.parent,), unknown=False), literal.MODEL, literal.LEARNING, ENDLESS
        )
    return {name: literal.as_published(config) for name, config in found.items()}


def bare(run: Run, number: int) -> None:
    """One update without a trainer."""
    batch = run.course.batch(number)
    for window in batch.windows:
        result = run.gradient.backward(
            run.network.levels,
            window.x,
            window.y,
            loss=lambda output, target: run.task.loss(run.network(output), target),
            betas=run.config.betas,
            state=None if batch.fresh else run.state,
            mask=window.mask,
            boundaries=window.boundaries,
            weight=1 / batch.targets,
            local_weight=1 / (batch.steps * batch.rows),
            generator=run.indices,
        )
        run.state = result.state
    run.optimizers[0].step()
    run.optimizers[0].zero_grad()


def trained(run: Run, display: Lines) -> None:
    """One update as the trainer makes it."""
    for sums in learn(run, run.course.batch(run.position.batches)):
        after_update(run, sums)
    display.show(run)


def compared(name: str, config: Config, repeats: int) -> dict:
    """Best seconds per update of both."""
    config = resolved(config)
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for which in ("bare", "trained"):
            folders.create(Path(folder) / which, config, False)
            runs.append(Run(config, Path(folder) / which))
        display, best = Lines(), [math.inf, math.inf]
        with display.showing(runs[1]):
            for number in range(repeats):
                for which in (0, 1):
                    started = time.process_time()
                    bare(runs[0], number) if which == 0 else trained(runs[1], display)
                    best[which] = min(best[which], time.process_time() - started)
        runs[1].journal.close()
    return {"configuration": name, "bare_seconds": round(best[0], 4), "trained_seconds": round(best[1], 4),
            "ratio": round(best[0] / best[1], 3), "repeats": repeats, **environment(1)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [compared(name, config, options.repeats) for name, config in configurations().items()]
    for row in rows:
        print(f"{row['configuration']}: {row['bare_seconds']} s bare, {row['trained_seconds']} s trained, ratio {row['ratio']}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
