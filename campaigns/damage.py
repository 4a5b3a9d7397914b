"""Damaged files: bits flipped, files cut short, swapped between runs, JSON edited, in runs, models and States; then every
command that reads them.

A damaged run is refused in a sentence, or it ends like the undisturbed one, to the last bit. What is only a record (a line of
the journal, a picture's events, a result) may differ where it was damaged itself.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaigns.defects import Limit, Summary, draw
from campaigns.forked import Ended, call
from campaigns.judge import complaint, general
from campaigns.kills import References
from campaigns.layer import Layer, Operation, die
from campaigns.small import End

NAMES = ("copy", "text", "text unlocked", "needle")
EVERY_MODEL = 6  # how often it is a model's or a State's file instead of a run
PATIENCE = 12.0  # seconds after which a call hangs, or nearly so: a run takes one
VALUES = (
    *(None, True, 0, -1, 1.5, 2**70, 10**400, "5", "", "x" * 3000, [], {}, [1], {"a": 1}),
    *("nosuch:Thing", "os:system", "../x"),
)
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "resume": lambda run: ["resume", run],
    "evaluate": lambda run: ["evaluate", run, "--length", "2"] if "copy" in run else ["evaluate", run],
    "sample": lambda run: ["sample", run, "--length", "3"],
    "runs": lambda run: ["runs", "."],
    "plot": lambda run: ["plot", run],
}


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    summary, originals = Summary("damage"), Originals(scratch)
    for number in limit.numbers():
        chance = draw(seed, "damage", number)
        folder = scratch / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        problem, what = (model_case if number % EVERY_MODEL == EVERY_MODEL - 1 else run_case)(
            chance, folder, originals, summary
        )
        summary.found(problem, f"python -m campaigns --only damage --seed {seed} --case {number} ({what})")
    return summary


class Originals:
    """Runs that are finished, and the same runs cut short, and a model and a State, to be copied and damaged."""

    def __init__(self, scratch: Path):
        self.references = References(scratch)
        self.folder = scratch / "whole"
        self.folder.mkdir()
        self.model, self.state = self.folder / "model.safetensors", self.folder / "state.safetensors"
        import hrnn

        model = hrnn.HRNN(hrnn.Tokens(3), hidden_sizes=[4, 5], periods=[3])
        model.save(self.model)
        model.initial_state(2).save(self.state)

    def whole(self, name: str, ending: str) -> Path:
        """A run that is "done", or "cut" short, made when first asked for."""
        run = self.folder / f"{slug(name)}-{ending}"
        if not run.exists():
            reference = self.references.of(name)
            if ending == "done":
                shutil.copytree(self.references.folder / f"{slug(name)}-1", run)
            else:
                layer = Layer(run, in_mid_course)
                call([*reference.arguments, "--run", str(run)], self.folder, before=layer.install)
        return run


def in_mid_course(operation: Operation, number: int, moment: str) -> None:
    if operation == ("unlink", "checkpoint") and number > 2:
        die()


def slug(name: str) -> str:
    return name.replace(" ", "-")


def run_case(chance: random.Random, folder: Path, originals: Originals, summary: Summary) -> tuple[str | None, str]:
    """Damage a run and use it."""
    name, ending = chance.choice(NAMES), chance.choice(("cut", "cut", "done"))
    run = folder / f"{slug(name)}-{ending}"
    shutil.copytree(originals.whole(name, ending), run)
    done: list[str] = []
    damaged: set[str] = set()
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        path = chance.choice(sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock"))
        done.append(damage(chance, path, run, originals))
        damaged.add(path.name)
    for command in chance.sample(list(COMMANDS), 2):
        arguments = COMMANDS[command](run.name)
        before = snapshot(run) if command != "resume" else None
        had_result = (run / "result.json").exists()
        ended = call(arguments, folder, patience=PATIENCE)
        summary.calls += 1
        summary.counts[f"{command} exit code {ended.code}"] += 1
        what = f"{name}, {ending}: {', '.join(done)}; {' '.join(arguments)}"
        problem = complaint(ended)
        if not problem and before is not None and snapshot(run) != before:
            problem = "reading a damaged run changed it"
        # A finished run is not trained again: its result is repeated.
        if not problem and command == "resume" and not ended.code and not (ending == "done" and had_result):
            problem = compared(run, originals.references.of(name).end, damaged, summary)
        if problem:
            return f"{command}: {problem}", what
    return None, "; ".join(done)


def snapshot(run: Path) -> dict[str, int]:
    return {str(path.relative_to(run)): path.stat().st_size for path in run.rglob("*") if path.is_file()}


def compared(run: Path, expected: End, damaged: set[str], summary: Summary) -> str | None:
    """A damaged run that was accepted: does it end like the undisturbed one?"""
    summary.counts["accepted"] += 1
    records = {"journal": "journal.jsonl", "events": "events.out.tfevents.hrnn", "result": "result.json"}
    spoiled = [name for name, file in records.items() if file in damaged]
    try:
        different = [one for one in End.of(run, spoiled).differences(expected) if one not in spoiled]
    except Exception as error:
        return f"an accepted run cannot be read: {type(error).__name__}: {general(str(error))[:100]}"
    if different:
        return f"a damaged run was accepted and ends differently: {', '.join(different)} ({', '.join(sorted(damaged))})"
    summary.counts["identical ends"] += 1
    return None


def damage(chance: random.Random, path: Path, run: Path, originals: Originals) -> str:
    """Spoil a file; says how."""
    if chance.random() < 0.15:
        other = originals.whole(chance.choice(NAMES), chance.choice(("cut", "done")))
        same = other / path.relative_to(run)
        if same.is_file():
            shutil.copyfile(same, path)
            return f"{path.name} of {other.name}"
    kinds: list[Callable[[random.Random, Path], str]] = [flip, cut, remove, empty, extend]
    if path.suffix in (".json", ".jsonl"):
        kinds += [edit_json] * 5
    if path.suffix == ".safetensors":
        kinds += [edit_header] * 4
    return f"{path.name} {chance.choice(kinds)(chance, path)}"


def flip(chance: random.Random, path: Path) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 3, 50)) if content else 0):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return "with bits flipped"


def cut(chance: random.Random, path: Path) -> str:
    size = chance.randint(0, path.stat().st_size)
    os.truncate(path, size)
    return f"cut to {size} bytes"


def remove(chance: random.Random, path: Path) -> str:
    path.unlink()
    return "removed"


def empty(chance: random.Random, path: Path) -> str:
    path.unlink()
    kind = chance.choice(("pipe", "folder", "loop", "nothing"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        path.touch()
    return f"replaced by a {kind}"


def extend(chance: random.Random, path: Path) -> str:
    with open(path, "ab") as file:
        file.write(chance.choice((b"\0" * 100, b"{", b"null\n", b"[]\n", b"\xff\xfe", b"5\n")))
    return "with more at its end"


def edit_json(chance: random.Random, path: Path) -> str:
    """Another value, type or key somewhere, in the whole file or in one of its lines."""
    try:
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        place = chance.randrange(len(lines))
        found = json.loads(lines[place])
        told = edited(chance, found)
        lines[place] = json.dumps(found)
    except (ValueError, IndexError, OSError):  # damaged already
        return "left as it is"
    path.write_text("\n".join(lines) + "\n")
    return told


def edited(chance: random.Random, entries: Any) -> str:
    """Change one entry, anywhere in it; says which and how."""
    places = list(all_places(entries))
    if not places:
        return "left as it is"
    holder, key = chance.choice(places)
    how = chance.choice(("value", "value", "value", "remove", "nudge"))
    if how == "remove":
        del holder[key]
        return f"without {key!r}"
    old = holder[key]
    if how == "nudge" and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = chance.choice((old + 1, old * 2, -old, float(old)))
    else:
        holder[key] = chance.choice(VALUES)
    return f"with {key!r} = {str(holder[key])[:30]!r}"


def all_places(entries: Any) -> Any:
    pairs = entries.items() if isinstance(entries, dict) else enumerate(entries) if isinstance(entries, list) else ()
    for key, value in pairs:
        yield entries, key
        yield from all_places(value)


def edit_header(chance: random.Random, path: Path) -> str:
    """The header of a safetensors file: another dtype, shape, place, name, or another of the facts in it."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except ValueError:  # damaged already
        return "left as it is"
    facts = header.get("__metadata__", {})
    inner = next((name for name in ("facts", "hrnn") if name in facts), None)
    if inner and chance.random() < 0.5:
        entries = json.loads(facts[inner])
        told = edited(chance, entries)
        facts[inner] = json.dumps(entries)
    else:
        told = edited(chance, header)
    text = json.dumps(header).encode()
    length = len(text) if chance.random() < 0.95 else chance.choice((0, 2**40, 2**63, 2**64 - 1))
    path.write_bytes(length.to_bytes(8, "little") + text + content[8 + size :])
    return f"header {told}"


def model_case(chance: random.Random, folder: Path, originals: Originals, summary: Summary) -> tuple[str | None, str]:
    """A damaged model or State is refused with a ValueError, a TypeError or an OSError, or loads."""
    whole = chance.choice((originals.model, originals.state))
    path = folder / whole.name
    shutil.copyfile(whole, path)
    told = damage(chance, path, folder, originals)
    ended = call([], folder, before=lambda: load(path, whole == originals.model), patience=PATIENCE)
    summary.calls += 1
    summary.counts[f"load exit code {ended.code}"] += 1
    problem = complaint(Ended(ended.code, ended.out, ended.err.replace("refused: ", "hrnn: "), ended.stopped))
    return (f"load: {problem}" if problem else None), told


def load(path: Path, model: bool) -> None:
    """In the child: read the file as a user would."""
    import hrnn

    try:
        (hrnn.HRNN.load if model else hrnn.State.load)(path)
    except (ValueError, TypeError, OSError) as error:
        os.write(2, f"refused: {error}\n".encode())
        os._exit(2)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)
