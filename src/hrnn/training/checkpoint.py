"""Checkpoints: one safetensors file each, whose header carries the rest as JSON. Never pickle.

A file is complete or absent (written whole, then renamed), and a checksum over everything in it finds damage that
came later. It says of which run it is: files of another one are never mistaken for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hrnn.errors import UserError, shortened, words_of
from hrnn.files import content_of, make_folder, move, remove, write_atomically
from hrnn.formats import check_format, numbered
from hrnn.training.entries import SECTIONS, in_words

FACTS: dict[str, Any] = {
    "run": str | None,
    "config": dict | None,
    "position": dict,
    "course": dict,
    "optimizers": list,
    "journal": dict,
    "pins": list,
    "torch": str,
    "engine": str,
}

AVERAGE = "average"  # section of the averaged weights, where a run has them


class DamagedError(Exception):
    """The file is not a checkpoint, or not the one that was written."""


@dataclass(frozen=True)
class Checkpoint:
    """tensors: weights, their average, optimizer, carried states, generators, by dotted name. facts: all else, as JSON."""

    tensors: Mapping[str, Tensor]
    facts: dict[str, Any]

    def section(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names start with `name.`, without it."""
        return {key[len(name) + 1 :]: value for key, value in self.tensors.items() if key.startswith(name + ".")}

    @property
    def weights(self) -> dict[str, Tensor]:
        """What is tested and used: averaged weights where there are any, otherwise those that learn."""
        return self.section(AVERAGE) or self.section("network")


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Over names, dtypes, shapes and bytes of the tensors, and the facts."""
    digest = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def pack(checkpoint: Checkpoint) -> bytes:
    """The content of its file."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    facts = json.dumps(numbered("checkpoint", checkpoint.facts))
    return save(tensors, {"facts": facts, "checksum": _checksum(tensors, facts)})


def write(path: Path, checkpoint: Checkpoint, run: Path | None = None) -> None:
    """run: the folder that the user named, below which no link is followed"""
    write_atomically(path, pack(checkpoint), run)


def read(path: Path) -> Checkpoint:
    try:
        content = content_of(path)
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({error})") from None
    return unpack(content, path)


def unpack(content: bytes, path: Path) -> Checkpoint:
    """The reverse of `pack`; `path` is where the content was read."""
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        text = header["facts"]
        facts = json.loads(text)
        if header["checksum"] != _checksum(tensors, text):
            raise DamagedError(f"{path} does not match its checksum")
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read ({words_of(error)})") from None
    return Checkpoint(tensors, check_format("checkpoint", facts, path))


def _check_facts(facts: dict[str, Any], path: Path) -> None:
    """What every checkpoint of a run says, in the types in which it says it."""
    for name, kinds in FACTS.items():
        if name not in facts or not isinstance(facts[name], kinds):
            raise DamagedError(f"{path} has {name} {shortened(facts.get(name))!r}; it is not a checkpoint of a run")
    numbers = {"pins": facts["pins"], "journal": list(facts["journal"].values()), "updates": [facts["position"].get("updates")]}
    for name, values in numbers.items():
        if not all(type(value) is int and value >= 0 for value in values):
            raise DamagedError(f"{path} has {name} {shortened(values)}; these should be counts")


