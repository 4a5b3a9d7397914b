"""This tree against another revision: is anything slower?

    python -m benchmarks.compare REV [CONFIGURATION ...] [--methods restricted full ...] [--seconds 30] [--json FILE]

REV is checked out beside this tree, and both run the same windows, in pairs that alternate who goes first, each in a process of
its own with one thread. What counts is process time, and of the pairs' ratios (this tree over REV) the median with a 95 %
interval by order statistics: an interval wholly above 1.03 says that something got slower, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import comb
from pathlib import Path
from statistics import median

from benchmarks.configurations import CONFIGURATIONS, FOR_MEMORY, INFERENCE, OWN, ROOT

SLOWER = 1.03
STARTS = 4  # of fresh processes: two of the same code can differ by several percent, each as long as it lives
LEFT_OUT = (*FOR_MEMORY, "characters-1000", "side-by-side")  # the same code as characters-50; not known to older ones


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A folder with the files of a revision."""
    with tempfile.TemporaryDirectory(prefix="hrnn-compare-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), revision], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


class Side:
    """A process that runs windows with the library of one tree, one at a time, and says how long each took."""

    def __init__(self, tree: Path, name: str, method: str):
        environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.compare", "--side", name, method],
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.library = self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise SystemExit("a process ended without an answer; what went wrong is above")
        return answer

    def seconds(self) -> float:
        """Of one window."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def side(name: str, method: str) -> None:
    """What the process does: a window for every line that comes in."""
    import torch

    import hrnn
    from benchmarks.configurations import runner

    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = runner(name, method)
    run()
    print(Path(hrnn.__file__).parent, flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


def interval(values: list[float]) -> tuple[float, float]:
    """A 95 % interval of the median, by order statistics; of fewer than six values it is all of them."""
    ordered, n = sorted(values), len(values)
    below, rank = 0.0, 0
    while below + comb(n, rank) / 2**n <= 0.025:
        below += comb(n, rank) / 2**n
        rank += 1
    rank = max(0, rank - 1)
    return ordered[rank], ordered[n - 1 - rank]


def compared(here: Path, there: Path, name: str, method: str, seconds: float) -> dict[str, object]:
    """The row of one configuration and method."""
    pairs: list[tuple[float, float]] = []
    for _ in range(STARTS):
        sides = Side(here, name, method), Side(there, name, method)
        assert sides[0].library != sides[1].library
        until, enough = time.monotonic() + seconds / STARTS, len(pairs) + 2
        while time.monotonic() < until or len(pairs) < enough:
            if len(pairs) % 2:
                second = sides[1].seconds()
                pairs.append((sides[0].seconds(), second))
            else:
                pairs.append((sides[0].seconds(), sides[1].seconds()))
        for one in sides:
            one.close()
    ratios = [a / b for a, b in pairs]
    low, high = interval(ratios)
    return {
        "configuration": name,
        "method": method,
        "seconds": round(median(a for a, _ in pairs), 4),
        "ratio": round(median(ratios), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "pairs": len(pairs),
        "slower": low > SLOWER,
    }


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        side(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="REV")
    parser.add_argument("configurations", nargs="*", metavar="CONFIGURATION", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--methods", nargs="+", choices=[*OWN, *INFERENCE])
    parser.add_argument("--seconds", type=float, default=30.0, help="for each configuration and method")
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    names = options.configurations or [name for name in CONFIGURATIONS if name not in LEFT_OUT]
    if unknown := [name for name in names if name not in CONFIGURATIONS]:
        parser.error(f"unknown configuration {unknown[0]!r}; choose from {', '.join(CONFIGURATIONS)}")
    from benchmarks.run import environment

    rows = []
    with checked_out(options.revision) as tree:
        for name in names:
            for method in options.methods or ("restricted", "full", "unlocked Adam", *INFERENCE):
                row = compared(ROOT, tree, name, method, options.seconds)
                rows.append(row | {"revision": options.revision} | environment(1))
                print(
                    f"{name:16s} {method:14s} {row['seconds']:8.4f} s  {row['ratio']:.3f} "
                    f"[{row['low']:.3f}, {row['high']:.3f}] of {options.revision}, {row['pairs']} pairs"
                    f"{'  SLOWER' if row['slower'] else ''}",
                    flush=True,
                )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(row["slower"] for row in rows))


if __name__ == "__main__":
    main()
