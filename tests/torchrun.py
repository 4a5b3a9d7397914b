"""Real processes under the real torchrun, for the tests that need several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def command(*arguments: object, processes: int = 2, options: tuple[str, ...] = ("--standalone",)) -> list[str]:
    """torchrun, its options, and what it runs."""
    launch = [sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node", processes, *arguments]
    return [str(one) for one in launch]


def environment(**variables: str) -> dict[str, str]:
    """One thread for what is started, and the project to import from; no run of torchrun around this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "MASTER_", "RANK"))}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])} | variables


def torchrun(*arguments: object, timeout: float = 600, variables: dict | None = None, **options) -> subprocess.CompletedProcess:
    """Run to the end; whoever waits for it longer than `timeout` has found a hang."""
    return subprocess.run(
        command(*arguments, **options), env=environment(**(variables or {})), capture_output=True, text=True, timeout=timeout
    )
