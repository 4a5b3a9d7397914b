"""What hostile calls of the API are made with: small models with all that belongs to them, damaged files, odd tensors."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

import hrnn
from hrnn.parallel import Group, join

STEPS, BATCH = 5, 3
KINDS = ("vectors", "tokens", "given", "user", "first", "single")


class Minimal(nn.Module):
    """A user's cell."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.hidden_size, self.value = hidden_size, nn.Linear(input_size + hidden_size, hidden_size)

    def initial_state(self, batch: int) -> tuple[torch.Tensor]:
        return (self.value.weight.new_zeros(batch, self.hidden_size),)

    def step(self, inputs: torch.Tensor, state: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        return (self.value(torch.cat([inputs, *state], 1)).tanh(),)


class Scene:
    """A small model with everything that a call of it wants; the same numbers every time."""

    def __init__(self, kind: str, folder: Path):
        torch.manual_seed(1)
        self.kind, self.folder = kind, folder
        tokens, given = kind == "tokens", kind == "given"
        sizes, periods = ([3], []) if kind == "single" else ([3, 2], [hrnn.Given(2) if given else 2])
        inputs = hrnn.Tokens(4) if tokens else 2
        cell: Any = Minimal if kind == "user" else "lstm"
        self.model = hrnn.HRNN(inputs, sizes, periods, cell=cell, decoder_units=3, batch_first=kind == "first")
        self.head = nn.Linear(3, 3)
        shape = (BATCH, STEPS) if kind == "first" else (STEPS, BATCH)
        self.x = torch.randint(4, shape) if tokens else torch.randn(*shape, 2)
        self.y = torch.randn(*shape, 3)
        self.mask = torch.rand(shape) < 0.7
        self.boundaries = torch.rand(shape) < 0.4 if given else None
        self.lengths = torch.tensor([STEPS, 2, 4])
        self.reset = torch.rand(shape) < 0.2
        self.rows = torch.tensor([2, 0])
        self.flags = torch.tensor([True, False, True])
        self.betas = [0.5] * len(periods)
        with torch.no_grad():
            self.state = self.model(self.x, boundaries=self.boundaries)[1]

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (self.head(output) - target.detach().to(output.dtype)).square().mean(-1)

    def updates(self, **options: Any) -> hrnn.Updates:
        return hrnn.Updates(self.model, lambda p: torch.optim.SGD(p, lr=0.01), heads=self.head.parameters(), **options)

    @property
    def other(self) -> Scene:
        return Scene(self.kind, self.folder)

    def file(self, kind: str, number: int | None = None) -> Path:
        """A file of the model or the state; with a number, damaged in a way that the number says."""
        path = self.folder / f"{kind}-{number}"
        (self.model if kind == "model" else self.state).save(path)
        if number is not None:
            path.write_bytes(damaged(path.read_bytes(), random.Random(number)))
        return path


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A safetensors file with other bytes, another header, other metadata or other tensors."""
    size = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    way = chance.randrange(7)
    if way == 0:
        return content[: chance.randrange(len(content))]
    if way == 1:
        place = chance.randrange(len(content))
        return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
    if way == 2:
        return chance.choice([2**63, 2**64 - 1, 10**9, 0]).to_bytes(8, "little") + content[8:]
    if way == 3:  # metadata
        text = header.get("__metadata__", {}).get("hrnn", "{}")
        config = json.loads(text)
        config[chance.choice([*config, "format", "more"])] = chance.choice(JSON)
        header["__metadata__"] = {"hrnn": chance.choice([json.dumps(config)] * 5 + ["[1]", "{", "[" * 10**5, "null"])}
    elif way == 4:  # what the header says of a tensor
        name = chance.choice([name for name in header if name != "__metadata__"])
        key = chance.choice(["dtype", "shape", "data_offsets"])
        header[name][key] = chance.choice(["I64", "F8_E4M3", "BOOL", [2**40, 2**40], [0, 2**62], [-1], [0, 1], None, [3], "X"])
    else:  # tensors that are in order, but not those that belong there
        found = {name: torch.zeros(*entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
        name = chance.choice([*found, "more"])
        if way == 5:
            found.pop(name, None)
        else:
            found[name] = eval(chance.choice(WRONG_TENSORS))
        return save(found, header.get("__metadata__"))
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


JSON: list[Any] = [None, -1, 0, 1.5, 1e300, 10**30, "x", [], [1], [10**12], [10**12, 10**12], {}, {"tokens": 0}, True]
JSON += [[{"given": 10**15}], [{}], ["lstm", 5], [None, None], {"tokens": 10**14}, 3, [10**6], [[3, 4]]]
WRONG_TENSORS = ["torch.zeros(3)", "torch.zeros(3, 2, dtype=torch.int32)", "torch.full((3, 1), -5)", "torch.full((3,), 2**62)"]
WRONG_TENSORS += ["torch.zeros(())", "torch.zeros(0, 3)", "torch.zeros(3, 1, dtype=torch.int64) + 2**63 - 1"]


def tampered(state: hrnn.State, name: str, value: Any) -> hrnn.State:
    """The state with one of its parts replaced, past the check that it would meet when it is made."""
    copy = state.clone()
    target: Any = copy.clock if hasattr(copy.clock, name) else copy
    object.__setattr__(target, name, value)
    return copy


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, not contiguous."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def quantised(tensor: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.quint8)


def joined(timeout: Any) -> int:
    with join(timeout=timeout) as group:
        return group.size


NAMES: dict[str, Any] = {
    "hrnn": hrnn,
    "torch": torch,
    "np": np,
    "nn": nn,
    "nan": float("nan"),
    "inf": float("inf"),
    "Group": Group,
    "Minimal": Minimal,
    "Scene": Scene,
    "tampered": tampered,
    "strided": strided,
    "quantised": quantised,
    "joined": joined,
}
