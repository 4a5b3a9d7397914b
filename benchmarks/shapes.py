"""Data of different shapes, generated: few and many sequences, short and long, narrow and wide, of every kind of target."""

from __future__ import annotations

import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shape:
    """
    make:    writes the data into a folder; what stands behind hrnn inspect
    budget:  for --memory
    symbols: classes, or different tokens; 1 where numbers are learned
    """

    what: str
    make: Callable[[Path], list[str]]
    budget: str
    symbols: int = 1


def waves(
    count: int, shortest: int, longest: int, channels: int, classes: int, target: str, **options: Any
) -> Callable[[Path], list[str]]:
    """A long table; a sequence swings at the frequency of its class, in noise. target: "class", "number" (the frequency),
    "step" (is the first channel's swing above 0?) or "none". gaps: share of missing values; uneven: irregular times."""

    def make(folder: Path) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        random = np.random.default_rng(0)
        columns: dict[str, list[Any]] = {"id": [], "time": [], **{f"x{i}": [] for i in range(channels)}}
        labels: list[Any] = []
        for number in range(count):
            steps, kind = int(random.integers(shortest, longest + 1)), number % max(1, classes)
            frequency = random.uniform(0.02, 0.1) if target == "number" else 0.03 * 1.7**kind
            angle = 2 * np.pi * (np.arange(steps) * frequency + random.random())
            columns["id"] += [f"s{number}"] * steps
            spaces = random.exponential(1.0, steps) + 0.01 if options.get("uneven") else np.ones(steps)
            columns["time"] += np.cumsum(spaces).tolist()
            for channel in range(channels):
                values = np.sin(angle + channel) * (1 + channel) + random.normal(0, 0.3 * (1 + channel), steps)
                values[random.random(steps) < options.get("gaps", 0.0)] = np.nan
                columns[f"x{channel}"] += values.tolist()
            labels += {"class": [f"c{kind}"] * steps, "number": [1000 * frequency] * steps, "none": [],
                       "step": np.where(np.sin(angle) > 0, "up", "down").tolist()}[target]  # fmt: skip
        table = pa.table({**columns, **({"label": labels} if labels else {})})
        pq.write_table(table, folder / "table.parquet")
        return ["table.parquet", *options.get("more", ())]

    return make


def series(steps: int, *more: str) -> Callable[[Path], list[str]]:
    """One long series with a daily and a weekly swing."""

    def make(folder: Path) -> list[str]:
        hours = np.arange(steps)
        values = 50 + 10 * np.sin(2 * np.pi * hours / 24) + 4 * np.sin(2 * np.pi * hours / 168)
        np.save(folder / "load.npy", values + np.random.default_rng(0).normal(0, 1, steps))
        return ["load.npy", *more]

    return make


def recordings(count: int, samples: int) -> Callable[[Path], list[str]]:
    """8 kHz, a folder for each of two voices."""

    def make(folder: Path) -> list[str]:
        random = np.random.default_rng(0)
        for number in range(count):
            voice = "low" if number % 2 else "high"
            (folder / "voices" / voice).mkdir(parents=True, exist_ok=True)
            pitch = (0.05 if voice == "low" else 0.12) * random.uniform(0.9, 1.1)
            sound = np.sin(np.arange(samples) * pitch * 2 * np.pi) + random.normal(0, 0.3, samples)
            with wave.open(str(folder / "voices" / voice / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes((6000 * sound).astype("<i2").tobytes())
        return ["voices"]

    return make


def genome(letters: int) -> Callable[[Path], list[str]]:
    """Letters that follow each other with unequal chances."""

    def make(folder: Path) -> list[str]:
        random, found = np.random.default_rng(0), [0]
        for chance in random.random(letters - 1):
            found.append((found[-1] + 1) % 4 if chance < 0.7 else int(chance * 1e6) % 4)
        (folder / "genome.fa").write_text(">one\n" + "".join("ACGT"[letter] for letter in found) + "\n")
        return ["genome.fa"]

    return make


def text(words: int) -> Callable[[Path], list[str]]:
    """Words by chance, as a log has them."""

    def make(folder: Path) -> list[str]:
        chosen = np.random.default_rng(0).choice(["open", "closed", "error", "started", "the pump", "valve", "ok"], words)
        (folder / "log.txt").write_text(" ".join(chosen) + "\n")
        return ["log.txt", "--kind", "bytes"]

    return make


SHAPES = {
    "sensors": Shape("60 sequences of 90 to 140 steps, 2 channels, 2 classes", waves(60, 90, 140, 2, 2, "class"), "20MB", 2),
    "long": Shape("40 of 1,500 to 2,500, 6 channels, 4 classes", waves(40, 1500, 2500, 6, 4, "class"), "60MB", 4),
    "tight": Shape("the same", waves(40, 1500, 2500, 6, 4, "class"), "12MB", 4),
    "many": Shape("600 of 20 to 60, 3 channels, 5 classes", waves(600, 20, 60, 3, 5, "class"), "30MB", 5),
    "wide": Shape("80 of 150 to 250, 100 channels, 3 classes", waves(80, 150, 250, 100, 3, "class"), "100MB", 3),
    "very long": Shape("24 of 8,000 to 12,000, 1 channel, 2 classes", waves(24, 8000, 12000, 1, 2, "class"), "100MB", 2),
    "numbers": Shape("150 of 150 to 200, a number each", waves(150, 150, 200, 2, 1, "number"), "30MB"),
    "steps": Shape("60 of 250 to 350, a class for each step", waves(60, 250, 350, 2, 2, "step"), "40MB", 2),
    "gaps": Shape(
        "100 of 100 to 200, a fifth of the values missing, irregular times",
        waves(100, 100, 200, 4, 2, "class", gaps=0.2, uneven=True),
        "40MB",
        2,
    ),
    "series": Shape("one series of 20,000 steps, 24 ahead", series(20_000, "--forecast", "24"), "40MB"),
    "panel": Shape(
        "40 series of 300 to 500 steps, 3 channels, 6 ahead",
        waves(40, 300, 500, 3, 3, "none", more=("--forecast", "6")),
        "50MB",
    ),
    "audio": Shape("40 recordings of a second, 8 kHz, 2 voices", recordings(40, 8000), "50MB", 2),
    "genome": Shape("100,000 letters", genome(100_000), "80MB", 5),
    "bytes": Shape("12,000 words of a log, read as bytes", text(12_000), "200MB", 256),
}
