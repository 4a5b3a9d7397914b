"""What describes a model: its arguments, checked before anything is made of them, and its file's configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hrnn.arguments import LARGEST, each, entries, flag, shown, whole
from hrnn.decoders import INDICES
from hrnn.formats import check_format
from hrnn.readers import READERS, UserReader
from hrnn.room import MOST_AT_ONCE, weight_numbers
from hrnn.segments import Given, Period, reach_of
from hrnn.statistics import SYMBOL_WEIGHTS
from hrnn.wiring import CONTEXTS, READS, Wiring

_LEVELS = _DECODER_LAYERS = 1000  # more of either would only take minutes to make
STATISTICS = "statistics"  # of a decoder, by the name of its module
_ENTRIES = {
    *("inputs", "hidden_sizes", "periods", "cell", "decoders", "decoder_layers", "decoder_units", "indices"),
    *("normalized", "symbol_weights", "output", "batch_first", "check_finite"),
    *("reads", "reader", "context", "burn_in", "segments"),
}
OUTPUTS = ("lowest", "all")
MOST_PLACES = 10_000_000  # raw inputs that a tick reads


def checked_sizes(hidden_sizes: Sequence[int]) -> list[int]:
    """At least one level, each with at least one unit."""
    if isinstance(hidden_sizes, int):
        raise TypeError(
            f"hidden_sizes is {shown(hidden_sizes)}; give a list, the lowest level first, "
            f"e.g. hidden_sizes=[{shown(hidden_sizes)}]"
        )
    values = entries("hidden_sizes", hidden_sizes, "[256, 256]")
    if not 1 <= len(values) <= _LEVELS:
        raise ValueError(f"hidden_sizes is {shown(hidden_sizes)}; give at least one level and at most {_LEVELS}")
    remedy = "at least one level, each of at least one unit, e.g. [256, 256]"
    try:
        return [whole("hidden_sizes", n) for n in values]
    except ValueError:
        raise ValueError(f"hidden_sizes is {shown(hidden_sizes)}; give {remedy}") from None


def checked_periods(values: Sequence[Period], levels: int) -> list[Period]:
    """One fewer than levels; each at least 1."""
    if isinstance(values, int | Given):
        raise TypeError(f"periods is {shown(values)}; give a list, e.g. periods=[{shown(values)}]")
    values = entries("periods", values, "[10]")
    if len(values) != levels - 1:
        example = "[]" if levels == 1 else f"[{', '.join(['10'] * min(9, levels - 1))}]"
        raise ValueError(
            f"periods has {len(values)} entries for {levels} levels; give one fewer than hidden_sizes, e.g. periods={example}"
        )
    found: list[Period] = []
    for i, period in enumerate(values):
        given = isinstance(period, Given)
        try:
            count = whole("reach", period.reach if isinstance(period, Given) else period)
        except ValueError:
            raise ValueError(
                f"periods[{i}] is {shown(period)}; a period is a whole number of ticks, at least 1, or hrnn.Given(reach) with "
                f"a reach of at least 1"
            ) from None
        found.append(Given(count) if given else count)
    if math.prod(reach_of(period) for period in found) > LARGEST // 2:
        raise ValueError(f"periods is {shown(values)}; a tick of the top level would span more steps than can be counted")
    return found


def checked_decoders(below: int, layers: Any, units: Any, indices: Any, normalized: Any) -> dict[str, list[Any]]:
    """What the decoders are made with, one entry for each level below the top."""
    given = {"decoder_layers": layers, "decoder_units": units, "indices": indices, "normalized": normalized}
    options = {name: each(name, value, below, "levels below the top") for name, value in given.items()}
    if not below:  # nothing is made of them, and what is wrong is wrong all the same
        usual = (1, 1, INDICES[0], True)
        checked_decoders(1, *(a if isinstance(b, list | tuple) else b for a, b in zip(usual, given.values(), strict=True)))
    for i in range(below):
        depth, width, which, divided = (options[name][i] for name in given)
        flag("normalized", divided)
        try:
            options["decoder_layers"][i] = whole("decoder_layers", depth, most=_DECODER_LAYERS)
            options["decoder_units"][i] = whole("decoder_units", width)
        except ValueError:
            raise ValueError(
                f"decoder_layers and decoder_units of level {i} are {shown(depth)} and {shown(width)}; give at least 1, and "
                f"at most {_DECODER_LAYERS} layers"
            ) from None
        if not isinstance(which, str) or which not in INDICES:
            raise ValueError(f"indices is {shown(which)}; expected one of {INDICES}")
    return options


def checked_weights(symbol_weights: Any, tokens: bool) -> str:
    """How much each symbol counts in the lowest level's local loss."""
    if not isinstance(symbol_weights, str) or symbol_weights not in SYMBOL_WEIGHTS:
        raise ValueError(f"symbol_weights is {shown(symbol_weights)}; expected one of {SYMBOL_WEIGHTS}")
    if symbol_weights != "equal" and not tokens:
        raise ValueError(
            f"symbol_weights is {shown(symbol_weights)} and the inputs are vectors; drop it, or give hrnn.Tokens(n)"
        )
    return symbol_weights