class CheckpointFolder:
    """The checkpoints of a run: the last few, and those that they refer to (the best one, a solved length).

    run: its id; a checkpoint of another one is refused. None: whatever there is
    """

    def __init__(self, folder: Path, kept: int, run: str | None = None, config: dict[str, Any] | None = None):
        self.folder = folder
        self.kept = kept
        self.run, self.config = run, config
        self._pins: dict[int, set[int]] = {}  # by update: the checkpoints that this one refers to

    def path(self, update: int) -> Path:
        return self.folder / f"update-{update:09d}.safetensors"

    def updates(self) -> list[int]:
        """Updates that have a checkpoint, the oldest first."""
        names = (re.fullmatch(r"update-(\d{9,})\.safetensors", path.name) for path in self.folder.glob("*.safetensors"))
        return sorted(int(name[1]) for name in names if name)

    def get(self, update: int) -> Checkpoint:
        """That of an update of this run."""
        path = self.path(update)
        checkpoint = read(path)
        _check_facts(checkpoint.facts, path)
        if self.run is not None and checkpoint.facts["run"] != self.run:
            self._refuse(path, checkpoint.facts)
        if (inside := checkpoint.facts["position"]["updates"]) != update:
            raise UserError(f"{path} holds the checkpoint of update {inside}; give it its own name again, or remove it")
        return checkpoint

    def _refuse(self, path: Path, facts: dict[str, Any]) -> None:
        """Refuse a checkpoint of another run, and say what tells them apart."""
        there, here = ({name: (entries or {}).get(name) for name in SECTIONS} for entries in (facts["config"], self.config))
        difference = in_words(there, here) if self.config else ""
        raise UserError(
            f"{path} is of another run ({facts['run']}; {self.folder.parent} is {self.run})"
            f"{': ' + difference if difference else ''}; put back the files that belong together"
        )

    def put(self, update: int, checkpoint: Checkpoint) -> None:
        """Write one, then remove those that neither are among the last few nor are referred to by one of these."""
        make_folder(self.folder, self.folder.parent)
        write(self.path(update), checkpoint, self.folder.parent)
        self._pins[update] = set(checkpoint.facts["pins"])
        pinned = {at: pins for at in reversed(self.updates()) if (pins := self._pinned_by(at)) is not None}
        last = list(pinned)[: self.kept]
        needed = set(last).union(*(pinned[at] for at in last))
        for old in pinned:
            if old not in needed:
                remove(self.path(old), self.folder.parent)

    def _pinned_by(self, update: int) -> set[int] | None:
        """What a checkpoint refers to; None if it is damaged, and put aside, or not of this run, and left alone."""
        if update not in self._pins:  # written by the process that ran before this one
            try:
                self._pins[update] = set(self.get(update).facts["pins"])
            except DamagedError:
                self.put_aside(update)
                return None
            except UserError:
                return None
        return self._pins[update]

    def put_aside(self, update: int) -> None:
        path = self.path(update)
        with suppress(OSError):
            move(path, path.with_suffix(".damaged"), self.folder.parent)

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """The newest undamaged one, and a complaint about each newer one. Nothing is changed: whoever goes on from it puts
        the damaged ones aside."""
        complaints: list[str] = []
        for update in reversed(self.updates()):
            try:
                return self.get(update), complaints
            except DamagedError as error:
                complaints.append(str(error))
        raise DamagedError("; ".join(complaints) or f"{self.folder} holds no checkpoint")


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as tensors and JSON."""
    state = optimizer.state_dict()
    by_parameter = state["state"].items()
    values = {f"{parameter}.{name}": value for parameter, entries in by_parameter for name, value in entries.items()}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    numbers = {name: value for name, value in values.items() if name not in tensors}
    return tensors, {"groups": state["param_groups"], "numbers": numbers}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """The reverse of `flatten_optimizer`. torch takes whatever it is given, and crashes later: shapes are checked here."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **facts["numbers"]}.items():
        parameter, _, name = key.partition(".")
        state.setdefault(int(parameter), {})[name] = value
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = {frozenset(entries) for entries in state.values()}
    if len(names) > 1:
        raise ValueError("the optimizer has kept more of some parameters than of others")
    for number, entries in state.items():
        for name, value in entries.items():
            shape, expected = getattr(value, "shape", ()), parameters[number].shape
            if (len(shape) and shape != expected) or not isinstance(value, Tensor | int | float):
                raise ValueError(f"the optimizer's {name} has shape {tuple(shape)}; expected {tuple(expected)}")
    before, after = optimizer.state_dict()["param_groups"], facts["groups"]
    known = isinstance(after, list) and all(isinstance(group, dict) and {"params", "lr"} <= group.keys() for group in after)
    if not known or len(after) != len(before):
        raise ValueError("the optimizer's options are not those of this run")
    # Another version of torch has more options, or fewer; what is not in the file is as the configuration has it.
    groups = [{name: there.get(name, here[name]) for name in here} for here, there in zip(before, after, strict=True)]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
