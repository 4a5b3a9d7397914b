"""How good are the bytes that `hrnn.memory` predicts? Predicted against measured, over hierarchies large and small and methods.
Restricted gradients with compiled code and without. The exit code is 1 where a prediction is off by more than 10 % and by more
than 1 MB.

python -m benchmarks.planner [--children N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os

from hrnn.memory import measure, predict, predict_checkpointed, predict_truncated

SHARE, LEAST = 0.10, 1e6  # of what was measured, and bytes

INPUTS = {"reads": "inputs", "context": "state", "inputs": 1, "tokens": False}  # no upward edges
# hidden sizes, periods, window, batch, further options of the prediction, and the method
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
    ([128, 128], [8], 800, 64, {"output": "all"}),
    ([256, 256], [10], 200, 100, {}),
    ([128, 128, 128], [10, 10], 10_000, 16, {}),
    ([256, 256], [10], 200, 100, {"method": "full"}),
    ([64, 64, 64], [3, 3], 300, 16, {"method": "full"}),
    ([128, 128, 128], [10, 10], 2000, 16, {"method": "full"}),
    ([256, 256], [10], 200, 100, {"method": "full", "cell": "gru"}),
    ([128, 128], [8], 1600, 64, {"top": "checkpointed"}),
    ([256, 256], [10], 20_000, 8, {"top": "checkpointed"}),
    ([128, 256], [4], 3000, 32, {"top": "checkpointed", "inputs": 50, "tokens": False}),
    ([128, 128], [8], 1600, 64, {"method": "checkpointed"}),
    ([128, 128], [8], 1600, 64, {"method": "checkpointed", "every": 200}),
    ([128, 128], [8], 1600, 64, {"method": "checkpointed", "bytes": 50_000_000}),
    ([64, 64, 64], [8, 8], 2560, 32, {"method": "checkpointed", "bytes": 20_000_000}),
    ([128, 128], [8], 1600, 64, {"method": "truncated", "steps": 200}),
    ([128] * 4, [10] * 3, 1_000_000, 8, INPUTS | {"output": "all"}),
    ([64, 64], [100], 1_000_000, 1, INPUTS | {"output": "all"}),
    ([64, 64], [16], 100_000, 4, INPUTS | {"output": "all"}),
    ([64, 64], [16], 512, 4, INPUTS),
    ([256, 256], [16], 4096, 16, INPUTS),
    ([256, 256], [10], 784, 100, INPUTS),
    ([128, 128, 128], [8, 8], 20_000, 8, INPUTS | {"output": "all"}),
    ([64, 64], [10], 20_000, 32, INPUTS | {"inputs": 3, "tokens": True}),
    ([256, 512], [8], 2000, 16, INPUTS | {"inputs": 32, "burn_in": 8}),
    ([256, 256], [16], 512, 16, INPUTS | {"segments": 8}),
]


def rows(children: int) -> list[dict]:
    """One row a case, and one more of compiled code where it runs."""
    found = []
    for sizes, periods, window, batch, options in CASES:
        method = options.get("method", "restricted")
        engines = [True, False] if method == "restricted" and not {"top", "reads"} & set(options) else [False]
        run = {k: v for k, v in options.items() if k != "all_indices"}
        indices = "all" if options.get("all_indices") else "sampled"
        for native in engines:
            predicted = said(sizes, periods, window, batch, native, options)
            os.environ["HRNN_NATIVE"] = str(int(native))  # of the child processes
            measured = measure(
                children=children, hidden_sizes=sizes, periods=periods, window=window, batch=batch, indices=indices, **run
            )
            row = {"hidden_sizes": sizes, "periods": periods, "window": window, "batch": batch, **options, "native": native}
            found.append(
                row | {"predicted_bytes": predicted, "measured_bytes": measured, "ratio": round(predicted / measured, 3)}
            )
            print(f"{sizes} {periods} T={window} B={batch} {options} native={native}: predicted {predicted / 1e6:.1f} MB, "
                  f"measured {measured / 1e6:.1f} MB, ratio {predicted / measured:.3f}", flush=True)  # fmt: skip
    return found


def said(sizes: list[int], periods: list[int], window: int, batch: int, native: bool, options: dict) -> int:
    """Bytes, predicted."""
    given = {k: v for k, v in options.items() if k != "method"}
    method = options.get("method", "restricted")
    if method == "full":
        return predict_truncated(sizes, periods, window, batch, window, **given)
    if method == "restricted":
        return predict(sizes, periods, window, batch, native=native, **given)
    return {"truncated": predict_truncated, "checkpointed": predict_checkpointed}[method](
        sizes, periods, window, batch, **given
    )


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
    off = [max(LEAST, SHARE * row["measured_bytes"]) < abs(row["predicted_bytes"] - row["measured_bytes"]) for row in table]
    raise SystemExit("\n".join(f"too far off: {row}" for row, far in zip(table, off, strict=True) if far) or 0)
