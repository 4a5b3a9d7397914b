"""Tiny series of every kind, on disk, and runs on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from hrnn.parallel import ALONE
from hrnn.tasks import Series
from hrnn.training import folder as folders
from hrnn.training.config import Budget, Config, Learning, Model, Runtime, resolved
from hrnn.training.saving import begin
from tests.commands.console import hrnn
from tests.data.made import recordings, write_fasta, write_table

TINY = ("--hidden-sizes", "8", "8", "--periods", "3", "--no-tensorboard", "--frozen-every", "0")

KINDS = ("class", "last", "mean", "all levels", "patched", "number", "step", "amount", "panel", "series", "bases")


def panel(kind: str = "class", sequences: int = 20, shortest: int = 9, seed: int = 0) -> pa.Table:
    """A long table of waves with lengths that differ; kind: of the target, "class", "number", "step", "amount" or "none"."""
    random = np.random.default_rng(seed)
    columns: dict[str, list] = {"id": [], "time": [], "a": [], "b": [], "code": []}
    targets: list = []
    for number in range(sequences):
        steps = shortest + int(random.integers(0, 8))
        angle = np.arange(steps) * (0.4 if number % 2 else 1.1) + number
        columns["id"] += [f"s{number}"] * steps
        columns["time"] += list(range(steps))
        columns["a"] += (5 + 2 * np.sin(angle) + random.normal(0, 0.1, steps)).tolist()
        columns["b"] += [None if random.random() < 0.1 else float(value) for value in np.cos(angle)]
        columns["code"] += [f"c{int(value)}" for value in random.integers(0, 3, steps)]
        targets += {
            "class": ["slow" if number % 2 else "fast"] * steps,
            "number": [3.5 * number] * steps,
            "step": ["up" if value > 0 else "down" for value in np.sin(angle)],
            "amount": (100 * np.sin(angle)).tolist(),
            "none": [],
        }[kind]
    return pa.table(columns | ({"label": targets} if targets else {}))


def write(folder: Path) -> dict[str, list[str]]:
    """Arguments of hrnn train series for every kind of source and target, without those of TINY."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        kind: str(write_table(panel(kind), folder / f"{kind}.parquet"))
        for kind in ("class", "number", "step", "amount", "none")
    }
    wave = np.sin(np.arange(600) / 5) * 3 + 7
    np.save(folder / "long.npy", wave)
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 30)
    batch = ["--batch", "4", "--window", "12"]
    return {
        "class": [paths["class"], *batch],
        "last": [paths["class"], *batch, "--readout", "last", "--class-weights", "balanced"],
        "mean": [paths["class"], *batch, "--readout", "mean"],
        "all levels": [paths["class"], *batch, "--output-levels", "all"],
        "patched": [paths["class"], *batch, "--patch", "2", "--values", "a", "b"],
        "cropped": [paths["class"], *batch, "--crop", "7"],
        "number": [paths["number"], *batch],
        "step": [paths["step"], *batch],
        "amount": [paths["amount"], *batch, "--target-is", "number"],
        "panel": [paths["none"], *batch, "--forecast", "2", "--values", "a", "b"],
        "series": [str(folder / "long.npy"), *batch, "--forecast", "3", "--season", "31"],
        "patched series": [str(folder / "long.npy"), *batch, "--forecast", "2", "--patch", "4"],
        "audio": [str(recordings(folder / "audio")), *batch, "--held-out", "0.25"],
        "bases": [str(write_fasta(folder / "g.fa.gz", {"one": "ACGTN" * 40, "two": "GATTACA" * 20})), *batch],
        "text": [str(folder / "text.txt"), *batch],
        "bytes": [str(folder / "text.txt"), "--kind", "bytes", *batch],
    }  # fmt: skip


def train(capsys, run: Path, arguments: list[str], updates: int = 3, *more: str) -> Path:
    code, _, err = hrnn(
        capsys, "train", "series", *arguments, *TINY, "--updates", updates, "--schedule", "constant", "--run", run, *more
    )
    assert code == 0, err
    return run


def untrained(run: Path, task: Series, **model) -> Path:
    """The folder of a run before its first update: random weights, of which answers depend no less than of learned ones."""
    model = Model(**{"hidden_sizes": (5, 6), "periods": (3,), "window": 6} | model)
    parts = Learning(batch=2), Budget(updates=1), Runtime(tensorboard=False)
    config = resolved(Config(task.placed(run), model, *parts))
    folders.create(run, config, overwrite=False)
    begin(run, ALONE, config, None, None, None, False).journal.close()
    return run
