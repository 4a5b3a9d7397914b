"""Calls of the command line, right ones and mutated ones: every one must end in order, whatever it was given.

In order: exit code 0, 1, 2, 130 or 143, no traceback, no death, no hang; a mistake of the user's is one sentence, or the usage,
and a refused `hrnn train` leaves nothing behind. Most calls are forks of one warm process; every 30th or so is a real process,
some of these with a signal while they start or work.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, call, limits
from campaigns.grammar import NETWORK, TEXTS, Option, Words, all_options
from campaigns.judge import complaint, shown
from campaigns.zoo import Zoo

EVERY_PROCESS, EVERY_SIGNAL = 32, 3  # a real process; of these, one that gets a signal
PATIENCE = 4.0  # seconds after which a call is asked to stop; what it was asked to do may take long
WEIGHTS = {"train": 30, "resume": 14, "evaluate": 12, "sample": 12, "runs": 12, "memory": 12, "plot": 4, "sweep": 4}
WEIGHTS |= {"reproduce": 6, "demo": 2}


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    summary, zoo, options = Summary("commands"), Zoo(scratch), all_options()
    for number in limit.numbers():
        chance = draw(seed, "commands", number)
        command = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        words = mutated(chance, zoo.base(chance, command), options, zoo)
        output = chance.choice(("/dev/full", "closed")) if chance.random() < 0.01 else None
        as_process = number % EVERY_PROCESS == EVERY_PROCESS - 1
        if as_process:
            sent = chance.choice((signal.SIGINT, signal.SIGTERM)) if number // EVERY_PROCESS % EVERY_SIGNAL == 0 else None
            work = partial(process, sent=sent, delay=chance.uniform(0, 6), output=output)
            summary.counts["real processes"] += 1
            summary.counts["real processes with a signal"] += sent is not None
        else:
            work = partial(call, patience=PATIENCE, output=output)
        ended, left = zoo.fresh(flat(words), work)
        summary.calls += 1
        summary.counts[f"exit code {ended.code}"] += 1
        summary.counts["asked to stop"] += bool(ended.stopped)
        problem = judged(words, ended, left)
        if problem and not summary.known(problem):
            shortest = shrunk(words, problem, zoo, output)  # one that only a real process shows stays as it is
            suffix = f" > {output}" if output else " (as a process)" if as_process else ""
            summary.add(problem, f"{shown(flat(shortest))}{suffix} (seed {seed}, case {number})")
    return summary


def flat(words: Words) -> list[str]:
    return [word for group in words for word in group]


def judged(words: Words, ended: Ended, left: list[str]) -> str | None:
    """What is wrong with a call, if anything, headed by its command."""
    command = words[0][0] if words and words[0] else ""
    problem = complaint(ended)
    if not problem and command == "train" and ended.code == 2 and not ended.stopped and left:
        problem = "a refused train leaves something behind"
    return f"{command}: {problem}" if problem else None


def shrunk(words: Words, problem: str, zoo: Zoo, output: str | None) -> Words:
    """Without whatever can be left out while the same is wrong."""
    place = len(words) - 1
    while place > 0:
        shorter = words[:place] + words[place + 1 :]
        ended, left = zoo.fresh(flat(shorter), partial(call, patience=PATIENCE, output=output))
        if judged(shorter, ended, left) == problem:
            words = shorter
        place -= 1
    return words


def mutated(chance: random.Random, words: Words, options: dict[str, list[Option]], zoo: Zoo) -> Words:
    """The call with up to three mistakes. What keeps it short (`guard`) stands last and stays."""
    *words, guard = words
    own = options.get(" ".join(words[0])) or options[words[0][0]]
    for _ in range(chance.choices((0, 1, 2, 3), (5, 60, 25, 10))[0]):
        kind = chance.choices(("hostile", "drop", "no value", "double", "foreign", "junk", "order"), (70, 5, 4, 5, 6, 6, 4))[0]
        words = [group for group in words if group]
        place = chance.randrange(len(words))
        free = [option for option in own if f"--{option.name}" not in guard]
        if kind == "hostile":
            option = chance.choice(free)
            given = [group for group in words[1:] if group[0] == f"--{option.name}"]
            words = [group for group in words if group not in given]
            if option.positional:
                words = [group for group in words if group == words[0] or group[0].startswith("--")]
            words.insert(len(words) if not option.positional else 1, option.hostile(chance, zoo.paths))
        elif kind == "drop" and place:
            del words[place]
        elif kind == "no value":
            words[place] = words[place][:1]
        elif kind == "double":
            words.append(words[place])
        elif kind == "foreign":
            other = chance.choice(
                [option for those in options.values() for option in those if option.name not in ("minutes", "updates")]
            )
            words.append(other.hostile(chance, zoo.paths))
        elif kind == "junk":
            words.insert(chance.randint(0, len(words)), [chance.choice((*TEXTS, *zoo.paths, "--no-such-option", "--help"))])
        elif kind == "order" and len(words) > 2:
            words[1:] = chance.sample(words[1:], len(words) - 1)
    words = [group for group in words if group]
    if any(word.startswith(("--download", "--mirror")) for word in flat(words)):
        words = [group for group in words if not group[0].startswith("--mirror")] + [["--mirror", NETWORK]]
    return [*words, guard] if guard else words


HANDSHAKE = "import os, sys; os.write(%d, b'.'); os.close(%d); from hrnn.cli import main; sys.exit(main())"


def process(arguments: list[str], folder: Path, sent: signal.Signals | None, delay: float, output: str | None) -> Ended:
    """The call as a process of its own, perhaps with a signal some time after its first line."""
    arguments = [os.fsdecode(os.fsencode(word.replace("\0", "")).replace(b"\0", b"")) for word in arguments]
    ready, tell = os.pipe()
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (
        open(output if output == "/dev/full" else folder.parent / "out", "w+b") as out,
        open(folder.parent / "err", "w+b") as err,
    ):
        child = subprocess.Popen(
            [sys.executable, "-c", HANDSHAKE % (tell, tell), *arguments],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=[tell],
            start_new_session=True,
            preexec_fn=limits,
        )
        os.close(tell)
        stopped = ""
        try:
            os.read(ready, 1)
            began = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                child.wait(delay if sent else 60)
            if child.poll() is None:
                child.send_signal(sent or signal.SIGINT)
                stopped = (sent or signal.SIGINT).name
            with suppress(subprocess.TimeoutExpired):
                child.wait(60)
            if child.poll() is None:
                stopped = "hang"
        finally:
            os.close(ready)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        texts = [] if output == "/dev/full" else [out]
        said = []
        for file in (*texts, err):
            file.seek(0)
            said.append(file.read(4 << 20).decode(errors="replace"))
    return Ended(child.returncode, said[0] if len(said) > 1 else "", said[-1], stopped, time.monotonic() - began)
