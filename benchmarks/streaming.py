"""One input at a time: `model.step` beside what a user would otherwise call, and memory over a million steps.

    python -m benchmarks.streaming [--units 64] [--repeats N] [--steps N] [--json FILE]

Two levels of LSTM units with a period of 10, one row of float32, without autograd. Beside it: two `nn.LSTMCell`, the second fed
by the first, and an `nn.LSTM` of two layers, called with one step. Time is the best of several interleaved repeats, one thread,
process time. Memory is what the process holds after ten thousand steps and after all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import hrnn
from benchmarks.run import environment

PERIOD, EARLY, CALLS = 10, 10_000, 200  # calls in one repeat: whole periods


def stepping(units: int) -> Callable[[Tensor], object]:
    model = hrnn.HRNN(units, [units, units], [PERIOD])
    state = model.initial_state(1)

    def run(x: Tensor) -> None:
        nonlocal state
        _, state = model.step(x, state)

    return run


def cells(units: int) -> Callable[[Tensor], object]:
    first, second = nn.LSTMCell(units, units), nn.LSTMCell(units, units)
    one = two = (torch.zeros(1, units), torch.zeros(1, units))

    def run(x: Tensor) -> None:
        nonlocal one, two
        one = first(x, one)
        two = second(one[0], two)

    return run


def layers(units: int) -> Callable[[Tensor], object]:
    network = nn.LSTM(units, units, num_layers=2)
    state = torch.zeros(2, 1, units), torch.zeros(2, 1, units)

    def run(x: Tensor) -> None:
        nonlocal state
        _, state = network(x[None], state)

    return run


METHODS = {"model.step": stepping, "two nn.LSTMCell": cells, "nn.LSTM, two layers": layers}


def timed(units: int, repeats: int) -> dict[str, float]:
    """The best time of each method, in microseconds for an input."""
    torch.manual_seed(0)
    runs, x = {name: make(units) for name, make in METHODS.items()}, torch.randn(1, units)
    best = dict.fromkeys(runs, math.inf)
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            for _ in range(CALLS):
                run(x)
            if repeat:  # the first warms up
                best[name] = min(best[name], (time.process_time() - start) / CALLS * 1e6)
    return best


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(units: int, steps: int) -> tuple[int, int]:
    """What the process holds after some steps, and after all of them."""
    run, x = stepping(units), torch.randn(1, units)
    early = 0
    for step in range(steps):
        run(x)
        if step + 1 == EARLY:
            early = resident()
    return early, resident()


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--steps", type=int, default=1_000_000, help=f"at least {EARLY}, or 0: memory is not measured")
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    if 0 < options.steps < EARLY:
        parser.error(f"--steps is {options.steps}; give at least {EARLY}, or 0 to leave memory out")
    torch.set_num_threads(1)
    times = timed(options.units, options.repeats)
    early, late = memory(options.units, options.steps) if options.steps else (None, None)
    rows = []
    table = Table(title=f"{options.units}/{options.units} LSTM units, period {PERIOD}, one row: {hrnn.engine()}")
    for column in ("method", "microseconds an input", "of two nn.LSTMCell"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, microseconds in times.items():
        ratio = microseconds / times["two nn.LSTMCell"]
        row = {"units": options.units, "period": PERIOD, "method": name, "microseconds": round(microseconds, 2)}
        row |= {"of_two_cells": round(ratio, 3), "repeats": options.repeats, "engine": hrnn.engine().short}
        if name == "model.step" and options.steps:
            row |= {"steps": options.steps, f"resident_after_{EARLY}": early, "resident_at_the_end": late}
        rows.append(row | environment(1))
        table.add_row(name, f"{microseconds:.1f}", f"{ratio:.2f}")
    console = Console()
    console.print(table)
    if early is not None and late is not None:
        console.print(f"memory after {EARLY:,} steps {early / 1e6:.1f} MB, after {options.steps:,} {late / 1e6:.1f} MB")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
