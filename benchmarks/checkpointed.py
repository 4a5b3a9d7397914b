"""True gradients in a given number of bytes, and restricted ones over a million steps: memory and time of running steps again.

    python -m benchmarks.checkpointed budgets|top [--steps N] [--repeats N] [--children N] [--json FILE]

budgets: `Checkpointed(bytes=...)` on a window of 10,000 steps, three levels of 128, period 10, batch 16, beside `Full`,
`Restricted`, `Truncated` and a hand-written loop with torch.utils.checkpoint around the lowest segments.
top: `Restricted(top="checkpointed")` on a window of a million steps, 256/256, period 10, batch 8, tokens as bytes, beside
`Restricted` on windows of 10,000.

Time is process time, one thread, the best of several repeats; peaks are those of child processes, above what they had before.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

import hrnn
from benchmarks.configurations import CONFIGURATIONS, runner
from benchmarks.run import environment
from hrnn.memory import measure, one_window, peak_since, predict, predict_checkpointed, predict_truncated, start_of_peak

THREE = {"hidden_sizes": [128] * 3, "periods": [10, 10], "window": 10_000, "batch": 16, "indices": "all"}
SHAPE = {name: THREE[name] for name in ("hidden_sizes", "periods", "window", "batch")}
BUDGETS = [25, 50, 100, 400]  # millions of bytes
METHODS: list[tuple[str, dict]] = [
    ("full", {}),
    ("restricted", {}),
    ("checkpointed", {}),
    *(("checkpointed", {"bytes": budget * 10**6}) for budget in BUDGETS),
    ("restricted", {"top": "checkpointed"}),
    ("truncated", {"steps": 1000}),
]
SIZES, PERIODS, BATCH, SYMBOLS = [256, 256], [10], 8, 256
SHORT = 10_000


def predicted(method: str, options: dict) -> int | None:
    """Bytes, where hrnn.memory says them."""
    if method == "checkpointed":
        return predict_checkpointed(**SHAPE, **options)
    if method == "truncated":
        return predict_truncated(**SHAPE, **options)
    return predict(**SHAPE, all_indices=True, **options) if method == "restricted" else None


def budgets(repeats: int, children: int, write: Callable[[list[dict]], None]) -> list[dict]:
    """One row a method, the hand-written loop last; `write` is given the rows so far after each."""
    torch.set_num_threads(1)
    one_window("full", **{**THREE, "window": 100})[1]()  # to warm up
    best: dict[int, float] = {}
    for _ in range(repeats):  # interleaved: the machine is not equally busy all the time
        for number, (method, options) in enumerate(METHODS):
            best[number] = min(best.get(number, math.inf), seconds(one_window(method, **THREE, **options)[1]))
        rival = runner("three-levels", "checkpoint")
        best[len(METHODS)] = min(best.get(len(METHODS), math.inf), seconds(rival))
    shape = CONFIGURATIONS["three-levels"]
    common = {"hidden_sizes": list(shape.sizes), "periods": list(shape.periods), "window": shape.window, "batch": shape.batch,
              "repeats": repeats, "children": children, **environment(1)}  # fmt: skip
    rows: list[dict] = []

    def add(row: dict, number: int, peak: int) -> None:
        of_full = round(best[number] / best[0], 3)
        rows.append({**row, "seconds": round(best[number], 3), "of_full": of_full, "peak_bytes": peak, **common})
        write(rows)

    for number, (method, options) in enumerate(METHODS):
        peak = measure(children=children, method=method, **THREE, **options)
        budget = options.get("bytes")
        share = {} if budget is None else {"of_budget": round(peak / budget, 3)}
        add({"method": method, **options, "predicted_bytes": predicted(method, options), **share}, number, peak)
    peak = measure("benchmarks.configurations:for_memory", name="three-levels", method="checkpoint", children=children)
    add({"method": "a loop with torch.utils.checkpoint, without local losses"}, len(METHODS), peak)
    return rows


def seconds(run: Callable[[], object]) -> float:
    """Of process time."""
    started = time.process_time()
    run()
    return time.process_time() - started


def window(steps: int, method: hrnn.Gradient) -> tuple[float, int, float]:
    """Bytes as tokens, each to be told before it comes: process seconds a step, peak bytes above the window, and the loss."""
    torch.manual_seed(0)
    model, head = hrnn.HRNN(hrnn.Tokens(SYMBOLS), SIZES, PERIODS), torch.nn.Linear(SIZES[0], SYMBOLS)
    x = torch.randint(SYMBOLS, (steps, BATCH), dtype=torch.uint8)
    y = x.roll(-1, 0)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(head(output).flatten(0, 1), target.long().flatten(), reduction="none").view(target.shape)

    before, started = start_of_peak(), time.process_time()
    result = method.backward(model, x, y, loss=loss, betas=[1.0])
    return (time.process_time() - started) / steps, peak_since(before), float(result.loss)


def top(steps: int, repeats: int) -> dict:
    """One row: a long window, and short ones of plain `Restricted` before and after it."""
    torch.set_num_threads(1)
    checkpointed, plain = hrnn.Restricted(top="checkpointed"), hrnn.Restricted()
    window(1000, plain), window(1000, checkpointed)
    short = [window(SHORT, plain) for _ in range(repeats)]
    twice = [window(SHORT, checkpointed)[0] for _ in range(repeats)]
    wall = time.perf_counter()
    per_step, peak, loss = window(steps, checkpointed)
    wall = time.perf_counter() - wall
    short += [window(SHORT, plain) for _ in range(repeats)]
    usual = mean(one[0] for one in short)
    options = {"inputs": SYMBOLS, "outputs": SYMBOLS, "all_indices": True}
    return {
        "steps": steps, "hidden_sizes": SIZES, "periods": PERIODS, "batch": BATCH, "symbols": SYMBOLS, "loss": loss,
        "wall_seconds": round(wall, 1), "seconds_per_step": per_step, "seconds_per_step_restricted_10k": usual,
        "ratio_to_restricted_10k": round(per_step / usual, 3), "ratio_at_10k": round(mean(twice) / usual, 3),
        "peak_bytes": peak, "tokens_bytes": steps * BATCH,
        "predicted_bytes": predict(SIZES, PERIODS, steps, BATCH, top="checkpointed", **options),
        "predicted_bytes_restricted": predict(SIZES, PERIODS, steps, BATCH, **options),
        "peak_bytes_restricted_10k": max(one[1] for one in short), **environment(1),
    }  # fmt: skip


def show(rows: list[dict]) -> None:
    table = Table(title="10,000 steps, three levels of 128, batch 16")
    for column in ("method", "seconds", "of full", "peak MB", "predicted MB", "of budget"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        options = ", ".join(f"{name}={row[name]}" for name in ("top", "steps", "bytes") if name in row)
        said = "" if row.get("predicted_bytes") is None else f"{row['predicted_bytes'] / 1e6:.1f}"
        table.add_row(f"{row['method']} {options}", f"{row['seconds']:.2f}", f"{row['of_full']:.2f}",
                      f"{row['peak_bytes'] / 1e6:.1f}", said, str(row.get("of_budget") or ""))  # fmt: skip
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["budgets", "top"])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()

    def write(found: dict | list[dict]) -> None:
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1) + "\n")

    if options.what == "budgets":
        show(budgets(options.repeats, options.children, write))
    else:
        found = top(options.steps, options.repeats)
        print(json.dumps(found, indent=1))
        write(found)


if __name__ == "__main__":
    main()
