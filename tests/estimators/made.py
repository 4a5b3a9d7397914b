"""Waves of different lengths that are slow or fast, and estimators that learn next to nothing, quickly."""

from __future__ import annotations

import numpy as np

QUICK = {"updates": 2, "hidden_sizes": (10, 11), "random_state": 0}


def waves(count: int = 24, shortest: int = 9, longest: int = 14, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """(time, 2) arrays, and whether each is "slow" or "fast"."""
    random = np.random.default_rng(seed)
    angles = [number + np.arange(random.integers(shortest, longest)) * (0.4, 1.2)[number % 2] for number in range(count)]
    sequences = [np.stack([np.sin(one), np.cos(one)], 1) + random.normal(0, 0.1, (len(one), 2)) for one in angles]
    return sequences, np.array(["slow", "fast"] * (count // 2))


def columns(sequences: list[np.ndarray]) -> dict[str, list]:
    """The same as a long table: walk, time, a, b."""
    return {
        "walk": [f"w{number}" for number, one in enumerate(sequences) for _ in one],
        "time": [step for one in sequences for step in range(len(one))],
        "a": [float(value) for one in sequences for value in one[:, 0]],
        "b": [float(value) for one in sequences for value in one[:, 1]],
    }


def repeated(sequences: list[np.ndarray], targets) -> list:
    """A target of each sequence at each of its steps."""
    return [target for one, target in zip(sequences, targets, strict=True) for _ in one]
