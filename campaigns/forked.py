"""Calls of the command line in forked children of one process that has imported everything, with limits on what they take."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MEMORY = 3 << 30  # bytes that a call may add to what the warm process has mapped
CPU_SECONDS = 30
WALL_SECONDS = 60.0
OBEY = 30.0  # seconds in which a call has to end after SIGINT, on a busy machine
_slower = 1.0  # how many times longer anything may take before it counts as hanging
ALLOWED = (0, 1, 2, 130, 143)
PRELOADED = (
    "torch._dynamo",  # what the first optimizer imports
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.record_writer",
)


@dataclass(frozen=True)
class Ended:
    """How a call ended: its exit code (negative: the signal that killed it), what it printed, and whether it had to be
    stopped: "", "SIGINT" if it was at work and then ended by itself, "idle" if it was not at work, "hang" if it did not end."""

    code: int
    out: str
    err: str
    stopped: str = ""
    seconds: float = 0.0

    @property
    def said(self) -> str:
        return self.out + self.err


def warm() -> None:
    """Import what the commands import, once, on one thread, and read every command's options once."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before they are imported
    import torch

    from hrnn.cli import COMMANDS, main

    torch.set_num_threads(1)
    for name in (*(f"hrnn.commands.{command}" for command in COMMANDS), *PRELOADED):
        importlib.import_module(name)
    for arguments in (["train", "copy", "--help"], *([command, "--help"] for command in COMMANDS)):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(arguments)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"the warm process has {threads} threads; forks of it could hang")
    gc.collect()
    gc.freeze()


def call(
    arguments: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], object] | None = None,
    patience: float = WALL_SECONDS,
    kill_after: float | None = None,
    output: str | None = None,
) -> Ended:
    """`hrnn ARGUMENTS` in a fork, in a folder. before: what the child does first, as to patch itself. patience: seconds after
    which it gets a SIGINT, and then some to obey. kill_after: seconds after which it gets a SIGKILL. output: where standard
    output goes, a path or "closed" for a pipe that nobody reads."""
    return finish(begin(arguments, folder, before=before, output=output), patience, kill_after)


def begin(
    arguments: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], object] | None = None,
    environment: dict[str, str] | None = None,
    output: str | None = None,
) -> tuple[int, int, int]:
    """Start a call; returns its process and the files of what it prints."""
    out, err = os.memfd_create("out"), os.memfd_create("err")
    return forked(lambda: become(arguments, folder, redirected(output) or out, err, before, environment or {})), out, err


def forked(work: Callable[[], int]) -> int:
    """Begin some work in a fork of this process: the exit code is what the work returns, or 1 with a traceback."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def finish(child: tuple[int, int, int], patience: float = WALL_SECONDS, kill_after: float | None = None) -> Ended:
    """Wait for a call, and see that nothing of it is left."""
    pid, out, err = child
    stopped = ""
    watch = os.pidfd_open(pid)
    try:
        if kill_after is not None:
            if not ended(watch, kill_after):
                os.kill(pid, signal.SIGKILL)
        elif not ended(watch, patient(patience)):
            stopped = "idle" if asleep(pid) else "SIGINT"
            os.kill(pid, signal.SIGINT)
            if not ended(watch, patient(OBEY)):
                stopped = "hang"
                os.kill(pid, signal.SIGKILL)
    finally:
        os.close(watch)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return Ended(os.waitstatus_to_exitcode(status), content(out), content(err), stopped, usage.ru_utime + usage.ru_stime)


def ended(watch: int, seconds: float) -> bool:
    return bool(select.select([watch], [], [], seconds)[0])


def be_patient() -> None:
    """From now on nothing hangs because the machine is busy."""
    global _slower
    _slower = 60.0


def patient(seconds: float) -> float:
    """How long to wait before something counts as hanging."""
    return seconds * _slower


def asleep(pid: int) -> bool:
    """Does the process wait for something that will not come? One that has children may wait for these."""
    for _ in range(5):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state not in "SD" or Path(f"/proc/{pid}/task/{pid}/children").read_text():
            return False
        time.sleep(0.02)
    return True


def redirected(output: str | None) -> int | None:
    """A file for standard output."""
    if output == "closed":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return os.open(output, os.O_WRONLY) if output else None


def content(file: int) -> str:
    """What was printed, at most a few megabytes of it; the file is closed."""
    size = os.fstat(file).st_size
    text = os.pread(file, min(size, 4 << 20), 0).decode(errors="replace")
    os.close(file)
    return text


def become(
    arguments: Sequence[str],
    folder: Path,
    out: int,
    err: int,
    before: Callable[[], object] | None,
    environment: dict[str, str],
) -> int:
    """In the child: be the process that a shell would have started; returns its exit code."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    # The parent's may be what a test captures; these are what the interpreter would have opened.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  as long as the process
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    limits()
    os.chdir(folder)
    os.environ.update({"HRNN_TRACEBACK": "1", **environment})  # what the net of last resort catches shows its place
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if before:
        before()
    return entry(arguments)


def entry(arguments: Sequence[str]) -> int:
    """What the script `hrnn` does, with the exit code that the interpreter would make of it."""
    from hrnn.cli import main

    try:
        code = main(list(arguments))
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120  # as the interpreter ends when its output cannot be flushed
    return code


def limits() -> None:
    """So that no call can eat the machine, nor write a core or endless files."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
