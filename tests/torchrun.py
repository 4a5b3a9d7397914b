"""Several processes: under the real torchrun, or as it would start them."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path

from torch.distributed import TCPStore

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]


def command(*arguments: object, processes: int = 2, options: tuple[str, ...] = ("--standalone",)) -> list[str]:
    """torchrun, its options, and what it runs."""
    launch = [sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node", processes, *arguments]
    return [str(one) for one in launch]


def environment(**variables: str) -> dict[str, str]:
    """One thread for what is started, and the project to import from; no run of torchrun around this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "MASTER_", "RANK"))}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])} | variables


def torchrun(*arguments: object, variables: dict | None = None, **options) -> subprocess.CompletedProcess:
    """Run to the end; whoever waits for it longer has found a hang."""
    return subprocess.run(
        command(*arguments, **options), env=environment(**(variables or {})), capture_output=True, text=True, timeout=PATIENCE
    )


# A server that has imported everything and forks: processes without the seconds of imports that torchrun's each take.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["hrnn.commands.train", "hrnn.commands.resume", "tensorboard.compat.proto.event_pb2", "torch._dynamo"]
)


def two_processes(program: Path, *arguments: object) -> None:
    """Run a program in two processes with the variables that torchrun would give them; an error if one of them fails."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # here, as torchrun has it
    log = Path(f"{arguments[0]}.log")
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    meeting["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    words = [str(word) for word in (program, *arguments)]
    processes = [
        FORKED.Process(target=_become, args=(words, {**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}, log))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
        process.kill()
    assert [process.exitcode for process in processes] == [0, 0], log.read_text()


def _become(words: list[str], variables: dict[str, str], log: Path) -> None:
    with open(log, "a") as file:
        os.dup2(file.fileno(), 2)
    os.environ.update(variables)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
