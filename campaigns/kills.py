"""SIGKILL at any moment, then resume to the end: every run must end as if nothing had happened, to the last bit.

A life of a run is a forked child. It dies after a random delay, or of itself at the n-th operation of a kind on its files
(before, after, or with half of it done): inside a checkpoint's write, between rename and sync, among old checkpoints that are
being removed, in the test, around result.json. Some lives are two processes, some are real processes, some are torchrun's.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, begin, call, finish
from campaigns.judge import complaint, shown
from campaigns.layer import PHASES, Act, Layer, Operation, die
from campaigns.small import End, commands, partial_files
from tests.torchrun import ROOT, command, environment

MOST = 4  # kills of a run
EVERY_PAIR, EVERY_PROCESS, EVERY_TORCHRUN = 12, 25, 60  # how often a case is of these kinds
ENOUGH = 300  # kills among which every phase of a run must be
PAIRED = ("copy", "text", "text unlocked", "needle")


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its arguments, its end, how long it took, and how often it did what to its files."""

    arguments: list[str]
    end: End
    seconds: float
    counts: Counter[Operation]


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    summary, references = Summary("kills"), References(scratch)
    for number in limit.numbers():
        chance = draw(seed, "kills", number)
        folder = scratch / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        kind = kind_of(number)
        names = PAIRED if kind in ("pair", "torchrun") else list(references.arguments)
        name = names[number % len(names)] if kind == "forks" else chance.choice(names)
        reference = references.of(name, 2 if kind in ("pair", "torchrun") else 1)
        lives = KINDS[kind]
        told = f"python -m campaigns --only kills --seed {seed} --case {number} ({name}, {kind})"
        problem = case(chance, folder / "run", reference, lives, summary)
        summary.found(problem, told)
    if summary.counts["kills"] >= ENOUGH:
        for phase in PHASES:
            if not summary.counts[f"killed {phase}"]:
                summary.add(f"no kill landed in the phase: {phase}", f"python -m campaigns --only kills --seed {seed}")
    return summary


def kind_of(number: int) -> str:
    for kind, every in (("torchrun", EVERY_TORCHRUN), ("process", EVERY_PROCESS), ("pair", EVERY_PAIR)):
        if number % every == every - 1:
            return kind
    return "forks"


class References:
    """Undisturbed runs, made when first asked for."""

    def __init__(self, scratch: Path):
        self.folder = scratch / "references"
        self.folder.mkdir()
        self.arguments = commands(self.folder)
        self._known: dict[tuple[str, int], Reference] = {}

    def of(self, name: str, processes: int = 1) -> Reference:
        if (name, processes) not in self._known:
            run = self.folder / f"{name.replace(' ', '-')}-{processes}"
            arguments = ["train", *self.arguments[name]]
            layer = Layer(run)
            began = time.monotonic()
            if processes == 1:
                ended = call([*arguments, "--run", str(run)], self.folder, before=lambda: watch_all(layer))
            else:
                ended = pair([*arguments, "--run", str(run)], self.folder)
            seconds = time.monotonic() - began
            if ended.code:
                raise RuntimeError(f"an undisturbed run failed: {shown(arguments)}\n{ended.said}")
            end = End.of(run)
            if name == "copy" and {record.get("outcome") for record in end.journal} != {None, "solved", "expired"}:
                raise RuntimeError("the copy run should solve a length, and go back from one that it does not solve")
            self._known[name, processes] = Reference(arguments, end, seconds, layer.seen())
        return self._known[name, processes]


def watch_all(layer: Layer) -> None:
    """Count every operation, and say so at each: whoever is killed cannot do it at the end."""
    layer.act = lambda operation, number, moment: layer.report()
    layer.install()


Life = Callable[[random.Random, list[str], Path, Reference], "tuple[Ended, str]"]


def case(chance: random.Random, run: Path, reference: Reference, life: Life, summary: Summary) -> str | None:
    """Kill a run several times and resume it to its end; what is wrong with it then, if anything."""
    ended = None
    for _ in range(chance.randint(1, MOST)):
        ended, phase = life(chance, next_call(run, reference), run, reference)
        summary.calls += 1
        if ended.code == -signal.SIGKILL:
            summary.counts["kills"] += 1
            summary.counts[f"killed {phase}"] += 1
            continue
        if problem := complaint(ended):
            return f"{problem} after a kill"
        if not ended.code:
            break
    if ended is None or ended.code:
        for _ in range(3):  # of two processes one may be told of the other's end too late for the first try
            ended = last_life(life, next_call(run, reference), run)
            summary.calls += 1
            if ended.code != 1:
                break
    if problem := complaint(ended):
        return f"{problem} when resumed after a kill"
    if ended.code:
        return f"a killed run cannot be resumed: {ended.err.strip()[:200]}"
    if different := End.of(run).differences(reference.end):
        return f"a killed run ends differently: {', '.join(different)}"
    if left := partial_files(run):
        return f"a partial file is left behind: {left[0]}"
    summary.counts["identical ends"] += 1
    return None


