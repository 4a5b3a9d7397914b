"""The engine on a Ray cluster: every unit is a task, which trains in the unit's folder as a process on one machine would.

The folder is on storage that all nodes share. So a task that is tried again, on whatever node, finds the last checkpoint,
and whoever watches the runs finds their journals, as if there were no cluster.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import hrnn.training.folder as folders
from hrnn.errors import INTERRUPTED, MISTAKE, UserError, require_extra
from hrnn.launching.engine import BUSY_SECONDS, LOOK_SECONDS, STOPPING_SECONDS, last_line, train_all
from hrnn.launching.processes import launch
from hrnn.launching.units import LOG, Ending, Engine, Unit, Watcher, stopped_early
from hrnn.training.identity import Trust

RETRIES = 8  # of a unit whose process, or whose node, was killed
PORT_SECONDS, CONNECT_SECONDS = 5.0, 60.0  # how long an address may take to answer, and Ray to connect to it
OBJECT_STORE = 100 << 20  # bytes that a local cluster sets aside for objects; tasks return a number and a sentence
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # nothing is sent home; no advice
# What Ray takes for its own on other systems than Linux: a cluster of this machine alone, which listens on loopback only.
# It is read when ray is imported.
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
PROBE = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


class KilledError(Exception):
    """The process of a unit was killed; Ray starts the task again."""


def require(address: str | None) -> None:
    """Is Ray there, and a cluster at the address? Every wait has a limit."""
    require_extra("ray", "--engine ray")
    if address is None:
        return
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port or parts.scheme not in ("", "ray"):
        raise UserError(f"--address is {address!r}; give HOST:PORT, as ray start --head prints it, or ray://HOST:PORT")
    try:
        socket.create_connection((host, port), timeout=PORT_SECONDS).close()
    except OSError as error:
        raise UserError(f"--address {address}: nothing answers there ({error}); start Ray with: ray start --head") from None
    try:
        # In a process of its own, as Ray sets no limit that would hold for every way of not answering.
        command = [sys.executable, "-c", PROBE, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_SECONDS, env={**os.environ, **SETTINGS})
    except subprocess.TimeoutExpired:
        raise UserError(f"--address {address}: no Ray cluster answers there within {CONNECT_SECONDS:.0f} s") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--address {address}: Ray cannot connect ({said})")


class Submitted:
    """A unit as a task of Ray."""

    def __init__(self, place: Path, unit: Unit):
        import ray

        self.place, self._over = place, False
        threads = unit.config.upkeep.threads
        options = {"name": unit.name, "num_cpus": threads, "max_retries": RETRIES, "retry_exceptions": [KilledError]}
        task = ray.remote(train_unit).options(**options)
        self.reference: Any = task.remote(str(place), threads, os.getcwd(), Trust.of(unit.config))

    def outcome(self) -> tuple[int, str] | None:
        """Or what Ray says of a task that has none."""
        import ray

        if self._over:
            return INTERRUPTED, ""
        if not ray.wait([self.reference], timeout=0)[0]:
            return None
        try:
            code, said = ray.get(self.reference)
            return int(code), str(said)
        except ray.exceptions.TaskCancelledError:
            return INTERRUPTED, ""
        except KilledError as error:  # Ray raises what is both its own error and the task's
            return MISTAKE, f"{_cause(error)}, after {RETRIES} more attempts"
        except ray.exceptions.RayError as error:
            return MISTAKE, _cause(error)

    def begun(self) -> bool:
        """One at work holds the lock of its folder."""
        return folders.is_locked(self.place)

    def stop(self) -> None:
        import ray

        ray.cancel(self.reference, force=False)

    def kill(self) -> None:
        self._over = True


def cluster(address: str | None = None, jobs: int | None = None, deadline: float | None = None) -> Engine:
    """An engine of Ray tasks: as many at a time as the cluster has room for, and at most `jobs`; deadline: see `train_all`."""

    def engine(folder: Path, units: Sequence[Unit], watcher: Watcher) -> Ending:
        folder, threads = folder.absolute(), max(unit.config.upkeep.threads for unit in units)
        # What Ray says of tasks that it starts again must not get into a table in JSON.
        with redirect_stdout(sys.stderr), connected(address, None if jobs is None else jobs * threads):
            _check_room(threads)
            most = jobs or len(units)
            return train_all(folder, units, most, lambda unit: Submitted(folder / unit.name, unit), watcher, deadline)

    return engine


@contextmanager
def connected(address: str | None, cores: int | None) -> Iterator[None]:
    """A connection to Ray for as long as it is needed; one that the caller has already is used and left as it is."""
    settings = {**SETTINGS, **(ALONE if address is None else {})}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    import ray

    if ray.is_initialized():
        _set(before)
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        quiet |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        try:
            ray.init(address=address or "local", **quiet)
        except Exception as error:  # Ray has no error of its own for this
            raise UserError(f"Ray cannot be started or reached ({_cause(error)})") from None
        yield
    finally:
        ray.shutdown()
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _check_room(threads: int) -> None:
    import ray

    largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if threads > largest:
        raise UserError(f"--threads is {threads} and no node of the cluster has more than {largest:.0f} cores; give fewer")


def _cause(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    return lines[-1] if isinstance(cause, KilledError | ImportError) else f"{type(cause).__name__}: {lines[0]}"


def train_unit(place_name: str, threads: int, home: str, own: Trust) -> tuple[int, str]:
    """The task, on whatever node: begin or continue the unit of a folder; returns its exit code and its last words."""
    place = Path(place_name)
    if not (place / folders.CONFIG).exists():
        return MISTAKE, f"{place} is not there on node {platform.node()}; --folder must be on storage that all nodes share"
    if os.path.isdir(home):
        os.chdir(home)  # a user's own task may be a module of that folder
    deadline = time.monotonic() + BUSY_SECONDS
    while folders.is_locked(place) and time.monotonic() < deadline:  # by the process of an attempt that was cut off
        time.sleep(LOOK_SECONDS)
    if stopped_early(place) is not None:
        return INTERRUPTED, ""
    try:
        process = launch(place, threads, own)
    except OSError as error:
        return MISTAKE, f"cannot be started: {error}"
    try:
        while process.poll() is None:
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:  # how Ray cancels a task
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait(STOPPING_SECONDS)
    code = int(process.returncode)
    if code == -signal.SIGKILL:
        raise KilledError(f"killed by signal {-code}")
    return code, last_line(place / LOG)
