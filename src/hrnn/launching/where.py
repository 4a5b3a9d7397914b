"""Where runs are trained, as options of a command: by processes on this machine, or by Ray on as many as there are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from hrnn.errors import UserError
from hrnn.launching.processes import processes
from hrnn.launching.units import Engine
from hrnn.limits import at_least, option


@dataclass(frozen=True)
class Where:
    """On which machines, and how many runs at a time."""

    jobs: int | None = option(None, at_least(1))
    """Runs side by side; by default as many as there are cores, and with --engine ray as many as the cluster has room for."""
    engine: Literal["processes", "ray"] = "processes"
    """processes: on this machine; ray: on a Ray cluster, a local one where there is no --address."""
    address: str | None = None
    """With --engine ray: the head of a running cluster, HOST:PORT or ray://HOST:PORT."""


def engine_of(where: Where) -> Engine:
    """The engine that the options name; whatever it needs is looked for now, before anything is begun."""
    if where.engine == "ray":
        from hrnn.launching.cluster import cluster, require

        require(where.address)
        return cluster(where.address, where.jobs)
    if where.address is not None:
        raise UserError(f"--address {where.address} is that of a Ray cluster; give --engine ray, too, or drop it")
    return processes(where.jobs or cores())


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
