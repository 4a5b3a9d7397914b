"""Measure the constants of the cost model, and updates with one and two processes to check it.

    python -m benchmarks.scaling [--json FILE] [--tiny]

Wall-clock time, one thread per process, median of several repeats: needs a quiet machine with two free cores, and refuses
a busy one. --tiny goes through everything in seconds, with sizes that mean nothing. `make scaling` writes
benchmarks/results/scaling.json and fills in the tables of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from benchmarks.configurations import CONFIGURATIONS, Configuration
from benchmarks.run import QUIET, environment
from benchmarks.scaling_model import SMALL, two_processes
from hrnn.parallel import ALONE, Group, join

NAMES = ("copy", "deep-copy")
FRACTIONS = (1, 4, 10)  # of the batch: how many rows the ticks are timed with; halves are left for the check
SIZES = tuple(2**n for n in range(12, 27, 2))
REPEATS = 7


def configurations(tiny: bool) -> dict[str, Configuration]:
    found = {name: CONFIGURATIONS[name] for name in NAMES}
    if tiny:
        return {name: replace(c, sizes=tuple(8 for _ in c.sizes), window=50, batch=20) for name, c in found.items()}
    return found


class Update:
    """One update of a configuration with so many rows in this process: windows, adding up, the optimizer's step."""

    def __init__(self, c: Configuration, rows: int, group: Group = ALONE, window: int | None = None, levels: int | None = None):
        torch.manual_seed(0)
        levels, self.group, window = levels or len(c.sizes), group, window or c.window
        model = hrnn.HRNN(hrnn.Tokens(3), list(c.sizes[:levels]), list(c.periods[: levels - 1]))
        self.head = nn.Linear(c.sizes[0], 3)
        self.parameters = [*model.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-4, fused=True)
        x, y = torch.randint(3, (2, window, rows))
        state = model.initial_state(rows).with_rows(torch.arange(rows) + group.rank * rows)
        weight = 1 / (window * rows * group.size)

        def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

        def backward() -> None:
            hrnn.Restricted().backward(
                model, x, y, loss=loss, betas=[0.1] * (levels - 1), state=state, weight=weight, local_weight=weight
            )

        self.backward = backward

    def __call__(self) -> float:
        """Seconds in the group's hands, waiting for the others included."""
        self.backward()
        started = time.perf_counter()
        self.group.all_reduce_gradients(self.parameters)
        for _ in range(SMALL):
            self.group.all_reduce_numbers({"loss": 1.0})
        spent = time.perf_counter() - started
        self.optimizer.step()
        self.optimizer.zero_grad()
        return spent


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The median, after a warm-up."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times)


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The straight line through (x, y) that keeps relative errors small: value at 0, slope; neither negative."""
    x, y = np.array(points, dtype=float).T
    slope, start = np.polyfit(x, y, 1, w=1 / y)
    if start < 0:
        return 0.0, float(np.mean(y / x))
    return float(start), max(0.0, float(slope))


def ticks(c: Configuration, repeats: int) -> list[dict[str, float]]:
    """Each level's cost of a tick, fixed and per row: what the window takes longer when the level is put on top."""
    window = max(c.window // 4, int(np.prod(c.periods)) * 4)
    window -= window % int(np.prod(c.periods))
    levels = range(1, len(c.sizes) + 1)
    points: list[list[tuple[float, float]]] = [[] for _ in levels]
    for fraction in FRACTIONS:
        rows, before = max(1, c.batch // fraction), 0.0
        for level in levels:
            taken = seconds(Update(c, rows, window=window, levels=level).backward, repeats)
            count = window / np.prod(c.periods[: level - 1])
            points[level - 1].append((rows, max(taken - before, 1e-9) / count))
            before = taken
    return [dict(zip(("fixed", "per_row"), line(found), strict=True)) for found in points]


def alone(c: Configuration, repeats: int) -> dict:
    """What one process measures by itself."""
    whole = Update(c, c.batch)
    taken = seconds(whole, repeats)
    whole.backward()
    size = sum(p.numel() * p.element_size() for p in whole.parameters)
    return {
        "sizes": list(c.sizes),
        "periods": list(c.periods),
        "window": c.window,
        "batch": c.batch,
        "levels": ticks(c, repeats),
        "gradient_bytes": size,
        "optimizer_seconds": seconds(whole.optimizer.step, repeats),
        "alone_seconds": seconds(whole.backward, repeats),
        "measured": {"1": {"seconds": taken, "reducing": 0.0}},
    }


def together(tiny: bool, repeats: int, place: Path) -> None:
    """Run by torchrun in two processes."""
    torch.set_num_threads(1)
    with join(timeout=1800) as group:
        points = []
        for size in SIZES[: 3 if tiny else None]:
            parameter = nn.Parameter(torch.zeros(size // 4))
            parameter.grad = torch.zeros_like(parameter)
            points.append((size, seconds(lambda p=parameter: group.all_reduce_gradients([p]), repeats)))
        found: dict = {"points": points, "configurations": {}}
        for name, c in configurations(tiny).items():
            group.barrier()
            crowded = seconds(Update(c, c.batch).backward, repeats)
            group.barrier()
            update, spent = Update(c, len(group.rows(c.batch)), group), []
            taken = seconds(lambda update=update, spent=spent: spent.append(update()), repeats)
            found["configurations"][name] = {"crowded": crowded, "seconds": taken, "reducing": median(spent[1:])}
        if group.first:
            place.write_text(json.dumps(found))


def measured(tiny: bool, repeats: int) -> dict:
    """Everything, as scaling.json holds it."""
    torch.set_num_threads(1)
    rows = environment(1) | {"clock": "wall clock", "repeats": repeats, "tiny": tiny}
    rows["configurations"] = {name: alone(c, repeats) for name, c in configurations(tiny).items()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "together.json"
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
        own = ["benchmarks.scaling", "--together", str(place), "--repeats", str(repeats), *(["--tiny"] if tiny else [])]
        subprocess.run([*launch, *own], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        pair = json.loads(place.read_text())
    latency, per_byte = line(pair["points"])
    rows["reduce"] = {"measured": pair["points"], "hop": latency / 2, "per_byte": per_byte}
    for name, entry in pair["configurations"].items():
        known = rows["configurations"][name]
        known["crowding"] = entry["crowded"] / known["alone_seconds"]
        known["measured"]["2"] = {"seconds": entry["seconds"], "reducing": entry["reducing"]}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--tiny", action="store_true", help="a trial run, also on a busy machine")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--together", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.together:
        together(options.tiny, options.repeats, options.together)
        return
    if not options.tiny and (load := os.getloadavg()[0]) > QUIET:
        parser.error(f"the machine is busy (load {load:.1f}); two processes need two free cores, so wait, or try --tiny")
    found = measured(options.tiny, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for name in found["configurations"]:
        print(name, {key: round(value, 4) for key, value in two_processes(found, name).items()})


if __name__ == "__main__":
    main()
