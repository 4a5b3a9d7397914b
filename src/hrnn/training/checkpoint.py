"""Checkpoints: one safetensors file each, whose header carries the rest as JSON. Never pickle.

A file is complete or absent (written whole, then renamed), and a checksum over everything in it finds damage that
came later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hrnn.training.files import make_folder, write_whole


class DamagedError(Exception):
    """The file is no checkpoint, or not the one that was written."""


@dataclass(frozen=True)
class Checkpoint:
    """tensors: weights, optimizer, carried states and generators, by dotted name. facts: everything else, as JSON."""

    tensors: Mapping[str, Tensor]
    facts: dict[str, Any]

    def section(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names start with `name.`, without it."""
        return {key[len(name) + 1 :]: value for key, value in self.tensors.items() if key.startswith(name + ".")}


def _checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def pack(checkpoint: Checkpoint) -> bytes:
    """The content of its file."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    facts = json.dumps(checkpoint.facts)
    return save(tensors, {"facts": facts, "checksum": _checksum(tensors, facts)})


def write(path: Path, checkpoint: Checkpoint) -> None:
    write_whole(path, pack(checkpoint))


def read(path: Path) -> Checkpoint:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({error})") from None
    return unpack(content, path)


def unpack(content: bytes, path: Path) -> Checkpoint:
    """The reverse of `pack`; `path` is where the content was read."""
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        facts = header["facts"]
        checksum = header["checksum"]
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(f"{path} cannot be read ({error})") from None
    if checksum != _checksum(tensors, facts):
        raise DamagedError(f"{path} does not match its checksum")
    return Checkpoint(tensors, json.loads(facts))


class Shelf:
    """The checkpoints of a run: the last few, and those that they refer to (the best one, a solved length)."""

    def __init__(self, folder: Path, kept: int):
        self.folder = folder
        self.kept = kept
        self._pins: dict[int, set[int]] = {}  # by update: the checkpoints that this one refers to

    def path(self, update: int) -> Path:
        return self.folder / f"update-{update:09d}.safetensors"

    def updates(self) -> list[int]:
        """Updates that have a checkpoint, the oldest first."""
        names = (re.fullmatch(r"update-(\d+)\.safetensors", path.name) for path in self.folder.glob("*.safetensors"))
        return sorted(int(name[1]) for name in names if name)

    def put(self, update: int, checkpoint: Checkpoint) -> None:
        """Write one, then remove those that neither are among the last few nor are referred to by one of these."""
        make_folder(self.folder)
        write(self.path(update), checkpoint)
        self._pins[update] = set(checkpoint.facts["pins"])
        last = self.updates()[-self.kept :]
        needed = set(last).union(*(self._pinned_by(one) for one in last))
        for old in self.updates():
            if old not in needed:
                self.path(old).unlink()

    def _pinned_by(self, update: int) -> set[int]:
        if update not in self._pins:  # written by the process that ran before this one
            self._pins[update] = set(read(self.path(update)).facts["pins"])
        return self._pins[update]

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """The newest undamaged one, and a complaint about each that is damaged; these are put aside."""
        complaints: list[str] = []
        for update in reversed(self.updates()):
            path = self.path(update)
            try:
                return read(path), complaints
            except DamagedError as error:
                complaints.append(str(error))
                path.rename(path.with_suffix(".damaged"))
        raise DamagedError("; ".join(complaints) or f"{self.folder} holds no checkpoint")


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as tensors and JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for parameter, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{parameter}.{name}"] = value
            else:
                numbers[f"{parameter}.{name}"] = value
    return tensors, {"groups": state["param_groups"], "numbers": numbers}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """The reverse of `flatten_optimizer`."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **facts["numbers"]}.items():
        parameter, _, name = key.partition(".")
        state.setdefault(int(parameter), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": facts["groups"]})