def next_call(run: Path, reference: Reference) -> list[str]:
    return ["resume", str(run)] if (run / "config.json").exists() else [*reference.arguments, "--run", str(run)]


def last_life(life: Life, arguments: list[str], run: Path) -> Ended:
    """Nobody kills it."""
    return pair(arguments, run.parent) if life in (two_forks, torchrun) else call(arguments, run.parent)


# Lives: each begins the run's next process, or processes, and kills it; returns how it ended and the phase that it was in.


def fork(chance: random.Random, arguments: list[str], run: Path, reference: Reference) -> tuple[Ended, str]:
    """A child that dies after a delay, or at an operation of its own."""
    layer = Layer(run)
    if arguments[0] == "resume":
        layer.enter("resuming")
    if chance.random() < 0.6:
        layer.act = at_an_operation(chance, reference)
        return call(arguments, run.parent, before=layer.install), layer.phase
    delay = chance.uniform(0, 1.1) * reference.seconds
    return call(arguments, run.parent, before=layer.install, kill_after=delay), layer.phase


def at_an_operation(chance: random.Random, reference: Reference) -> Act:
    """Die at the n-th operation of a kind: before it, after it, or with half of what was to be written."""
    wanted = chance.choice([operation for operation in reference.counts if operation[0] != "read"])
    # Few of a resumed life's operations are as many as the whole run's; half of the draws are among the first.
    number = chance.randint(1, min(chance.choice((3, 10**9)), reference.counts[wanted]))
    moment = chance.choice(("before", "after", "half") if wanted[0] == "write" else ("before", "after"))

    def act(operation: Operation, count: int, now: str) -> int | None:
        if operation != wanted or count < number:
            return None
        if moment == "half" and now == "before" and count == number:
            return 100
        if now == ("before" if moment == "before" else "after"):
            die()
        return None

    return act


def two_forks(chance: random.Random, arguments: list[str], run: Path, reference: Reference) -> tuple[Ended, str]:
    """Two children that train together; one of them dies, or both."""
    delay, victims = chance.uniform(0, 1.1) * reference.seconds, chance.choice(((0,), (1,), (0, 1)))
    return pair(arguments, run.parent, delay, victims), "as one of two"


def pair(arguments: list[str], folder: Path, delay: float | None = None, victims: tuple[int, ...] = ()) -> Ended:
    """Two children as torchrun would start them; ends as the first, or, if any was killed, as that one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    children = []
    for rank in ("0", "1"):
        variables = {**shared, "RANK": rank, "LOCAL_RANK": rank}
        children.append(begin([*arguments, "--timeout", "20"], folder, environment=variables))
    if delay is not None:
        time.sleep(delay)
        for victim in victims:
            os.kill(children[victim][0], signal.SIGKILL)
    ends = [finish(child) for child in children]
    killed = [end for end in ends if end.code == -signal.SIGKILL]
    troubled = [end for end in ends if end not in killed and complaint(silent(end))]
    return (troubled or killed or ends)[0]


def silent(end: Ended) -> Ended:
    """The second process leaves it to the first to say what is wrong."""
    return Ended(end.code, end.out, end.err or "hrnn: ", end.stopped, end.seconds)


def process(chance: random.Random, arguments: list[str], run: Path, reference: Reference) -> tuple[Ended, str]:
    """A real process, killed anywhere from its start on: imports take most of its time."""
    return real([sys.executable, "-m", "hrnn", *arguments], chance.uniform(0, 7), run), "as a real process"


def torchrun(chance: random.Random, arguments: list[str], run: Path, reference: Reference) -> tuple[Ended, str]:
    """torchrun with two processes, all of them killed at once: a machine that loses power."""
    return real(command("-m", "--", "hrnn", *arguments), chance.uniform(3, 15), run), "under torchrun"


def real(arguments: list[str], delay: float, run: Path) -> Ended:
    variables = environment(PYTHONPATH=os.pathsep.join([*sys.path, str(ROOT)]))
    with subprocess.Popen(
        arguments, cwd=run.parent, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as child:
        with suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        for pid in (child.pid, *workers(child.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out, err = child.communicate()
    return Ended(child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def workers(pid: int) -> list[int]:
    """The processes that a process has started; torchrun's are in sessions of their own."""
    try:
        return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


KINDS: dict[str, Life] = {"forks": fork, "pair": two_forks, "process": process, "torchrun": torchrun}
