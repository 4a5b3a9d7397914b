"""A model as its file describes it: the configuration's format, and what is checked before a model is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hrnn import checks, tensors
from hrnn.arguments import shown, whole
from hrnn.room import weight_numbers
from hrnn.segments import Given, reach_of

FORMAT = 2  # of the file that `HRNN.save` writes
_ENTRIES = {
    *("inputs", "hidden_sizes", "periods", "cell", "decoders", "decoder_layers", "decoder_units", "indices"),
    *("batch_first", "check_finite"),
}


def upgraded(path: str | Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A model file's configuration in the newest form. Format 1, of 0.1.0, had the same entries, without a number."""
    tensors.format_of(path, metadata, FORMAT)
    config = {name: value for name, value in metadata.items() if name != "format"}
    if odd := sorted(set(config) ^ _ENTRIES):
        verb = "has" if odd[0] in config else "lacks"
        raise ValueError(f"{path} does not hold a model: its configuration {verb} {shown(odd[0])}")
    return config


def numbers(config: Mapping[str, Any]) -> int:
    """How many numbers a model and one row of its segments take, users' cells left out."""
    inputs, sizes = config["inputs"], config["hidden_sizes"]
    weights = weight_numbers(
        sizes,
        [p["given"] if isinstance(p, dict) else p for p in config["periods"]],
        config["cell"],
        inputs=inputs["tokens"] if isinstance(inputs, dict) else inputs,
        decoder_layers=config["decoder_layers"],
        decoder_units=config["decoder_units"],
        decoders=config["decoders"],
    )
    rows: int = sum(size * p for size, p in zip(sizes, config["periods"], strict=False) if isinstance(p, int))
    return weights + rows


def check_described(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Refuse a configuration that speaks of more than the file holds."""
    inputs = config["inputs"]
    whole("inputs", inputs["tokens"] if isinstance(inputs, dict) else inputs)
    sizes = checks.sizes(config["hidden_sizes"])
    periods = checks.periods([Given(p["given"]) if isinstance(p, dict) else p for p in config["periods"]], len(sizes))
    options = checks.decoder_options(len(periods), *(config[name] for name in ("decoder_layers", "decoder_units", "indices")))
    layers = sum(options["decoder_layers"]) if config["decoders"] else 0
    reaches = [{"given": reach_of(period)} for period in periods]  # only weights count: a segment is not in the file
    needed, there = numbers({**config, **options, "periods": reaches}), sum(t.numel() for t in weights.values())
    # Twice as much is harmless, and a tensor that is only missing is named later.
    if len(sizes) + layers > len(weights) or needed > 2 * there + 100:
        raise ValueError(f"hidden_sizes {shown(sizes)} and the rest need {needed:,} numbers, and it has {there:,}")


def matched(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> torch.dtype:
    """The dtype of weights whose names, shapes and kinds are those expected."""
    if odd := sorted(set(weights) ^ set(expected)):
        raise ValueError(f"tensor {shown(odd[0])} is {'not expected' if odd[0] in weights else 'missing'}")
    floats = []
    for name, tensor in weights.items():
        like = expected[name]
        if tensor.shape != like.shape or tensor.is_floating_point() != like.is_floating_point():
            raise ValueError(f"tensor {shown(name)} is {shown(tensor)}, expected {shown(like)}")
        if like.is_floating_point():
            floats.append(tensor.dtype)
    if not floats or floats[0] not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"its weights are {floats[0] if floats else 'none'}, expected floating-point numbers")
    return floats[0]
