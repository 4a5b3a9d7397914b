"""Time and peak memory of a window, side by side with rivals, in one run.

    python -m benchmarks.run [CONFIGURATION ...] [--threads 2] [--repeats N] [--children N] [--json FILE]

Time is the best of several interleaved repeats: with one thread, of process time, which survives a loaded machine; with two, of
wall-clock time, and only on a quiet machine. Peak memory is measured in child processes, above what the process had before.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.configurations import CONFIGURATIONS, FOR_MEMORY, methods, runner, text_source
from hrnn.memory import measure
from hrnn.native.engine import engine

QUIET = 0.5  # one-minute load average above which two threads are not measured


def environment(threads: int) -> dict:
    """Date, hardware and versions, for every row."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?"
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "engine": f"{engine().name} {engine().level}".strip(),
        "threads": threads,
        "clock": "process time" if threads == 1 else "wall clock",
    }


def keep_freed_memory() -> None:
    """Let malloc keep what is freed, instead of mapping large blocks anew in every window, which is worth up to 1.6 times to
    the rivals: they are measured at their best, and so is everybody."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mmap_max, trim_threshold = -4, -1  # of malloc.h; the threshold of mmap itself cannot be raised above 32 MB
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)


def timed(name: str, threads: int, repeats: int) -> dict[str, float]:
    """The best time of each method in seconds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    torch.manual_seed(0)
    runs = {method: runner(name, method) for method in methods(name)}
    best = dict.fromkeys(runs, math.inf)
    for run in runs.values():
        run()
    for _ in range(repeats):
        for method, run in runs.items():
            start = clock()
            run()
            best[method] = min(best[method], clock() - start)
    return best


def measured(name: str, threads: int, repeats: int, children: int) -> list[dict]:
    """One row per method."""
    seconds = timed(name, threads, repeats)
    rows = []
    for method in methods(name):
        peak = None
        if children and method != "floor":
            peak = measure("benchmarks.configurations:for_memory", name=name, method=method, children=children)
        row: dict = {"configuration": name, "method": method, "seconds": round(seconds[method], 4), "peak_bytes": peak}
        for other in ("floor", "nn.LSTM", "naive", "checkpoint", "full", "two calls", "locked Adam"):
            if other in seconds:
                row[f"of_{other}"] = round(seconds[method] / seconds[other], 3)
        if CONFIGURATIONS[name].text:
            row["text"] = text_source()[0]
        rows.append(row | {"repeats": repeats, "children": children} | environment(threads))
    return rows


def show(console: Console, name: str, rows: list[dict]) -> None:
    others = [key for key in rows[0] if key.startswith("of_")]
    table = Table(title=f"{name}: {CONFIGURATIONS[name]}")
    for column in ("method", "seconds", "peak MB", *(key.replace("of_", "of ") for key in others)):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f}"
        table.add_row(row["method"], f"{row['seconds']:.4f}", peak, *(f"{row[key]:.2f}" for key in others))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", metavar="CONFIGURATION", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--children", type=int, default=3, help="processes in which memory is measured; 0: it is not")
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    names = options.configurations or [name for name in CONFIGURATIONS if name not in FOR_MEMORY]
    if unknown := [name for name in names if name not in CONFIGURATIONS]:
        parser.error(f"unknown configuration {unknown[0]!r}; choose from {', '.join(CONFIGURATIONS)}")
    if options.threads > 1 and (load := os.getloadavg()[0]) > QUIET:
        parser.error(
            f"the machine is busy (load {load:.1f}): with another process on it two threads can be thirty times slower than "
            f"one, and the figures would mean nothing; wait, or measure one thread"
        )
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    console, rows = Console(), []
    for name in names:
        found = measured(name, options.threads, options.repeats, options.children)
        show(console, name, found)
        rows += found
        if options.json:
            Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
