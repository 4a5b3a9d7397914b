"""Faults of the disk: a call fails as the system would let it fail, then the fault is gone and the run must come to its end.

Most are injected by a layer in a forked child (any call on the run's files, once or from then on). As root there are real ones,
too: a file system of a few hundred kilobytes that fills up, and one that is mounted read-only.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, call
from campaigns.judge import complaint, general
from campaigns.kills import Reference, References, at_an_operation, next_call
from campaigns.layer import Act, Layer, Operation
from campaigns.small import End, partial_files

ERRORS = {
    "open": ("EACCES", "ENOSPC", "EROFS", "EDQUOT", "EIO", "EMFILE"),
    "read": ("EIO", "EACCES", "ESTALE"),
    "write": ("ENOSPC", "EDQUOT", "EIO", "EFBIG", "short"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT"),
    "replace": ("EIO", "ENOSPC", "EACCES", "EROFS"),
    "rename": ("EIO", "ENOSPC", "EACCES", "EROFS"),
    "unlink": ("EACCES", "EIO", "EROFS"),
    "mkdir": ("ENOSPC", "EACCES", "EROFS", "EDQUOT"),
    "truncate": ("EIO", "ENOSPC"),
}
EVERY_REAL, EVERY_KILLED = 10, 3  # how often a fault is a real one; how often a kill came before the fault
SIZES = (100, 160, 240)  # kilobytes of a small file system
Fault = Callable[[random.Random, Path, Reference, Summary], tuple[Ended, str]]


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    summary, references = Summary("disk"), References(scratch)
    for number in limit.numbers():
        chance = draw(seed, "disk", number)
        folder = scratch / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        name = chance.choice(list(references.arguments))
        reference = references.of(name)
        fault = chance.choice((full, read_only, file_limit)) if number % EVERY_REAL == EVERY_REAL - 1 else injected
        if number % EVERY_KILLED == 0:  # so that the fault meets a run in mid-course
            layer = Layer(folder / "run", at_an_operation(chance, reference))
            call(next_call(folder / "run", reference), folder, before=layer.install)
            summary.calls += 1
        problem, what = case(chance, folder / "run", reference, fault, summary)
        summary.found(problem, f"python -m campaigns --only disk --seed {seed} --case {number} ({name}, {what})")
    return summary


def case(chance: random.Random, run: Path, reference: Reference, fault: Fault, summary: Summary) -> tuple[str | None, str]:
    """A fault, then none, until the run is done; what is wrong, if anything, and what the fault was."""
    ended, what = fault(chance, run, reference, summary)
    summary.calls += 1
    summary.counts[f"exit code {ended.code} at the fault"] += 1
    where = "a fault" + what.rpartition(" at ")[0].partition(" in")[2].removesuffix(" and ever after")
    if problem := complaint(ended):
        return f"{problem} at {where}", what
    if ended.code not in (0, 1, 2):
        return f"exit code {ended.code} at {where}", what
    ended = call(next_call(run, reference), run.parent)
    summary.calls += 1
    if problem := complaint(ended):
        return f"{problem} when resumed after {where}", what
    if ended.code:
        return f"a run cannot be resumed after {where}: {general(ended.err)[:160]}", what
    if different := End.of(run).differences(reference.end):
        return f"a run ends differently after {where}: {', '.join(different)}", what
    if left := partial_files(run):
        return f"a partial file is left behind after {where}: {left[0]}", what
    summary.counts["identical ends"] += 1
    return None, what


def injected(chance: random.Random, run: Path, reference: Reference, summary: Summary) -> tuple[Ended, str]:
    """The n-th call of a kind fails, or that and every such call after it."""
    operations = [operation for operation in reference.counts if operation[0] in ERRORS]
    wanted = chance.choice([*operations, ("read", "config.json"), ("read", "checkpoint"), ("unlink", "checkpoint")])
    error = chance.choice(ERRORS[wanted[0]])
    number = chance.randint(1, min(chance.choice((2, 10**9)), max(1, reference.counts[wanted])))
    once = chance.random() < 0.5
    act = failing(wanted, error, number, once)
    ended = call(next_call(run, reference), run.parent, before=Layer(run, act).install)
    summary.counts[f"{error} in {wanted[0]}"] += 1
    return ended, f"{error} in {' '.join(wanted)}{'' if once else ' and ever after'} at call {number}"


def failing(wanted: Operation, error: str, number: int, once: bool) -> Act:
    def act(operation: Operation, count: int, moment: str) -> int | None:
        if moment != "before" or operation != wanted or (count != number if once else count < number):
            return None
        if error == "short":
            return 7
        code = getattr(errno, error)
        raise OSError(code, os.strerror(code))

    return act


def file_limit(chance: random.Random, run: Path, reference: Reference, summary: Summary) -> tuple[Ended, str]:
    """The system lets no file grow beyond a size."""
    size = chance.randint(0, 20_000)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    summary.counts["real: file size limit"] += 1
    return call(next_call(run, reference), run.parent, before=limited), f"EFBIG in files beyond a limit at {size} bytes"


def full(chance: random.Random, run: Path, reference: Reference, summary: Summary) -> tuple[Ended, str]:
    """A small file system fills up, in the course of the run or before it."""
    kilobytes = chance.choice(SIZES)
    with mounted(run, f"size={kilobytes}k") as works:
        if not works:
            return skipped(summary, "full", run, reference)
        filler = run / "filler"
        free = shutil.disk_usage(run).free
        filler.write_bytes(bytes(chance.randint(0, free)))
        ended = call(next_call(run, reference), run.parent)
        filler.unlink()
    summary.counts["real: full file system"] += 1
    return ended, f"ENOSPC in a full file system at {kilobytes} kB"


def read_only(chance: random.Random, run: Path, reference: Reference, summary: Summary) -> tuple[Ended, str]:
    with mounted(run, "size=20m") as works:
        if not works or subprocess.run(["mount", "-o", "remount,ro", str(run)], capture_output=True).returncode:
            return skipped(summary, "read-only", run, reference)
        try:
            ended = call(next_call(run, reference), run.parent)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(run)], check=True)
    summary.counts["real: read-only file system"] += 1
    return ended, "EROFS in a read-only file system at its start"


@contextmanager
def mounted(run: Path, options: str) -> Iterator[bool]:
    """The run's folder as a file system of its own, with what is in it already; afterwards a plain folder again, with what the
    run has left there."""
    run.mkdir(exist_ok=True)
    aside = run.with_name("aside")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(run, aside)
    works = not subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(run)], capture_output=True).returncode
    if not works:
        yield False
        return
    try:
        try:
            shutil.copytree(aside, run, dirs_exist_ok=True)
        except OSError:  # what is there already does not fit: nothing to test
            yield False
            return
        shutil.rmtree(aside)
        yield True
        shutil.copytree(run, aside)
    finally:
        subprocess.run(["umount", str(run)], check=True)
    shutil.rmtree(run)
    aside.rename(run)


def skipped(summary: Summary, what: str, run: Path, reference: Reference) -> tuple[Ended, str]:
    """Where nothing may be mounted, the case is a plain run, and the count says so."""
    summary.counts[f"skipped: {what} file system"] += 1
    return Ended(0, "", ""), "nothing in nothing at all"
