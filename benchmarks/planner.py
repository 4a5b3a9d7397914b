"""How good are `hrnn.memory.predict`'s bytes? Predicted against measured, over hierarchies large and small.

python -m benchmarks.planner [--children N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json

from hrnn.memory import measure, predict

# hidden sizes, periods, window, batch, further options of `predict`
CASES: list[tuple[list[int], list[int], int, int, dict]] = [
    ([256, 256], [10], 784, 100, {}),
    ([256, 256], [10], 784, 100, {"inputs": 1, "tokens": False}),
    ([256, 256], [28], 784, 200, {"inputs": 1, "tokens": False}),
    ([256, 512], [5], 500, 100, {"inputs": 50}),
    ([128, 128], [10], 5000, 64, {}),
    ([512, 512], [20], 1000, 64, {"inputs": 32, "tokens": False}),
    ([64, 256, 1024], [5, 5], 1000, 100, {}),
    ([256, 256, 256], [8, 8], 10000, 64, {}),
    ([128, 256, 512], [4, 6], 3000, 128, {"inputs": 16, "tokens": False}),
    ([128, 128, 128, 128], [5, 5, 5], 20000, 100, {}),
    ([256, 256], [100], 2000, 100, {"inputs": 256}),
    ([256, 256], [10], 2000, 100, {"cell": "gru"}),
    ([256, 512], [10], 4000, 100, {"cell": "rnn", "inputs": 8, "tokens": False}),
    ([256, 256], [10], 784, 100, {"all_indices": True}),
    ([1024, 1024], [10], 300, 50, {}),
    ([256], [], 300, 100, {}),
    ([128, 128, 128, 128], [10, 10, 10], 100_000, 8, {}),
    ([64, 64, 64], [8, 8], 2560, 32, {}),
    ([64, 64], [10], 200, 16, {}),
    ([32, 32], [100], 1000, 8, {}),
    ([16, 16], [4], 40, 4, {}),
    ([8, 8], [2], 8000, 1, {}),
]


def rows(children: int) -> list[dict]:
    """One row a case."""
    found = []
    for sizes, periods, window, batch, options in CASES:
        predicted = predict(sizes, periods, window, batch, **options)
        run = {k: v for k, v in options.items() if k != "all_indices"}
        indices = "all" if options.get("all_indices") else "sampled"
        measured = measure(
            children=children, hidden_sizes=sizes, periods=periods, window=window, batch=batch, indices=indices, **run
        )
        found.append(
            {
                "hidden_sizes": sizes,
                "periods": periods,
                "window": window,
                "batch": batch,
                **options,
                "predicted_bytes": predicted,
                "measured_bytes": measured,
                "ratio": round(predicted / measured, 3),
            }
        )
        print(f"{sizes} {periods} T={window} B={batch} {options}: predicted {predicted / 1e6:.0f} MB, "
              f"measured {measured / 1e6:.0f} MB, ratio {predicted / measured:.3f}", flush=True)  # fmt: skip
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    table = rows(arguments.children)
    large = [row["ratio"] for row in table if row["measured_bytes"] >= 50e6]
    print(f"{len(large)} cases of 50 MB or more: predicted / measured from {min(large)} to {max(large)}")
    small = [row["predicted_bytes"] - row["measured_bytes"] for row in table if row["measured_bytes"] < 50e6]
    print(f"{len(small)} smaller ones: predicted - measured from {min(small) / 1e6:.1f} to {max(small) / 1e6:.1f} MB")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(table, file, indent=1)
