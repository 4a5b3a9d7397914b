"""Peak memory of one window: restricted and true gradients of this library beside a hand-written loop of nn.LSTMCell; and true
gradients without upward edges, a million steps of them, and 100,000 beside autograd over everything. Exit code 1: these take
more than they may.

python -m benchmarks.memory [--children N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.configurations import CONFIGURATIONS, SIDE_BY_SIDE
from benchmarks.run import environment
from hrnn.memory import exact_count, measure, paper_count, predict

METHODS = {
    "pixels": ("naive", "full", "restricted"),
    "three-levels": ("naive", "full", "restricted"),
    "long": ("two calls", "restricted"),
    "million-deep": ("restricted",),
    "million": ("restricted",),
}
MOST = {"million-deep": 130e6, "million": 105e6}  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--cases", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    table = Table(title="Peak memory of one window above the process before it")
    for column in ("hierarchy", "window", "batch", "method", "vectors (paper)", "vectors (exact)", "MB", "of the first"):
        table.add_column(column, justify="left" if column in ("hierarchy", "method") else "right")
    rows: list[dict] = []
    for name in options.cases:
        c = CONFIGURATIONS[name]
        sizes = {
            m: measure("benchmarks.configurations:for_memory", name=name, method=m, children=options.children)
            for m in METHODS[name]
        }
        for method, size in sizes.items():
            restricted = method == "restricted" and not c.side_by_side
            paper = paper_count(c.periods, c.window) if restricted else c.window
            exact = exact_count(c.sizes, c.periods, c.window) if restricted else None
            ratio = size / sizes[METHODS[name][0]]
            row = {"configuration": name, "method": method, "peak_bytes": size}
            if c.side_by_side:
                predicted = predict(
                    c.sizes, c.periods, c.window, c.batch, inputs=c.inputs, tokens=c.tokens, outputs=1, **SIDE_BY_SIDE
                )
                row |= {"of_autograd": round(ratio, 4)} if len(sizes) > 1 else {}
                row |= {"predicted_bytes": predicted} if method == "restricted" else {}
            else:
                row |= {"of_naive": round(ratio, 4), "paper_count": paper, "exact_count": exact}
            rows.append(row | environment(1))
            shape = f"{'/'.join(map(str, c.sizes))}, period {', '.join(map(str, c.periods))}"
            count = "" if exact is None else f"{exact:.0f}"
            table.add_row(shape, str(c.window), str(c.batch), method, str(paper), count, f"{size / 1e6:.0f}", f"{ratio:.3f}")
    Console().print(table)
    for row in rows:
        if "predicted_bytes" in row:
            print(f"{row['configuration']}: {row['peak_bytes'] / 1e6:.1f} MB, {row['predicted_bytes'] / 1e6:.1f} predicted")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    over = [row["configuration"] for row in rows if row["peak_bytes"] > MOST.get(row["configuration"], row["peak_bytes"])]
    raise SystemExit(f"more than they may: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
