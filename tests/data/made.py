"""Small data of every kind, on disk: `python -m tests.data.made FOLDER` leaves them there to look at."""

from __future__ import annotations

import gzip
import sys
import wave
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet


def panel(sequences: int = 6, shortest: int = 5, channels: int = 2, seed: int = 0) -> pa.Table:
    """A long table by Nixtla's names, with a class for each sequence, lengths that differ, and a group."""
    generator = np.random.default_rng(seed)
    columns: dict[str, list] = {"unique_id": [], "ds": [], "y": []}
    columns |= {f"x{i}": [] for i in range(1, channels)} | {"label": [], "who": []}
    for number in range(sequences):
        steps = shortest + number
        columns["unique_id"] += [f"s{number}"] * steps
        columns["ds"] += list(range(steps))
        columns["label"] += ["up" if number % 2 else "down"] * steps
        columns["who"] += [f"person {number % 3}"] * steps
        for name in ["y", *(f"x{i}" for i in range(1, channels))]:
            columns[name] += generator.normal(3, 2, steps).tolist()
    return pa.table(columns)


def write_table(table: pa.Table, path: Path) -> Path:
    """By the name's end: CSV, Parquet or Arrow."""
    if path.name.endswith(".csv"):
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=7)
    else:
        pyarrow.feather.write_feather(table, path, chunksize=7)
    return path


def write_wav(path: Path, samples: int = 100, rate: int = 8000, frequency: float = 0.1, channels: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = (10_000 * np.sin(np.arange(samples) * frequency)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.repeat(values, channels).tobytes())
    return path


def recordings(folder: Path) -> Path:
    """train and test, two classes, lengths that differ."""
    for part, count in (("train", 4), ("test", 2)):
        for number in range(count):
            for name, frequency in (("low", 0.05), ("high", 0.5)):
                write_wav(folder / part / name / f"{number}.wav", 90 + 10 * number, frequency=frequency)
    return folder


def write_fasta(path: Path, records: dict[str, str], width: int = 10) -> Path:
    lines = []
    for name, letters in records.items():
        lines += [f">{name} made up", *(letters[at : at + width] for at in range(0, len(letters), width))]
    content = ("\n".join(lines) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_ts(path: Path, sequences: list[tuple[list[list[float]], str]], header: str = "@classLabel true a b") -> Path:
    lines = ["# made up", "@problemName made", "@timeStamps false", header, "@data"]
    for channels, label in sequences:
        values = [",".join("?" if value is None else str(value) for value in channel) for channel in channels]
        lines.append(":".join([*values, label]))
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for ending in ("csv", "parquet", "feather"):
        write_table(panel(), place / f"panel.{ending}")
    recordings(place / "recordings")
    write_fasta(place / "genome.fa.gz", {"one": "ACGTN" * 20, "two": "GATTACA"})
    write_ts(place / "made_TRAIN.ts", [([[1, 2, 3], [4, None, 6]], "a"), ([[1, 2], [3, 4]], "b")])
    np.save(place / "array.npy", np.random.default_rng(0).normal(size=(4, 20, 3)))
