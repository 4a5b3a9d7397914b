"""One window of a million steps, streamed: four levels of 128, period 10, batch 8.

    python -m benchmarks.million [--steps N] [--json FILE]

Tokens come from an iterator, chunk by chunk, so that the window is never in memory. Windows of 10,000 steps are timed before
and after, one thread, process time; peak memory is the process's own, above what it had before the window. What true gradients
would need is extrapolated from measured windows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from torch.nn import functional as F

import hrnn
from benchmarks.run import environment
from hrnn.memory import exact_count, measure, paper_count, peak_since, predict, start_of_peak

SIZES, PERIODS, BATCH, CHUNK = [128] * 4, [10] * 3, 8, 1000
SHORT, SHORTS = 10_000, 8  # the million is one long average, so the short windows are averaged too


def chunks(steps: int) -> Iterator[hrnn.Chunk]:
    """Random tokens to be repeated one step later."""
    generator = torch.Generator().manual_seed(0)
    last = torch.zeros(1, BATCH, dtype=torch.int64)
    for start in range(0, steps, CHUNK):
        x = torch.randint(3, (min(CHUNK, steps - start), BATCH), generator=generator)
        yield hrnn.Chunk(x, torch.cat([last, x[:-1]]))
        last = x[-1:]


def window(steps: int, progress: Progress | None = None) -> tuple[float, float]:
    """Process seconds per step, and the loss."""
    torch.manual_seed(0)
    model = hrnn.HRNN(hrnn.Tokens(3), SIZES, PERIODS)
    head = torch.nn.Linear(SIZES[0], 3)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    source = chunks(steps)
    if progress is not None:
        source = progress.track(source, total=steps // CHUNK, description=f"{steps:,} steps in chunks of {CHUNK:,}")
    share = 1 / (steps * BATCH)
    started = time.process_time()
    result = hrnn.Restricted().backward(model, source, loss=loss, betas=[0.1] * 3, weight=share, local_weight=share)
    return (time.process_time() - started) / steps, float(result.loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    window(1000)
    before = mean(window(SHORT)[0] for _ in range(SHORTS))
    resident, wall = start_of_peak(), time.perf_counter()
    with Progress(
        *Progress.get_default_columns()[:1], BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    ) as bar:
        per_step, loss = window(options.steps, bar)
    peak, wall = peak_since(resident), time.perf_counter() - wall
    after = mean(window(SHORT)[0] for _ in range(SHORTS))
    short = (before + after) / 2
    points = {
        t: measure(method="full", hidden_sizes=SIZES, periods=PERIODS, window=t, batch=BATCH, children=1)
        for t in (2000, 4000, 8000)
    }
    slope = (points[8000] - points[2000]) / 6000
    row = {
        "steps": options.steps,
        "hidden_sizes": SIZES,
        "periods": PERIODS,
        "batch": BATCH,
        "loss": loss,
        "wall_seconds": round(wall, 1),
        "seconds_per_step": per_step,
        "seconds_per_step_10k_before": before,
        "seconds_per_step_10k_after": after,
        "ratio_to_10k": round(per_step / short, 3),
        "peak_bytes": peak,
        "predicted_bytes": predict(SIZES, PERIODS, options.steps, BATCH),
        "paper_count": paper_count(PERIODS, options.steps),
        "exact_count": exact_count(SIZES, PERIODS, options.steps),
        "full_measured_bytes": points,
        "full_extrapolated_bytes": int(points[8000] + slope * (options.steps - 8000)),
        **environment(1),
    }
    print(json.dumps(row, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