def checked_output(output: Any) -> str:
    """Whose hidden states the output is."""
    if not isinstance(output, str) or output not in OUTPUTS:
        raise ValueError(f"output is {shown(output)}; expected one of {OUTPUTS}")
    return output


def checked_edges(
    periods: Sequence[Period], reads: Any, reader: Any, context: Any, burn_in: Any, segments: Any
) -> tuple[Wiring, list[int | None], list[Any], list[str]]:
    """Who reads what; how many segments share a batch, None: not said; readers and contexts, one for each level."""
    below = len(periods)
    given = {"reads": (reads, READS, "levels above the lowest"), "context": (context, CONTEXTS, "levels below the top")}
    words: dict[str, list[Any]] = {}
    for name, (value, allowed, levels) in given.items():
        words[name] = each(name, value, below, levels)
        for one in words[name] or ([] if isinstance(value, list | tuple) else [value]):
            if not isinstance(one, str) or one not in allowed:
                raise ValueError(
                    f"{name} is {shown(value)}; expected one of {', '.join(map(repr, allowed))}, or a list of them"
                )
    readers = each("reader", reader, below, "levels above the lowest")
    for i, one in enumerate(readers):
        if words["reads"][i] == "summary":
            readers[i] = None
        elif not (callable(one) or (isinstance(one, str) and one in READERS)):
            names = ", ".join(map(repr, READERS))
            raise ValueError(
                f"reader is {shown(one)} for level {i + 1}; expected one of {names}, or a callable that makes a module"
            )
    wiring = Wiring(tuple(periods), tuple(words["reads"]), whole("burn_in", burn_in, 0), (1,) * below)
    if wiring.burn_in and (not below or wiring.sends(0)):
        why = "the hierarchy has one level" if not below else "level 1 reads the summary of the lowest level"
        raise ValueError(f"burn_in is {wiring.burn_in} and {why}; give 0, or reads='inputs' for level 1")
    if math.prod(wiring.parts(wiring.highest)) > MOST_PLACES:
        raise ValueError(
            f"periods is {shown(list(periods))}, and level {wiring.highest} reads all inputs of a segment below it; give "
            f"shorter periods, of {MOST_PLACES:,} steps together at most, or reads='summary' for that level"
        )
    counts = each("segments", segments, below, "levels below the top")
    for i, count in enumerate(counts):
        if count is not None:
            counts[i] = count = whole("segments", count, most=MOST_AT_ONCE, remedy="at least 1, or None")
        if not wiring.shares(i):
            if count not in (None, 1) and isinstance(segments, Sequence):
                raise ValueError(f"segments is {shown(segments)}, and level {i} sends or reads a summary; give 1 or None there")
            counts[i] = 1
    return wiring, counts, readers, words["context"]


def stored(path: str | Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a model's file holds."""
    config = check_format("model", metadata, path)
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
        reads=config["reads"],
        context=config["context"],
        readers=config["reader"],
    )
    rows: int = sum(size * p for size, p in zip(sizes, config["periods"], strict=False) if isinstance(p, int))
    return weights + rows


def own_readers(config: Mapping[str, Any]) -> list[int]:
    """The levels for which a file's configuration has a reader of the user's."""
    reads, readers = config["reads"], config["reader"]
    if not isinstance(reads, list) or not isinstance(readers, list):
        return []
    return [i for i, pair in enumerate(zip(reads, readers, strict=False), 1) if pair[0] != "summary" and pair[1] is None]


def check_described(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Refuse a configuration that speaks of more than the file holds."""
    inputs = config["inputs"]
    whole("inputs", inputs["tokens"] if isinstance(inputs, dict) else inputs)
    checked_output(config["output"])
    sizes = checked_sizes(config["hidden_sizes"])
    periods = checked_periods([Given(p["given"]) if isinstance(p, dict) else p for p in config["periods"]], len(sizes))
    readers = [UserReader if one is None else one for one in entries("reader", config["reader"], "[null]")]  # given again
    checked_edges(periods, config["reads"], readers, *(config[name] for name in ("context", "burn_in", "segments")))
    options = checked_decoders(
        len(periods), *(config[name] for name in ("decoder_layers", "decoder_units", "indices", "normalized"))
    )
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
        if like.is_floating_point() and STATISTICS not in name.split("."):  # which stay in float32
            floats.append(tensor.dtype)
    if not floats or floats[0] not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"its weights are {floats[0] if floats else 'none'}, expected floating-point numbers")
    return floats[0]
