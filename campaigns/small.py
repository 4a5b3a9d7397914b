"""Runs of less than a second, one for every task and way of learning, and what the end of a run is compared by."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hrnn.training.checkpoint import Checkpoint, read
from hrnn.training.journal import EVENTS, JOURNAL
from tests.tiny import write_mnist, write_text

SMALL = ["--hidden-sizes", "4", "6", "--batch", "4", "--journal-every", "3", "--checkpoint-seconds", "0.01"]
# Of a checkpoint's facts: its run's own name, and lengths of files with times.
DIFFERENT = ("run", "config", "journal", "torch")


def commands(data: Path) -> dict[str, list[str]]:
    """By name: the arguments of `hrnn train`. The data are made in the folder."""
    places = {"TEXT": write_text(data / "text.txt", copies=12), "MNIST": write_mnist(data / "mnist", training=36, test=8)}
    lines = {
        "copy": "copy --start 1 --step 3 --patience 10 --test-sequences 8 --periods 3 --window 5 --updates 30 --betas 1"
        " --learning-rate 0.2 --solved 0.9 --update batch",
        "pixels": "pixels --data MNIST --pool 4 --permuted --periods 7 --window 30 --updates 8 --validate-every 3"
        " --schedule cosine --update batch --average None",
        "text": "text --data TEXT --window 10 --updates 10 --validate-every 4 --update window",
        "needle": "needle --steps 12 --periods 4 --window 7 --updates 10 --test-sequences 8 --validate-every 4"
        " --optimizer rmsprop --model hrnn",
        "copy unlocked": "copy --length 4 --test-sequences 8 --periods 3 --window 5 --updates 12 --update segment"
        " --update-every 1 0 --frozen-every 3",
        "text unlocked": "text --data TEXT --window 10 --updates 8 --update segment --update-every 1 2"
        " --clip 1 --validate-every 4 --frozen-every 2",
        "needle unlocked": "needle --steps 12 --periods 4 --window 7 --updates 12 --test-sequences 8 --validate-every 5"
        " --update segment --optimizer adamw --schedule linear --warmup 3",
        "pixels unlocked": "pixels --data MNIST --pool 4 --periods 7 --window 49 --updates 6 --validate-every 3"
        " --update segment",
    }
    return {name: [*(str(places.get(word, word)) for word in line.split()), *SMALL] for name, line in lines.items()}


@dataclass(frozen=True)
class End:
    """All that a run leaves behind but its times."""

    last: Checkpoint
    best: Checkpoint
    journal: list[dict[str, Any]]
    events: list[tuple[int, str, float]]
    result: dict[str, Any]

    @staticmethod
    def of(run: Path, without: Collection[str] = ()) -> End:
        """Of a finished run; without some of its records, where they cannot be read."""
        last = read(newest_checkpoint(run))
        best_at = last.facts["position"]["best_at"]
        best = last if best_at is None else read(run / "checkpoints" / f"update-{best_at:09d}.safetensors")
        return End(
            last,
            best,
            [] if "journal" in without else journal(run),
            [] if "events" in without else events(run),
            {} if "result" in without else without_times(json.loads((run / "result.json").read_text())),
        )

    def differences(self, other: End) -> list[str]:
        """What differs from the other, by name; none if they are the same to the last bit."""
        found = [f"{name} weights" for name in ("last", "best") if not same(getattr(self, name), getattr(other, name))]
        found += [name for name in ("journal", "events", "result") if getattr(self, name) != getattr(other, name)]
        return found


def newest_checkpoint(run: Path) -> Path:
    return max(path for path in run.glob("checkpoints/*.safetensors") if path.is_file())


def same(one: Checkpoint, other: Checkpoint) -> bool:
    if facts(one) != facts(other) or one.tensors.keys() != other.tensors.keys():
        return False
    return all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    kept = {name: value for name, value in checkpoint.facts.items() if name not in DIFFERENT}
    return {**kept, "position": without_times(kept["position"])}


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in record.items()
        if not name.endswith("seconds") and name not in ("run", "id", "spent", "peak_bytes")
    }


def journal(run: Path) -> list[dict[str, Any]]:
    """Without the records of processes that began or resumed it."""
    records = [without_times(json.loads(line)) for line in (run / JOURNAL).read_text().splitlines()]
    return [record for record in records if record["kind"] != "engine"]


def events(run: Path) -> list[tuple[int, str, float]]:
    """TensorBoard's records without their times: (step, tag, value)."""
    from tensorboard.compat.proto.event_pb2 import Event

    content, place, found = (run / EVENTS).read_bytes(), 0, []
    while place < len(content):
        (length,) = struct.unpack("<Q", content[place : place + 8])
        event = Event.FromString(content[place + 12 : place + 12 + length])
        found += [(event.step, v.tag, v.simple_value) for v in event.summary.value if not v.tag.endswith("seconds")]
        place += 16 + length
    return found


def partial_files(run: Path) -> list[str]:
    """What a write that was cut off has left behind."""
    return sorted(path.name for path in run.rglob("*.partial*"))
