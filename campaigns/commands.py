"""Calls of the command line, right ones and mutated ones: every one must end in order, whatever it was given.

In order: exit code 0, 1, 2, 130 or 143, no traceback, no death, no hang; a mistake of the user's is one sentence, or the usage,
and a refused `hrnn train` leaves nothing behind. Most calls are forks of one warm process; every 30th or so is a real process,
some of these with a signal while they start or work.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, call, limits
from campaigns.grammar import NETWORK, TEXTS, Option, all_options
from campaigns.judge import complaint, shown
from campaigns.layer import Layer, die
from campaigns.small import commands as small_commands

EVERY_PROCESS, EVERY_SIGNAL = 30, 3  # a real process; of these, one that gets a signal
PATIENCE = 4.0  # seconds after which a call is asked to stop; what it was asked to do may take long
WEIGHTS = {"train": 30, "resume": 14, "evaluate": 12, "sample": 12, "runs": 12, "memory": 12, "plot": 4, "sweep": 6}
WEIGHTS |= {"reproduce": 6, "demo": 2}
Words = list[list[str]]  # a call in groups: an option and its values


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
            shortest = words if as_process else shrunk(words, problem, zoo, output)
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


class Zoo:
    """Runs, data and hostile paths that calls can name, all below one folder, and a fresh folder for each call."""

    def __init__(self, scratch: Path):
        self.folder = scratch / "zoo"
        self.case = scratch / "case" / "deep" / "inside"
        self.folder.mkdir()
        self.tasks = small_commands(self.folder)
        self.runs = self._runs()
        self.paths = self._paths()

    def base(self, chance: random.Random, command: str) -> Words:
        """A call that is right, in groups; the last keeps it short, and may be empty."""
        several = "several" if chance.random() < 0.05 else "/dev/null/x"  # many runs take seconds: mostly nowhere to put them
        if command in ("train", "sweep"):
            name = chance.choice(list(self.tasks))
            task, *rest = self.tasks[name]
            groups = grouped(rest)
            short = chance.choice((["--minutes", "0.001"], ["--updates", "1"])) if command == "train" else ["--updates", "1"]
            groups = [group for group in groups if group[0] != short[0]]
            place = (
                [["--run", "new"]] if command == "train" else [["--over", "seed=0,1"], ["--folder", "sweep"], ["--jobs", "1"]]
            )
            return [[command, task], *groups, *place, short]
        folder = str(chance.choice(self.runs))
        bases: dict[str, Words] = {
            "resume": [["resume"], [folder], chance.choice((["--minutes", "0.001"], ["--updates", "2"]))],
            "evaluate": [["evaluate"], [folder], []],
            "sample": [["sample"], [folder], ["--length", "5"], []],
            "runs": [["runs"], [chance.choice((folder, "."))], []],
            "plot": [["plot"], [folder], ["--output", "picture.png"], []],
            "memory": [["memory"], ["--hidden-sizes", "4", "4"], ["--periods", "3"], ["--window", "20"], ["--batch", "2"], []],
            "reproduce": [
                ["reproduce"],
                ["copy"],
                ["--seeds", "0"],
                ["--jobs", "1"],
                ["--scale", "1e-6", "--folder", several],
            ],
            "demo": [["demo"], ["--updates", "1", "--folder", several]],
        }
        return bases[command]

    def fresh(self, arguments: list[str], work: Callable[[list[str], Path], Ended]) -> tuple[Ended, list[str]]:
        """Make the call in a new folder with copies of the runs that it names; returns what was left there besides."""
        shutil.rmtree(self.case.parents[1], ignore_errors=True)
        self.case.mkdir(parents=True)
        for name in set(self.runs) & set(arguments):
            shutil.copytree(self.folder / name, self.case / name, symlinks=True)
        before = set(os.listdir(self.case))
        ended = work(arguments, self.case)
        return ended, sorted(set(os.listdir(self.case)) - before)

    def _runs(self) -> list[str]:
        """Names of runs: finished, cut short, damaged, foreign, and folders that are none."""
        for name, arguments in (("done", self.tasks["text"]), ("bits", self.tasks["copy"])):
            quick = [*arguments, "--no-tensorboard"]
            ended = call(["train", *quick, "--run", name], self.folder)
            if ended.code:
                raise RuntimeError(f"an undisturbed run failed:\n{ended.said}")
        layer = Layer(
            self.folder / "cut", lambda operation, number, _: die() if operation[1] == "checkpoint" and number > 3 else None
        )
        call(["train", *self.tasks["text"], "--no-tensorboard", "--run", "cut"], self.folder, before=layer.install)
        for name in ("damaged", "foreign"):
            shutil.copytree(self.folder / "done", self.folder / name)
        for path in (self.folder / "damaged/checkpoints").iterdir():
            path.write_bytes(path.read_bytes()[:1000])
        config = self.folder / "foreign" / "config.json"
        config.write_text(config.read_text().replace('"lstm"', '"nosuch:Cell"'))
        (self.folder / "empty").mkdir()
        return ["done", "bits", "cut", "damaged", "foreign", "empty"]

    def _paths(self) -> list[str]:
        """Paths that make trouble; none of them leads to a file of the machine that could be spoiled."""
        there = self.folder
        os.mkfifo(there / "pipe")
        (there / "loop").symlink_to("loop")
        (there / "dangling").symlink_to("nowhere")
        (there / "file").write_text("nothing in particular\n")
        (there / "binary").write_bytes(bytes(range(256)) * 4)
        (there / "packed").write_bytes(b"\x1f\x8b\x08\x00 no gzip")
        (there / "empty-file").touch()
        (there / "pictures").mkdir()
        for name in os.listdir(there / "mnist"):
            (there / "pictures" / name).write_bytes((there / "mnist" / name).read_bytes()[:200])
        mine = [
            "pipe",
            "loop",
            "dangling",
            "file",
            "binary",
            "packed",
            "empty-file",
            "pictures",
            "mnist",
            "text.txt",
            "text.txt/x",
        ]
        system = [
            "/dev/full",
            "/dev/null",
            "/dev/zero",
            "/dev/full/x",
            "/proc/self/mem",
            "/proc/self/x",
            "",
            ".",
            "..",
            "new",
            "done",
        ]
        return [
            *(str(there / name) for name in mine),
            *system,
            "n" * 300,
            "new\nline",
            "new/ü/🦊",
            "new\udcff",
            "~nobody/x",
            "-x",
        ]


def grouped(words: list[str]) -> Words:
    """Arguments as groups: each option with what follows it."""
    groups: Words = []
    for word in words:
        if word.startswith("--") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups


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
