"""What hrnn inspect proposes within a budget of bytes: does it fit, is it as large as predicted, does it learn?

    python -m benchmarks.proposals [DATA ...] [--places 100000] [--json FILE]

Generated data of different shapes (benchmarks/shapes.py). For each, in a child process, `hrnn inspect DATA --memory BUDGET`,
and then the command that it proposes, as printed, but for as many epochs as make --places steps of all rows, where these are
fewer.
The child trains a tiny model and reads the data before; measured is how far its resident memory then goes above that: training,
validation, checkpoints and test. Learned means: better than chance, the mean or the last value.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from benchmarks.shapes import SHAPES

WITHIN, OR_BYTES = 0.2, 5_000_000


def child(data: str, budget: str, places: int) -> None:
    """In a process of its own, in a folder of its own: the proposal, a tiny run, the proposed one, and how much that took."""
    import torch

    from hrnn.cli import main as hrnn
    from hrnn.resident import peak_since, start_of_peak
    from hrnn.tasks import Series
    from hrnn.training.folder import read_run

    torch.set_num_threads(1)
    words = json.loads(data)
    with redirect_stdout(io.StringIO()) as said:
        hrnn(["inspect", *words, "--memory", budget, "--json"])
    found = json.loads(said.getvalue())
    proposal = found["proposal"]
    command = shlex.split(proposal["command"])
    options = command[command.index("--memory") :]
    inputs = found["steps"] / proposal.get("patch", 1)
    total = inputs * (0.8 if len(set(proposal["parts"].values())) == 1 else proposal["parts"]["training"] / found["sequences"])
    epochs = min(proposal["epochs"], max(1, round(places / total)))
    options[options.index("--epochs") + 1] = str(epochs)
    tiny = ["--hidden-sizes", "4", "4", "--periods", "2", "--window", "64", "--batch", "1", "--updates", "1"]
    run = ["train", "series", *words]
    if (code := hrnn([*run, *tiny, "--run", "runs/tiny"])) != 0:
        raise SystemExit(code)
    task = read_run(Path("runs/tiny")).config().task
    assert isinstance(task, Series)
    opened = task.opened  # kept, with its pages
    sum(float(opened.sequences.read(number).sum()) for number in range(len(opened.sequences)))
    before = start_of_peak()
    if (code := hrnn([*run, *options, "--run", "runs/proposed"])) != 0:
        raise SystemExit(code)
    Path("measured.json").write_text(json.dumps({"proposal": proposal, "bytes": peak_since(before), "epochs": epochs}))


def learned(test: dict[str, float], classes: int) -> tuple[str, float, float]:
    """By what it is judged, what it reached, and what knows nothing reaches; a class by chance is the most frequent one."""
    if "mase" in test:
        return "mase", test["mase"], test["naive_mase"]
    if "mae_of_mean" in test:
        return "mae", test["mae"], test["mae_of_mean"]
    if "bits_per_symbol" in test:
        return "bits_per_symbol", test["bits_per_symbol"], math.log2(classes)
    return "accuracy", test["accuracy"], 1 / classes


def measured(name: str, places: int) -> dict[str, Any]:
    """One row."""
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        words = shape.make(folder)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        code = "import sys; from benchmarks.proposals import child; child(sys.argv[1], sys.argv[2], int(sys.argv[3]))"
        arguments = [sys.executable, "-c", code, json.dumps(words), shape.budget, str(places)]
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        found = json.loads((folder / "measured.json").read_text())
        result = json.loads((folder / "runs" / "proposed" / "result.json").read_text())
    proposal, took = found["proposal"], found["bytes"]
    metric, reached, nothing = learned(result["test"], shape.symbols)
    predicted, budget = proposal["predicted_bytes"], proposal["memory"]
    better = reached > nothing if metric == "accuracy" else reached < nothing
    return {
        "data": name,
        "what": shape.what,
        "budget": budget,
        **{key: proposal[key] for key in ("hidden_sizes", "periods", "window", "batch")},
        "predicted_bytes": predicted,
        "measured_bytes": took,
        "as_predicted": abs(predicted - took) <= max(WITHIN * took, OR_BYTES),
        "fits": took <= budget,
        "epochs_proposed": proposal["epochs"],
        "epochs": found["epochs"],
        "seconds": round(result["seconds"], 1),
        "metric": metric,
        "reached": round(reached, 4),
        "knowing_nothing": round(nothing, 4),
        "learned": better,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", help=", ".join(SHAPES))
    parser.add_argument("--places", type=int, default=100_000)
    parser.add_argument("--json")
    options = parser.parse_args()
    from benchmarks.run import environment

    rows = []
    for name in options.data or SHAPES:
        rows.append(measured(name, options.places) | environment(1))
        row = rows[-1]
        print(
            f"{name}: {row['hidden_sizes']} {row['periods']} window {row['window']} batch {row['batch']}; predicted "
            f"{row['predicted_bytes'] / 1e6:.1f} MB, measured {row['measured_bytes'] / 1e6:.1f} of {row['budget'] / 1e6:.0f}; "
            f"{row['metric']} {row['reached']} ({row['knowing_nothing']}) in {row['seconds']} s"
            + "".join(f"; NOT {word}" for word in ("as_predicted", "fits", "learned") if not row[word]),
            flush=True,
        )
        if options.json:
            Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
