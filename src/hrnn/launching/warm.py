"""A process that has imported all that a worker needs, and forks one for every unit: python -m hrnn.launching.warm.

Importing torch takes seconds, which a sweep of small runs would pay for each. Nothing is computed here before a fork, so
that a worker begins as one that was started alone. Workers are as separate as those: one that crashes takes nobody along.

Standard input is a socket. A message is a folder, a task, a cell and readers as the worker takes them, with three files: where
the worker logs, the pipe that closes when the parent goes, and one that is told the worker's process and, later, how it ended.
When the socket closes this process ends; its workers notice by their own pipes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MESSAGE = 1 << 16  # bytes at most


def available() -> bool:
    """Elsewhere than on Linux a process that has loaded libraries should not fork."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class Warm:
    """The parent's side: one such process for all units with the same number of threads, started with the first of them.

    log: of that unit, where the process says why it cannot begin, should it be so
    """

    def __init__(self, threads: int, log: int):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hrnn.launching.warm"],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                process_group=0,  # the terminal's Ctrl-C is for the parent alone
            )

    def launch(self, place: Path, log: int, own: Sequence[str]) -> Forked:
        """Have a worker forked as soon as the process is ready; an OSError if it is gone."""
        if self._process.poll() is not None:
            raise OSError("the process that starts workers is gone")
        alive, ours = os.pipe()
        told, tells = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps([str(place), *own]).encode()], [log, alive, tells])
        except OSError:
            os.close(ours)
            os.close(told)
            raise
        finally:
            os.close(alive)
            os.close(tells)
        return Forked(ours, told)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


class Forked:
    """A worker that is nobody's child here, as far as subprocess.Popen is used of one."""

    def __init__(self, alive: int, told: int):
        self.stdin, self._told = os.fdopen(alive, "wb"), told
        os.set_blocking(told, False)
        self._said = b""
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None while it runs; minus the signal that killed it."""
        if self.returncode is None:
            with suppress(BlockingIOError):
                while more := os.read(self._told, 64):
                    self._said += more
                # The process that forks is gone: how the worker ends nobody will tell, or it never began.
                self.returncode = -signal.SIGKILL if self._said else 1
            numbers = self._said.split()
            if len(numbers) == 2:
                self.returncode = int(numbers[1])
            if self.returncode is not None:
                os.close(self._told)
        return self.returncode

    def _signal(self, number: int) -> None:
        if self.poll() is None and self._said:
            os.kill(int(self._said.split()[0]), number)
        elif self.returncode is None:
            self.stdin.close()  # it is not there yet: it will end as soon as it is

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)


def main() -> None:
    """Fork workers until the parent goes."""
    import tensorboard.compat.proto.event_pb2
    import tensorboard.compat.proto.summary_pb2
    import tensorboard.summary.writer.record_writer  # noqa: F401
    import torch._dynamo  # noqa: F401  which torch's optimizers import when the first of them is made

    import hrnn.launching.worker
    import hrnn.training.loop  # noqa: F401

    control = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:  # a worker has ended
                process, tells = key.data
                selector.unregister(key.fd)
                os.close(key.fd)
                _, status = os.waitpid(process, 0)
                with suppress(BrokenPipeError):
                    os.write(tells, b"%d" % os.waitstatus_to_exitcode(status))
                os.close(tells)
                continue
            message, files, _, _ = socket.recv_fds(control, MESSAGE, 3)
            if not message:
                return
            log, alive, tells = files
            process = os.fork()
            if process == 0:
                for other in [one for one in selector.get_map().values() if one.data is not None]:
                    os.close(other.fd)
                    os.close(other.data[1])
                selector.close()
                control.close()
                os.close(tells)
                _work(log, alive, *json.loads(message))
            os.write(tells, b"%d " % process)
            os.close(log)
            os.close(alive)
            selector.register(os.pidfd_open(process), selectors.EVENT_READ, (process, tells))


def _work(log: int, alive: int, place: str, *own: str) -> None:
    """Be the worker, in the process that was forked; does not return."""
    import hrnn.launching.worker as worker

    code = 1
    try:
        os.setpgid(0, 0)
        for here, there in ((alive, 0), (log, 1), (log, 2)):
            os.dup2(here, there)
        os.close(alive)
        os.close(log)
        threading.Thread(target=worker.watch_parent, daemon=True).start()
        code = worker.main(Path(place), *own)
    except BaseException:  # as the interpreter would: it has to end here, whatever it was
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
