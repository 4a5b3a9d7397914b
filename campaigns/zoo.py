"""What calls of the command line can name: runs in order and out of it, data, and paths that make trouble."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from campaigns.forked import Ended, call
from campaigns.grammar import Words
from campaigns.layer import Layer, die
from campaigns.small import commands


class Zoo:
    """Runs, data and hostile paths that calls can name, all below one folder, and a fresh folder for each call."""

    def __init__(self, scratch: Path):
        self.folder = scratch / "zoo"
        self.case = scratch / "case" / "deep" / "inside"
        self.folder.mkdir()
        self.tasks = commands(self.folder)
        self.runs = self._runs()
        self.paths = self._paths()

    def base(self, chance: random.Random, command: str) -> Words:
        """A call that is right, in groups; the last keeps it short, and may be empty."""
        several = "several" if chance.random() < 0.05 else "/dev/null/x"  # many runs take seconds: mostly nowhere to put them
        if command in ("train", "sweep"):
            name = chance.choice(list(self.tasks))
            task, *rest = self.tasks[name]
            groups = grouped(rest)
            if command == "train":
                place, short = [["--run", "new"]], chance.choice((["--minutes", "0.001"], ["--updates", "1"]))
            else:
                place, short = [["--over", "seed=0,1"], ["--jobs", "1"]], ["--updates", "1", "--folder", several]
            groups = [group for group in groups if group[0] != short[0]]
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
                ["--run"],
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
        mine = ["pipe", "loop", "dangling", "file", "binary", "packed", "empty-file", "pictures", "mnist", "text.txt"]
        system = ["/dev/full", "/dev/null", "/dev/zero", "/dev/full/x", "/proc/self/mem", "/proc/self/x", ".", ".."]
        odd = ["", "n" * 300, "new", "done", "new\nline", "new/ü/🦊", "new\udcff", "~nobody/x", "-x", str(there / "text.txt/x")]
        return [*(str(there / name) for name in mine), *system, *odd]


def grouped(words: list[str]) -> Words:
    """Arguments as groups: each option with what follows it."""
    groups: Words = []
    for word in words:
        if word.startswith("--") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups
