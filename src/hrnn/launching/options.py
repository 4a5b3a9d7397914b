"""Where runs are trained, as options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hrnn.limits import above, at_least, option


@dataclass(frozen=True)
class Where:
    """On which machines, and how many runs at a time."""

    jobs: int | None = option(None, at_least(1))
    """Runs side by side; by default as many as there are cores, and with --engine ray as many as the cluster has room for."""
    engine: Literal["processes", "ray"] = "processes"
    """processes: on this machine; ray: on a Ray cluster, a local one where there is no --address."""
    address: str | None = None
    """With --engine ray: the head of a running cluster, HOST:PORT or ray://HOST:PORT."""
    minutes: float | None = option(None, above(0, 1e6))
    """Stop after so many minutes, as on Ctrl-C: with checkpoints, from which the same command goes on."""
