"""Hostile calls of the Python API: each succeeds with sane results, or fails with a ValueError or TypeError that names an
argument and leaves weights, gradients and states as they were. Calls run in forked children: a crash is caught."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch

from campaigns.calls import CALLABLE, CALLED, CALLS, JUNK, TENSORS
from campaigns.defects import Limit, Summary, draw
from campaigns.forked import ended, forked, limits, patient
from campaigns.scenes import NAMES, Scene

TOGETHER = 40  # calls in one child
PATIENCE = 60.0  # seconds without a word from it
LONGEST = 600  # characters of a message


class Drawn:
    """One call: which, on what scene, its arguments as expressions, and which of them are meant to be wrong."""

    def __init__(self, chance: random.Random):
        self.name = chance.choices(list(CALLS), [call.weight for call in CALLS.values()])[0]
        self.call = CALLS[self.name]
        self.kind = chance.choice(self.call.kinds)
        self.arguments: dict[str, str] = {}
        for name, good in self.call.arguments.items():
            if name in self.call.required or chance.random() < 0.3:
                self.arguments[name] = chance.choice(good).replace("{n}", str(chance.randrange(10**6)))
        self.wrong: dict[str, str] = {}
        least = 1 if self.call.only_wrong else 0
        for name in chance.sample(
            list(self.call.arguments), min(len(self.call.arguments), max(least, chance.choice([0, 1, 1, 1, 2])))
        ):
            self.wrong[name] = self._spoiled(name, chance)

    def _spoiled(self, name: str, chance: random.Random) -> str:
        good = chance.choice(self.call.arguments[name])
        own = self.call.wrong.get(name, [])
        if good.startswith("s.") and good.count(".") == 1 and chance.random() < 0.5:
            return chance.choice(TENSORS).replace("{v}", good)
        junk = (
            [text for text in JUNK if text not in CALLABLE] if name in CALLED else JUNK
        )  # what a user's function raises is theirs
        return chance.choice(own) if own and chance.random() < 0.5 else chance.choice(junk)

    def line(self, wrong: dict[str, str] | None = None, leave_out: frozenset[str] = frozenset()) -> str:
        arguments = {**self.arguments, **(self.wrong if wrong is None else wrong)}
        given = ", ".join(f"{name}={text}" for name, text in arguments.items() if name not in leave_out)
        return f"{self.call.function}({given})"


def run(seed: int, limit: Limit, scratch: Path) -> Summary:
    """Work through the numbers of the limit."""
    summary, batch = Summary("api"), []
    for number in limit.numbers():
        batch.append(number)
        if len(batch) == TOGETHER:
            in_a_child(seed, batch, scratch, summary)
            batch = []
    if batch:
        in_a_child(seed, batch, scratch, summary)
    return summary


def in_a_child(seed: int, numbers: list[int], scratch: Path, summary: Summary) -> None:
    """Some calls in a fork. Where it dies, the call that it was at is the defect, and the others go on in another."""
    while numbers:
        report = os.memfd_create("report")
        pid = forked(partial(make_calls, seed, numbers, scratch, report))
        hung = not wait(pid, report)
        if hung:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        lines = os.pread(report, os.fstat(report).st_size, 0).decode().splitlines()
        os.close(report)
        began = [json.loads(line)["number"] for line in lines if line.startswith('{"number"')]
        for line in lines:
            outcome = json.loads(line)
            if "ended" in outcome:
                count(summary, outcome)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and len(began) == len(numbers):
            return
        at = began[-1] if began else numbers[0]
        drawn = Drawn(draw(seed, "api", at))
        what = f"{drawn.name}: {'hangs' if hung else f'the process ends with {code}'}"
        summary.calls += 1
        summary.found(what, f"{drawn.line()} with s = Scene({drawn.kind!r}), case {at}")
        numbers = [number for number in numbers if number > at]


def wait(pid: int, report: int) -> bool:
    """Until the child ends; false if it has not said anything for too long."""
    watch, size = os.pidfd_open(pid), -1
    try:
        while not ended(watch, patient(PATIENCE)):
            now = os.fstat(report).st_size
            if now == size:
                return False
            size = now
        return True
    finally:
        os.close(watch)


def count(summary: Summary, outcome: dict[str, Any]) -> None:
    summary.calls += 1
    summary.counts[outcome["ended"]] += 1
    summary.found(outcome.get("what"), outcome.get("line", ""))


def make_calls(seed: int, numbers: list[int], scratch: Path, report: int) -> int:
    """In the child: make the calls and say of each how it ended."""
    limits()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    scratch = scratch.absolute()
    os.chdir(scratch)  # where a call may write to whatever name was drawn
    for number in numbers:
        os.write(report, (json.dumps({"number": number}) + "\n").encode())
        os.write(report, (json.dumps(outcome_of(Drawn(draw(seed, "api", number)), scratch, number)) + "\n").encode())
    return 0


def outcome_of(drawn: Drawn, scratch: Path, number: int) -> dict[str, Any]:
    """Make the call; a defect is made again with less, as long as it stays the same."""
    how, what = judged(drawn, drawn.wrong, frozenset(), scratch)
    if how != "defect":
        return {"ended": how}
    wrong, leave_out = dict(drawn.wrong), frozenset[str]()
    for name in drawn.wrong if len(drawn.wrong) > 1 else []:
        fewer = {key: value for key, value in wrong.items() if key != name}
        if judged(drawn, fewer, leave_out, scratch) == (how, what):
            wrong = fewer
    for name in [name for name in drawn.arguments if name not in drawn.call.required and name not in wrong]:
        if judged(drawn, wrong, leave_out | {name}, scratch) == (how, what):
            leave_out |= {name}
    line = f"{drawn.line(wrong, leave_out)} with s = Scene({drawn.kind!r}), case {number}"
    return {"ended": how, "what": f"{drawn.name}: {what}", "line": line}


def judged(drawn: Drawn, wrong: dict[str, str], leave_out: frozenset[str], scratch: Path) -> tuple[str, str]:
    """How a call ended: done, refused, unmade (its arguments cannot be made) or defect; and what is wrong with it."""
    scene = Scene(drawn.kind, scratch)
    names = {**NAMES, "s": scene}
    arguments = {}
    for name, text in {**drawn.arguments, **wrong}.items():
        if name not in leave_out:
            try:
                arguments[name] = eval(text, names)
            except Exception as error:
                nothing = isinstance(error, ValueError | TypeError) or name in wrong
                return ("unmade", "") if nothing else ("defect", f"{type(error).__name__} in {text}")
    function = eval(drawn.call.function, names)
    before = belongings(scene)
    try:
        result = function(**arguments)
    except Exception as error:
        if not of_the_users(error) and (fault := complaint(error, drawn, scene.folder)):
            return "defect", fault
        allowed = "updates" in arguments and "loss" in wrong  # found only in mid-window, when levels have moved
        return ("refused", "") if allowed or same(before, belongings(scene)) else ("defect", "changes something and then fails")
    if not wrong and "damaged" not in drawn.name and not sane(result):
        return "defect", "a result that is not finite"
    return "done", ""


def of_the_users(error: Exception) -> bool:
    """Was it raised in the scene's loss or cell? What a user's code raises is theirs, and reaches them as it is."""
    frame = error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_name in ("loss", "__init__") and Path(code.co_filename).name == "scenes.py":
            return True
        frame = frame.tb_next
    return False


def complaint(error: Exception, drawn: Drawn, folder: Path) -> str:
    """What is wrong with an error itself."""
    if isinstance(error, FileNotFoundError) and "path" in drawn.call.arguments:
        return ""
    message = str(error)
    if not isinstance(error, ValueError | TypeError):
        return f"{type(error).__name__}: {' '.join(message.split())[:80]}"
    named = [*drawn.call.arguments, "model", "state", "loss", "tensors", "level"]
    words = set(re.findall(r"\w+", message))
    if words.isdisjoint(named) and str(folder) not in message:
        return f"{type(error).__name__} that names no argument: {message[:40]}"
    return "a message of several lines or many characters" if "\n" in message or len(message) > LONGEST else ""


def belongings(scene: Scene) -> list[torch.Tensor | None]:
    """What a failure must leave alone."""
    parameters = [*scene.model.parameters(), *scene.head.parameters()]
    parts = [part for cell in scene.state.cells for part in cell]
    return [t if t is None else t.detach().clone() for p in parameters for t in (p, p.grad)] + [t.clone() for t in parts]


def same(before: list[torch.Tensor | None], after: list[torch.Tensor | None]) -> bool:
    return all(a is b is None or (a is not None and b is not None and equal(a, b)) for a, b in zip(before, after, strict=True))


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.device == b.device and (a.device.type == "meta" or torch.equal(a, b))


def sane(result: Any) -> bool:
    """Are the numbers of a result finite? nan stands for local losses that were not asked for."""
    loss = getattr(result, "loss", result)
    if isinstance(loss, torch.Tensor):
        return bool(torch.isfinite(loss).all())
    if isinstance(loss, float):
        return math.isfinite(loss)
    return all(sane(part) for part in loss) if isinstance(loss, tuple) else True
