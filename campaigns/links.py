"""Links where hrnn writes: symbolic and hard ones, to files and folders of somebody else, dangling, in chains, in the place of
any file of a run, a cache, a sweep, a folder for the Hub, data and outputs, or of one that a command is about to write; also
after a command was killed in its middle.

A watcher compares a tree of documents by checksum after each call: whatever happens, nothing outside the project is changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, call
from campaigns.judge import complaint, shown
from campaigns.layer import Layer, Operation, die
from campaigns.small import commands
from tests.tiny import write_walks

PATIENCE = 30.0
KILLED = 0.3  # how often a command is killed in its middle before the links are put
TINY = ("--hidden-sizes", "4", "4", "--batch", "4", "--updates", "2", "--no-tensorboard")
HUB = "import hrnn; hrnn.hub.save_pretrained('runs/walks', 'hub')"
CALLS: dict[str, list[str]] = {
    "resume": ["resume", "runs/text", "--updates", "14"],
    "train --overwrite": ["train", "TEXT", "--overwrite", "--run", "runs/text"],
    "train": ["train", "TEXT", "--run", "runs/new"],
    "train series": [
        "train",
        "series",
        "walks.csv",
        "--id",
        "walk",
        "--target",
        "gait",
        *TINY,
        "--run",
        "runs/again",
        "--overwrite",
    ],
    "train folder": ["train", "series", "texts", "--periods", "3", *TINY, "--run", "runs/texts"],
    "evaluate": ["evaluate", "runs/walks"],
    "predict csv": ["predict", "runs/walks", "walks.csv", "-o", "out/answers.csv"],
    "predict parquet": ["predict", "runs/walks", "walks.csv", "-o", "out/answers.parquet"],
    "plot": ["plot", "runs/text", "-o", "out/curves.svg"],
    "report": ["report", "runs", "-o", "out/page.html"],
    "sweep": [
        *("sweep", "copy", "--window", "5", "--periods", "3", *TINY),
        *("--over", "seed=0", "--folder", "sweep", "--jobs", "1"),
    ],
    "export": ["export", "runs/text", "--format", "torch-export"],
    "hub": ["API", HUB],
    "model": [
        "API",
        "import hrnn; m = hrnn.HRNN(3, [4]); m.save('out/m.safetensors'); m.initial_state(1).save('out/s.safetensors')",
    ],
    "cache": [
        "API",
        "import hrnn.data as d; d.cache(d.find('walks.csv', id='walk', target='gait'), 'caches/walks', replace=True)",
    ],
}
NAMED = (
    "runs",
    "runs/cache",
    "runs/text",
    "runs/new",
    "runs/again",
    "runs/texts",
    "runs/walks",
    "out",
    "caches",
    "hub",
    "sweep",
)
Files = dict[str, str]


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    summary, scene = Summary("links"), Scene(scratch)
    for number in limit.numbers():
        chance = draw(seed, "links", number)
        problem, what = case(chance, scene, list(CALLS)[number % len(CALLS)], summary)
        summary.found(problem, f"python -m campaigns --only links --seed {seed} --case {number} ({what})")
    return summary


class Scene:
    """Folders with one of everything, somebody's documents beside them, and what each command writes there."""

    def __init__(self, scratch: Path):
        self.original, self.home, self.victims = scratch / "original", scratch / "case", scratch / "victims"
        self.original.mkdir()
        self.text = [str(one) for one in commands(self.original)["text"]]
        write_walks(self.original / "walks.csv")
        for name in ("out", "caches", "texts"):
            (self.original / name).mkdir()
        for name in "abcdefgh":
            (self.original / "texts" / f"{name}.txt").write_text(f"{name} quick brown fox jumps over the lazy dog\n" * 20)
        for name in ("train", "train series"):  # so that there is something to go on with
            target = {"runs/new": "runs/text", "runs/again": "runs/walks"}
            self.must([target.get(word, word) for word in self.arguments(name)], self.original)
        self.must(self.arguments("hub"), self.original)
        self.must(self.arguments("cache"), self.original)
        self.written: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}

    def arguments(self, name: str) -> list[str]:
        return [one for word in CALLS[name] for one in (self.text if word == "TEXT" else [word])]

    def must(self, arguments: list[str], folder: Path) -> None:
        if (ended := does(arguments, folder)).code:
            raise RuntimeError(f"an undisturbed call failed: {shown(arguments)}\n{ended.said}")

    def fresh(self) -> None:
        for folder in (self.home, self.victims):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.original, self.home, symlinks=True)
        (self.victims / "folder" / "below").mkdir(parents=True)
        ours = ("update-000000003.safetensors", "events.out.tfevents.hrnn", "cache.json", "values.npy", "config.json", "lock")
        for name in ("document", "folder/thesis.txt", "folder/below/thesis.txt", *(f"folder/{one}" for one in ours)):
            (self.victims / name).write_text(f"{name}, years of work\n")
            (self.victims / "folder" / f".{Path(name).name}.partial").write_text("mine\n")

    def places(self, name: str) -> list[str]:
        """Where links are put for a command: all that it writes or renames when nobody disturbs it, but for the folders that a
        user names, which may be links."""
        if name not in self.written:
            self.fresh()
            layer = Layer(self.home)
            before, told = files_of(self.home), self.home.parent / "seen.json"
            told.unlink(missing_ok=True)
            does(self.arguments(name), self.home, lambda: watch(layer, told))
            found = set(json.loads(told.read_text())) if told.exists() else set()
            changed = {path for path, content in files_of(self.home).items() if before.get(path) != content}
            whole = sorted(found | changed)
            whole = [path for path in whole if ".partial-" not in path]  # a name that is drawn
            partial = [str(Path(path).with_name(f".{Path(path).name}.partial")) for path in whole if "/." not in path]
            self.counts[name] = sum(layer.seen().values())
            self.written[name] = sorted({*whole, *partial} - set(NAMED))
        return self.written[name]


