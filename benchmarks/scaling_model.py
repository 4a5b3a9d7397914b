"""The cost of an update on many processes, from a few measured constants; what it predicts, as tables.

    python -m benchmarks.scaling_model benchmarks/results/scaling.json [--write docs/scaling.md]

An update is what `hrnn train` does for one batch: every process runs its rows through the window, forward and backward, the
gradients are added up once, and the optimizer moves the weights.

    compute(rows)       = sum over levels of ticks * (fixed + per_row * rows)
    reduce(bytes, n)    = 2 (n - 1) * hop  +  2 (n - 1) / n * bytes * per_byte            a ring, as gloo and nccl build it
    update(n)           = crowding * (compute(batch / n) + optimizer) + reduce(gradients, n) + 3 * reduce(a few bytes, n)
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hrnn.memory import predict

SMALL = 3  # collections of a few numbers in an update of the trainer: targets, losses, whether to stop
PROCESSES = (1, 8, 64, 1024)
WINDOWS = tuple(10**n for n in range(3, 10))
DEPTHS = range(2, 12)
# Networks that nothing was measured on: (seconds a hop, seconds a byte), as they are commonly quoted.
NETWORKS = {"10 Gbit/s": (50e-6, 1 / 1.25e9), "100 Gbit/s": (20e-6, 1 / 12.5e9)}


@dataclass(frozen=True)
class Level:
    """Seconds of one tick of a level, forward and backward, with everything that belongs to it: its decoder, its head."""

    fixed: float
    per_row: float

    def tick(self, rows: float) -> float:
        return self.fixed + self.per_row * rows


@dataclass(frozen=True)
class Network:
    """What adding up costs between two neighbours of the ring."""

    hop: float
    per_byte: float

    def reduce(self, size: float, processes: int) -> float:
        if processes == 1:
            return 0.0
        return 2 * (processes - 1) * (self.hop + size / processes * self.per_byte)


@dataclass(frozen=True)
class Costs:
    """Of one configuration."""

    levels: list[Level]
    periods: list[int]
    window: int
    batch: int
    gradient_bytes: int
    optimizer: float
    crowding: float  # how much slower a process is when every core of the machine is at work

    def compute(self, rows: float, window: int | None = None) -> float:
        """Seconds of one window of so many rows."""
        ticks, total = float(window or self.window), 0.0
        for level, period in zip(self.levels, [*self.periods, 1], strict=True):
            total += ticks * level.tick(rows)
            ticks /= period
        return total

    def update(self, network: Network, processes: int, batch: float, window: int | None = None) -> dict[str, float]:
        """Seconds of an update, and the share of it that is spent on adding up."""
        crowding = self.crowding if processes > 1 else 1.0
        work = crowding * (self.compute(batch / processes, window) + self.optimizer)
        adding = network.reduce(self.gradient_bytes, processes) + SMALL * network.reduce(64, processes)
        return {"seconds": work + adding, "adding": adding, "share": adding / (work + adding)}

    def every_segment(self, network: Network, processes: int, rows: float) -> float:
        """The share of the time spent on adding up where every level moves after each of its segments: the lowest level's
        gradients, and whether it moves, once per period. The levels above it move more rarely, by at least a period each."""
        if processes == 1 or not self.periods:
            return 0.0
        segment = self.crowding * self.compute(rows, self.periods[0])
        adding = network.reduce(64, processes) + network.reduce(self.gradient_bytes / len(self.levels), processes)
        return adding / (segment + adding)


def costs(measured: dict[str, Any], name: str) -> Costs:
    """The constants of one configuration, from scaling.json."""
    entry = measured["configurations"][name]
    return Costs(
        [Level(**level) for level in entry["levels"]],
        entry["periods"],
        entry["window"],
        entry["batch"],
        entry["gradient_bytes"],
        entry["optimizer_seconds"],
        entry["crowding"],
    )


def loopback(measured: dict[str, Any]) -> Network:
    """What was measured between two processes of one machine."""
    return Network(measured["reduce"]["hop"], measured["reduce"]["per_byte"])


def two_processes(measured: dict[str, Any], name: str) -> dict[str, float]:
    """The prediction that is checked, beside its measurement."""
    known, entry = costs(measured, name), measured["configurations"][name]
    predicted = known.update(loopback(measured), 2, known.batch)
    found = entry["measured"]["2"]
    alone = known.update(loopback(measured), 1, known.batch)
    return {
        "predicted": predicted["seconds"],
        "measured": found["seconds"],
        "error": predicted["seconds"] / found["seconds"] - 1,
        "predicted_1": alone["seconds"],
        "measured_1": entry["measured"]["1"]["seconds"],
        "error_1": alone["seconds"] / entry["measured"]["1"]["seconds"] - 1,
        "predicted_share": predicted["share"],
        "measured_share": found["reducing"] / found["seconds"],
    }


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """All tables of docs/scaling.md, by name."""
    names = list(measured["configurations"])
    return {
        "constants": _constants(measured, names),
        "check": _check(measured, names),
        "fixed batch": _processes(measured, names, shared=True),
        "fixed rows": _processes(measured, names, shared=False),
        "windows": _windows(measured),
        "taken": f"Taken on {measured['date']}, {measured['cores']} cores of {measured['cpu']}, load {measured['load']}, "
        f"torch {measured['torch']}, one thread per process (`make scaling`).",
    }


def _constants(measured: dict[str, Any], names: list[str]) -> str:
    rows = []
    for name in names:
        known, entry = costs(measured, name), measured["configurations"][name]
        for number, level in enumerate(known.levels):
            size = entry["sizes"][number]
            rows.append([f"{name}, level {number} of {size}", f"{level.fixed * 1e6:.0f}", f"{level.per_row * 1e6:.2f}"])
    ticks = table(["a tick of", "µs, fixed", "µs per row"], rows)
    rows = []
    for name in names:
        known = costs(measured, name)
        rows.append([name, f"{known.gradient_bytes / 1e6:.2f}", f"{known.optimizer * 1e3:.1f}", f"{known.crowding:.2f}"])
    moved = table(["configuration", "MB of gradients per update", "optimizer, ms", "crowding"], rows)
    network = measured["reduce"]
    times = [[f"{size:,}", f"{seconds * 1e3:.2f}", f"{loopback(measured).reduce(size, 2) * 1e3:.2f}"]
             for size, seconds in network["measured"]]  # fmt: skip
    sizes = table(["bytes", "ms, measured", "ms, model"], times)
    line = f"A hop takes {network['hop'] * 1e6:.0f} µs, a byte {network['per_byte'] * 1e9:.2f} ns (two processes, loopback)."
    return "\n\n".join([ticks, moved, line, sizes])


def _check(measured: dict[str, Any], names: list[str]) -> str:
    rows = []
    for name in names:
        found = two_processes(measured, name)
        for processes, end in (("1", "_1"), ("2", "")):
            rows.append([name, processes, f"{found['predicted' + end]:.3f}", f"{found['measured' + end]:.3f}",
                         f"{100 * found['error' + end]:+.0f} %",
                         "" if end else f"{100 * found['predicted_share']:.2f} %",
                         "" if end else f"{100 * found['measured_share']:.2f} %"])  # fmt: skip
    head = ["configuration", "processes", "s, model", "s, measured", "error", "adding up, model", "adding up, measured"]
    return table(head, rows)


def _networks(measured: dict[str, Any]) -> dict[str, Network]:
    return {"loopback": loopback(measured)} | {name: Network(*pair) for name, pair in NETWORKS.items()}


def _processes(measured: dict[str, Any], names: list[str], shared: bool) -> str:
    """Sequences a second and what is lost to adding up; a batch shared out, or as many rows in every process."""
    rows = []
    for name in names:
        known = costs(measured, name)
        for processes in PROCESSES:
            batch = max(PROCESSES) if shared else known.batch * processes
            first = known.update(loopback(measured), 1, batch / (1 if shared else processes))
            row = [name, f"{processes:,}", f"{batch // processes:,}"]
            for network in _networks(measured).values():
                found = known.update(network, processes, batch)
                speed = first["seconds"] / found["seconds"] * (1 if shared else processes)
                row.append(f"{speed:,.1f} ({100 * found['share']:.0f} %)" if processes > 1 else "1")
            rows.append(row)
    return table(["configuration", "processes", "rows each", *(f"speed, {n} (adding up)" for n in _networks(measured))], rows)


def _bytes(sizes: list[int], periods: list[int], window: int, batch: int) -> int:
    """Of the code whose times were measured: torch, one segment after the other. The same on every machine."""
    return predict(sizes, periods, window, batch, segments_at_once=1, native=False)


def _windows(measured: dict[str, Any]) -> str:
    """Windows that grow, 8 rows per process, levels like those of the copy configuration, period 10, the depth that needs the
    least memory."""
    known = costs(measured, "copy")
    size, rows_each, period = measured["configurations"]["copy"]["sizes"][0], 8, 10
    rows = []
    for window in WINDOWS:
        depth = min(DEPTHS, key=lambda n: _bytes([size] * n, [period] * (n - 1), window, rows_each))
        sizes, periods = [size] * depth, [period] * (depth - 1)
        deep = Costs(
            [known.levels[0], *[known.levels[1]] * (depth - 1)],
            periods,
            window,
            rows_each,
            known.gradient_bytes * depth // 2,
            known.optimizer,
            known.crowding,
        )
        network = Network(*NETWORKS["10 Gbit/s"])
        seconds = deep.compute(rows_each)
        rows.append([f"{window:,}", str(depth), f"{_bytes(sizes, periods, window, rows_each) / 1e6:,.0f}", _duration(seconds),
                     *(f"{100 * deep.update(network, n, rows_each * n)['share']:.2g} %" for n in PROCESSES[1:]),
                     f"{100 * deep.every_segment(network, 8, rows_each):.0f} %",
                     f"{100 * deep.every_segment(network, 1024, rows_each):.0f} %"])  # fmt: skip
    head = ["window", "levels", "MB", "one window"]
    head += [f"adding up, {n:,} processes" for n in PROCESSES[1:]]
    return table([*head, "at every segment, 8", "at every segment, 1,024"], rows)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds * 1e3:.0f} ms"


def filled(page: str, found: dict[str, str]) -> str:
    """The page with every table in its place, between comments that name it."""
    for name, content in found.items():
        pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        page, count = re.subn(pattern, lambda match: f"{match[1]}{content}\n{match[2]}", page, flags=re.S)  # noqa: B023
        if count != 1:
            raise SystemExit(f"the page has {count} places for {name!r}; expected one")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--write", type=Path, help="the page whose tables are to be filled in; by default they are printed")
    options = parser.parse_args()
    found = tables(json.loads(options.measured.read_text()))
    if options.write:
        options.write.write_text(filled(options.write.read_text(), found))
    else:
        print("\n\n".join(f"{name}\n\n{content}" for name, content in found.items()))


if __name__ == "__main__":
    main()
