"""A layer between a process and its disk, for a forked child: it sees every operation on a folder's files, and may kill the
process or fail there.

An operation is a verb and a kind of file, such as ("replace", "checkpoint"). Python's own functions are replaced (open,
os.open, os.write, os.fsync, os.replace, ...), and files opened for writing get a raw layer whose writes pass through here, too.
"""

from __future__ import annotations

import builtins
import io
import mmap
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

Operation = tuple[str, str]  # verb, kind of file
# Called before and after an operation, with its number among those of its kind; may raise, kill, or say how much to write.
Act = Callable[[Operation, int, str], int | None]
PHASES = (
    "before the run exists",
    "before the first checkpoint",
    "resuming",
    "training",
    "writing a checkpoint",
    "checkpoint renamed, not synced",
    "removing old checkpoints",
    "test and result",
    "writing the result",
    "after the result",
)


def kind(path: Path) -> str:
    """Which of a run's files this is, whole or while it is written."""
    name = path.name
    if "update-" in name:
        return "checkpoint"
    for known in ("config.json", "result.json", "journal", "events", "lock"):
        if known in name:
            return known
    return "folder" if path.is_dir() else "other"


class Layer:
    """counts: how often each operation was seen. The phase of the run is in memory that the parent shares."""

    def __init__(self, root: Path, act: Act | None = None):
        self.root, self.act = os.path.realpath(root), act
        self.counts: Counter[Operation] = Counter()
        self._shared = mmap.mmap(-1, 1 << 16)
        self._real = {name: getattr(os, name) for name in PATCHED}
        self._open = builtins.open

    # In the parent, after the child is gone.

    @property
    def phase(self) -> str:
        return PHASES[self._shared[0]]

    @property
    def where(self) -> str:
        """The last operation that was begun."""
        return self._shared[2 : 2 + self._shared[1]].decode()

    def seen(self) -> Counter[Operation]:
        """What the child had counted when it said so with `report`."""
        text = self._shared[256:].rstrip(b"\0").decode()
        return Counter({(verb, what): int(n) for verb, what, n in (line.split("|") for line in text.splitlines())})

    # In the child.

    def report(self) -> None:
        text = "\n".join(f"{verb}|{what}|{n}" for (verb, what), n in self.counts.items()).encode()
        self._shared[256 : 256 + len(text)] = text

    def enter(self, phase: str) -> None:
        self._shared[0] = PHASES.index(phase)

    def install(self) -> None:
        """From now on every operation on files below the root passes through here."""
        for name in PATCHED:
            setattr(os, name, self._patched(name))
        builtins.open = io.open = self._opened  # type: ignore[assignment]
        self._follow_the_run()

    def _follow_the_run(self) -> None:
        from hrnn.training import loop

        resumed = any(Path(self.root).glob("checkpoints/*.safetensors"))
        for name, phase in (("updates", "training"), ("after_update", "training"), ("finish", "test and result")):
            inner = getattr(loop, name)

            def marked(*arguments: Any, inner: Any = inner, phase: str = phase, **options: Any) -> Any:
                early = phase == "training" and not (resumed or self.counts["replace", "checkpoint"])
                self.enter("before the first checkpoint" if early else phase)
                return inner(*arguments, **options)

            setattr(loop, name, marked)

    def pass_through(self, verb: str, path: str, work: Callable[[int | None], Any]) -> Any:
        """Do the work of an operation; `work` is told how many bytes to write at most."""
        operation = verb, kind(Path(path))
        self.counts[operation] += 1
        number = self.counts[operation]
        label = f"{verb} {operation[1]}".encode()[:200]
        self._shared[1] = len(label)
        self._shared[2 : 2 + len(label)] = label
        self._move(operation, "before")
        most = self.act(operation, number, "before") if self.act else None
        result = work(most)
        self._move(operation, "after")
        if self.act:
            self.act(operation, number, "after")
        return result

    def _move(self, operation: Operation, moment: str) -> None:
        """The phases that operations begin and end."""
        if operation in (("open", "checkpoint"), ("open", "result.json")) and moment == "before":
            self.enter("writing a checkpoint" if operation[1] == "checkpoint" else "writing the result")
        elif operation == ("replace", "checkpoint") and moment == "after":
            self.enter("checkpoint renamed, not synced")
        elif operation == ("fsync", "folder") and moment == "after" and self.phase.startswith("checkpoint renamed"):
            self.enter("training")
        elif operation == ("unlink", "checkpoint"):
            self.enter("removing old checkpoints")  # until the next update
        elif operation == ("replace", "result.json") and moment == "after":
            self.enter("after the result")
        elif operation == ("replace", "config.json") and moment == "after":
            self.enter("before the first checkpoint")

    def inside(self, path: Any, folder: int | None = None) -> str | None:
        """The whole path, if it is below the root."""
        if isinstance(path, int):
            whole = os.readlink(f"/proc/self/fd/{path}")
        else:
            start = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
            whole = os.path.normpath(os.path.join(start, os.fsdecode(path)))
        return whole if whole == self.root or whole.startswith(self.root + "/") else None

    def _patched(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def patched(path: Any, *arguments: Any, **options: Any) -> Any:
            try:
                target = arguments[0] if name in ("replace", "rename") else path
                whole = self.inside(target, options.get("dst_dir_fd", options.get("dir_fd")))
            except OSError:
                whole = None
            if whole is None:
                return real(path, *arguments, **options)
            verb = name
            if name == "open":
                verb = "open" if arguments and arguments[0] & (os.O_WRONLY | os.O_RDWR) else "read"

            def work(most: int | None) -> Any:
                if name == "write" and most is not None:
                    return real(path, arguments[0][:most])
                return real(path, *arguments, **options)

            return self.pass_through(verb, whole, work)

        return patched

    def _opened(self, file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **options: Any) -> Any:
        whole = None if isinstance(file, int) else self.inside(file)
        if whole is None:
            return self._open(file, mode, buffering, *arguments, **options)
        if not set(mode) & set("wax+"):
            return self.pass_through("read", whole, lambda _: self._open(file, mode, buffering, *arguments, **options))
        opener = options.pop("opener", None)
        raw = self.pass_through("open", whole, lambda _: Raw(self, whole, mode.replace("b", "").replace("t", ""), opener))
        size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
        if buffering == 0:
            return raw
        buffer = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, *arguments, **options)


class Raw(io.FileIO):
    """The lowest layer of a file: what reaches the system."""

    def __init__(self, layer: Layer, path: str, mode: str, opener: Any = None):
        super().__init__(path, mode, opener=opener)
        self._layer, self._path = layer, path

    def write(self, content: Any) -> int:
        def work(most: int | None) -> int:
            return io.FileIO.write(self, memoryview(content)[:most]) or 0

        return int(self._layer.pass_through("write", self._path, work))

    def truncate(self, size: int | None = None) -> int:
        return int(self._layer.pass_through("truncate", self._path, lambda _: io.FileIO.truncate(self, size)))


PATCHED = ("open", "write", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "truncate")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
