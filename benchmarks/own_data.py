"""Data of others, learned with default options, beside a flat LSTM in the same bytes, three times as many epochs, twice as many
units, and a head that reads all levels: what docs/own_data.md reports.

    python -m benchmarks.own_data FOLDER [watch ...] [--methods ours lstm longer larger all] [--seeds 0 1 2] [--runs runs]
                                         [--json FILE]

FOLDER is where the scripts of examples/data have written. A run is one command, `hrnn train series DATA --seed S`, in a process
of its own; those that are complete in --runs are not run again. The flat LSTM has as many units as all levels together, and so
about as many weights; it sees the same batches as often, by truncated backpropagation with an update for each window, and its
window is as long as fits into the bytes that an update of ours was measured to take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.run import environment
from hrnn.launching.measuring import bytes_of
from hrnn.training.config import Config, Learning, Model, from_json, resolved

SETS: dict[str, list[str]] = {
    "watch": ["watch.parquet"],
    "acsf1": ["acsf1.parquet"],
    "speakers": ["speakers"],
    "seismogram": ["seismogram.parquet"],
    "jargon": ["jargon.txt", "--kind", "bytes"],
    "vowels": ["vowels.parquet"],
    "leaf": ["leaf.parquet"],
}
SCORES = ("accuracy", "balanced_accuracy", "mase", "mae", "naive_mae", "rmse", "naive_rmse", "bits_per_symbol", "markov_bits")
SCORES += ("markov_order", "xz_bits")


def trained(folder: Path, run: Path, options: list[str], seed: int) -> None:
    """One run by the command line, unless it is there."""
    if not (run / "result.json").exists():
        command = [sys.executable, "-m", "hrnn", "train", "series", *options, "--seed", str(seed), "--run", str(run.absolute())]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})


def config_of(run: Path) -> Config[Any]:
    """A run's configuration, as it was resolved."""
    entries = json.loads((run / "config.json").read_text())
    return from_json({name: entries[name] for name in ("task", "model", "learning", "budget", "upkeep")})


def flat_window(ours: Config[Any], budget: int) -> int:
    """Steps of a flat LSTM that an update fits the budget with, by two measurements and a line through them."""

    def taken(window: int) -> int:
        model = Model(model="lstm", hidden_sizes=(sum(ours.hidden_sizes),), window=window)
        learning = Learning(batch=ours.batch, update="window", learning_rate=ours.learning.rate, schedule="cosine")
        return bytes_of(resolved(replace(ours, model=model, learning=learning)), children=1)

    few, many = 32, 256
    low, high = taken(few), taken(many)
    return max(8, int(few + (budget - low) * (many - few) / max(1, high - low)))


def options_of(method: str, ours: Path) -> list[str]:
    """What a method adds to the command; ours: a run of the defaults on the same data."""
    if method == "ours":
        return []
    known = config_of(ours)
    if method == "all":
        return ["--output-levels", "all"]
    if method == "longer":
        assert known.budget.epochs is not None
        return ["--epochs", f"{3 * known.budget.epochs:g}"]
    if method == "larger":
        return ["--hidden-sizes", *(str(2 * size) for size in known.hidden_sizes)]
    window, units = flat_window(known, bytes_of(known)), sum(known.hidden_sizes)
    flat = ["--model", "lstm", "--hidden-sizes", str(units), "--window", str(window), "--update", "window"]
    return [*flat, "--batch", str(known.batch)]


def row_of(data: str, method: str, runs: list[Path], taken: int, options: list[str]) -> dict[str, Any]:
    """What came of the seeds of one method."""
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    config, tests = config_of(runs[0]), [result["test"] for result in results]
    scores = {name: [round(test[name], 4) for test in tests] for name in SCORES if name in tests[0]}
    row = {
        "data": data, "method": method, "command": " ".join(["hrnn train series", *options]), "seeds": len(runs),
        "hidden_sizes": config.hidden_sizes, "periods": config.periods, "window": config.window, "batch": config.batch,
        "updates": results[0]["updates"], "core_minutes": round(mean(one["cpu_seconds"] for one in results) / 60, 2),
        "bytes_of_an_update": taken, "scores": scores, "means": {name: round(mean(some), 4) for name, some in scores.items()},
    }  # fmt: skip
    if "rmse" in scores:  # the mean squared error, of that of the last value
        row["squares_of_naive"] = [round((test["rmse"] / test["naive_rmse"]) ** 2, 4) for test in tests]
    return row | environment(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(SETS), metavar="NAME", help=", ".join(SETS))
    parser.add_argument("--methods", nargs="*", default=["ours"], choices=["ours", "lstm", "longer", "larger", "all"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    for name in chosen.names:
        for method in chosen.methods:
            runs = [chosen.runs / f"{name}-{method}-{seed}" for seed in chosen.seeds]
            options = [*SETS[name], *options_of(method, chosen.runs / f"{name}-ours-{chosen.seeds[0]}")]
            for seed, run in zip(chosen.seeds, runs, strict=True):
                trained(chosen.folder, run, options, seed)
            rows.append(row_of(name, method, runs, bytes_of(config_of(runs[0])), options))
            print(json.dumps(rows[-1]), flush=True)
    if chosen.json:
        before = json.loads(chosen.json.read_text()) if chosen.json.exists() else []
        new = {(row["data"], row["method"]) for row in rows}
        kept = [row for row in before if (row["data"], row["method"]) not in new]
        chosen.json.write_text(json.dumps(kept + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
