"""Time and memory against the window and against depth, measured, beside the formulas.

    python -m benchmarks.growth [--json FILE] [--plot FILE] [--report]

Levels of 64 units, period 10, batch 8, one thread. Windows of 1,000 to 1,000,000 steps with four levels, and depths from two to
five at a fixed window; true gradients where they fit into 4 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.run import environment
from hrnn.memory import exact_count, one_window, paper_count, peak_since, predict, start_of_peak
from hrnn.native import library

SIZE, PERIOD, BATCH, LIMIT = 64, 10, 8, 4e9
WINDOWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DEPTHS, DEPTH_WINDOW = (2, 3, 4, 5), 100_000
KEPT = ["four gates", "two states", "input", "gradient", *(["scratch"] if library() is None else [])]  # of a tick of an LSTM
TICK = 4 + len(KEPT)  # vectors of a level's size


def row(method: str, levels: int, window: int) -> dict:
    """One measurement, time and memory of the same window, in a process of its own."""
    sizes, periods = [SIZE] * levels, [PERIOD] * (levels - 1)
    arguments = {"method": method, "hidden_sizes": sizes, "periods": periods, "window": window, "batch": BATCH}
    command = [sys.executable, "-m", "benchmarks.growth", "--one", json.dumps(arguments)]
    seconds, size = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = {
        **arguments,
        "seconds_per_step": seconds / window,
        "bytes": size,
        "paper_count": paper_count(periods, window) if method == "restricted" else window,
        "exact_count": exact_count(sizes, periods, window) if method == "restricted" else window * levels,
        "predicted_bytes": predict(sizes, periods, window, BATCH) if method == "restricted" else None,
        **environment(1),
    }
    shown = ("method", "window", "bytes", "seconds_per_step", "paper_count", "exact_count")
    print(json.dumps({key: found[key] for key in shown}), flush=True)
    return found


def one(arguments: dict) -> None:
    """The child of `row`: prints seconds and bytes."""
    warm_up, run = one_window(**arguments)
    warm_up()
    before = start_of_peak()
    started = time.process_time()
    run()
    print(json.dumps([time.process_time() - started, peak_since(before)]))


def rows() -> Iterator[dict]:
    """The shortest windows first."""
    biggest = 0.0
    for window in WINDOWS:
        if window == DEPTH_WINDOW:
            yield from (row("restricted", levels, DEPTH_WINDOW) for levels in DEPTHS if levels != 4)
        yield row("restricted", 4, window)
        if biggest * 4 < LIMIT:
            full = row("full", 4, window)
            biggest = full["bytes"]
            yield full


def plot(found: list[dict], path: str) -> None:
    """Bytes and time against the window, bytes against depth; counts as bytes of what a tick keeps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, above = plt.subplot_mosaic([["memory", "memory"], ["time", "depth"]], figsize=(9, 7), layout="constrained")
    left, middle, right = above["memory"], above["time"], above["depth"]
    vector = SIZE * BATCH * 4
    by_window = {m: [r for r in found if r["method"] == m and len(r["hidden_sizes"]) == 4] for m in ("restricted", "full")}
    for method, colour in (("restricted", "tab:red"), ("full", "tab:blue")):
        some = by_window[method]
        steps = [r["window"] for r in some]
        left.loglog(steps, [r["bytes"] / 1e6 for r in some], "o", color=colour, label=f"{method}, measured")
        left.loglog(steps, [r["paper_count"] * vector / 1e6 for r in some], ":", color=colour, label=f"{method}, paper's count")
        middle.semilogx(steps, [r["seconds_per_step"] * 1e6 for r in some], "o-", color=colour, label=method)
    some = by_window["restricted"]
    steps = [r["window"] for r in some]
    left.loglog(
        steps,
        [r["exact_count"] * vector * TICK / 1e6 for r in some],
        "--",
        color="tab:red",
        label=f"exact count, {TICK} vectors per tick",
    )
    left.loglog(steps, [r["predicted_bytes"] / 1e6 for r in some], "-", color="tab:red", alpha=0.4, label="predicted")
    deep = sorted(
        (r for r in found if r["window"] == DEPTH_WINDOW and r["method"] == "restricted"), key=lambda r: len(r["periods"])
    )
    levels = [len(r["hidden_sizes"]) for r in deep]
    right.semilogy(levels, [r["bytes"] / 1e6 for r in deep], "o", color="tab:red", label="restricted, measured")
    right.semilogy(levels, [r["paper_count"] * vector / 1e6 for r in deep], ":", color="tab:red", label="paper's count")
    right.semilogy(
        levels,
        [r["exact_count"] * vector * TICK / 1e6 for r in deep],
        "--",
        color="tab:red",
        label=f"exact count, {TICK} vectors per tick",
    )
    left.set(xlabel="window (steps)", ylabel="peak memory above baseline (MB)", title="Memory against the window, 4 levels")
    middle.set(xlabel="window (steps)", ylabel="process time per step (µs)", title="Time, 4 levels", ylim=(0, None))
    right.set(xlabel="levels", ylabel="peak memory above baseline (MB)", title=f"Memory against depth, {DEPTH_WINDOW:,} steps")
    right.set_xticks(levels)
    left.set_ylim(top=1e5)  # room for the legend
    for axes in (left, middle, right):
        axes.legend(
            fontsize=8,
            ncols=2 if axes is left else 1,
            loc="lower left" if axes is middle else "upper left" if axes is left else "upper right",
        )
        axes.grid(alpha=0.3)
    figure.suptitle(f"LSTM levels of {SIZE}, period {PERIOD}, batch {BATCH}, one thread")
    figure.supxlabel(
        f"Counts as bytes. The paper counts one vector of {SIZE} numbers per tick and row; the exact count\n"
        f"is of all ticks that are kept, and an LSTM keeps {TICK} vectors of each: {', '.join(KEPT)}.",
        fontsize=8,
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--report", action="store_true", help="the plot again from the file of --json; nothing is measured")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        one(json.loads(options.one))
        return
    found: list[dict] = json.loads(Path(options.json).read_text()) if options.report else []
    for measured in () if options.report else rows():
        found.append(measured)
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
