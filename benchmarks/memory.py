"""Peak memory of one window: restricted and true gradients of this library beside a hand-written loop of nn.LSTMCell.

python -m benchmarks.memory [--children N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.configurations import CONFIGURATIONS
from benchmarks.run import environment
from hrnn.memory import exact_count, measure, paper_count

CASES = ("pixels", "three-levels")
METHODS = ("naive", "full", "restricted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    table = Table(title="Peak memory of one window above the process before it")
    for column in ("hierarchy", "window", "batch", "method", "vectors (paper)", "vectors (exact)", "MB", "of naive"):
        table.add_column(column, justify="left" if column in ("hierarchy", "method") else "right")
    rows = []
    for name in CASES:
        c = CONFIGURATIONS[name]
        sizes = {
            m: measure("benchmarks.configurations:for_memory", name=name, method=m, children=options.children) for m in METHODS
        }
        for method, size in sizes.items():
            restricted = method == "restricted"
            paper = paper_count(c.periods, c.window) if restricted else c.window
            exact = exact_count(c.sizes, c.periods, c.window) if restricted else None
            ratio = size / sizes["naive"]
            rows.append({"configuration": name, "method": method, "peak_bytes": size, "of_naive": round(ratio, 4),
                         "paper_count": paper, "exact_count": exact, **environment(1)})  # fmt: skip
            shape = f"{'/'.join(map(str, c.sizes))}, period {', '.join(map(str, c.periods))}"
            count = "" if exact is None else f"{exact:.0f}"
            table.add_row(shape, str(c.window), str(c.batch), method, str(paper), count, f"{size / 1e6:.0f}", f"{ratio:.3f}")
    Console().print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
