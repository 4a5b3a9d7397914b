"""Where runs are trained: by processes on this machine, or by Ray on as many as there are."""

from __future__ import annotations

import os
import time

from hrnn.errors import UserError
from hrnn.launching.options import Where
from hrnn.launching.processes import processes
from hrnn.launching.units import Engine


def engine_of(where: Where) -> Engine:
    """The engine that the options name; whatever it needs is looked for now, before anything is begun. Its time begins."""
    deadline = None if where.minutes is None else time.monotonic() + 60 * where.minutes
    if where.engine == "ray":
        from hrnn.launching.cluster import cluster, require

        require(where.address)
        return cluster(where.address, where.jobs, deadline)
    if where.address is not None:
        raise UserError(f"--address {where.address} is that of a Ray cluster; give --engine ray, too, or drop it")
    return processes(where.jobs or cores(), deadline)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