def watch(layer: Layer, told: Path) -> None:
    """In the child: write down the path of every operation but reading."""
    inner, seen = layer.pass_through, set[str]()

    def pass_through(verb: str, path: str, work: Callable[[int | None], Any]) -> Any:
        if verb != "read" and path != layer.root:
            seen.add(os.path.relpath(path, layer.root))
            told.write_text(json.dumps(sorted(seen)))
        return inner(verb, path, work)

    layer.pass_through = pass_through  # type: ignore[method-assign]
    layer.act = lambda operation, number, moment: layer.report()
    layer.install()


def does(arguments: list[str], folder: Path, before: Callable[[], object] | None = None) -> Ended:
    """A command, or a call of the library as a user would write it."""
    if arguments[0] != "API":
        return call(arguments, folder, before=before, patience=PATIENCE)

    def work() -> None:
        if before:
            before()
        try:
            exec(arguments[1], {})
        except (ValueError, TypeError) as error:
            os.write(2, f"hrnn: {error}\n".encode())
            os._exit(2)
        os._exit(0)

    return call([], folder, before=work, patience=PATIENCE)


def case(chance: random.Random, scene: Scene, name: str, summary: Summary) -> tuple[str | None, str]:
    """Links in some places, then the command, twice."""
    places = scene.places(name)
    scene.fresh()
    arguments, done = scene.arguments(name), list[str]()
    if chance.random() < KILLED:
        layer = Layer(scene.home, at(chance.randint(1, max(1, scene.counts[name]))))
        ended = does(arguments, scene.home, layer.install)
        summary.counts["kills"] += ended.code == -9
        done.append("killed")
    there = sorted({str(path.relative_to(scene.home)) for path in scene.home.rglob("*")} - set(NAMED))
    for _ in range(chance.choice((1, 1, 2, 3))):
        done.append(put(chance, scene, chance.choice(places if places and chance.random() < 0.8 else there)))
    before = files_of(scene.victims)
    again = ["resume", "runs/text"] if name.startswith("train -") or name == "resume" else arguments
    for words in (arguments, again):
        ended = does(words, scene.home)
        summary.calls += 1
        summary.counts[f"exit code {ended.code}"] += 1
        summary.counts["refused links"] += "is a symbolic link" in ended.err or "has another name" in ended.err
        what = f"{name}: {', '.join(done)}"
        after = files_of(scene.victims)
        if changed := sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)):
            return f"{name}: a document of somebody else was changed: {changed[0]}", what
        if problem := complaint(ended):
            return f"{name}: {problem}", what
    return None, what


def at(number: int) -> Any:
    """Die at the n-th operation of all."""
    count = 0

    def act(operation: Operation, of_its_kind: int, moment: str) -> None:
        nonlocal count
        count += moment == "before"
        if count >= number:
            die()

    return act


def put(chance: random.Random, scene: Scene, place: str) -> str:
    """A link in the place of a file or a folder, whatever was there; says which."""
    path = scene.home / place
    if not path.parent.is_dir() or path.parent.is_symlink():
        for parent in reversed(path.relative_to(scene.home).parents):  # folders that the command would make
            if not (scene.home / parent).is_dir():
                (scene.home / parent).unlink(missing_ok=True)
                (scene.home / parent).mkdir()
    kind = chance.choice(("file", "folder", "dangling", "relative", "chain", "moved", "hard"))
    target = scene.victims / {"folder": "folder", "dangling": f"nothing-{chance.randrange(9)}"}.get(kind, "document")
    there = os.path.lexists(path)
    if kind in ("moved", "hard") and not (there and (kind == "moved" or path.is_file())):
        kind = "file"
    if kind == "moved":  # only the link is wrong: what is behind it fits
        target = scene.victims / f"moved-{path.name}"
        if os.path.lexists(target):
            return f"nothing at {place}"
        shutil.move(path, target)
    elif kind == "hard":
        target = scene.victims / f"second-{path.name}"
        target.unlink(missing_ok=True)
        os.link(path, target, follow_symlinks=False)
        return f"hard link at {place}"
    elif there:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind == "chain":
        link = scene.home / f"link-{chance.randrange(10**6)}"
        link.symlink_to(target)
        target = link
    path.symlink_to(os.path.relpath(target, path.parent) if kind == "relative" else target)
    return f"{kind} link at {place}"


def files_of(folder: Path) -> Files:
    """All that is below a folder, links by where they lead, files by checksum and permission."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            kind = f"link to {os.readlink(path)}"
        elif path.is_dir():
            kind = f"folder {path.stat().st_mode:o}"
        else:
            kind = f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        found[str(path.relative_to(folder))] = kind
    return found
