"""What stands beside an exported file: names, shapes, periods, and how the state is carried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hrnn.export.step import Step
from hrnn.files import write_atomically
from hrnn.formats import numbered
from hrnn.hierarchy import HRNN

CARRY = (
    "Begin with a state of zeros, one row for each sequence. Give the state that a step returns to the next step. A row that "
    "is set to zeros starts a new sequence; rows do not know of each other and may be at different places of their segments."
)
NESTED = (
    "True where the level above ticks, for each level with given boundaries; a boundary of a level that does not tick at this "
    "step is ignored. The first step of a sequence is a boundary whatever is said."
)


def of_model(model: HRNN, kind: str) -> dict[str, Any]:
    """What every exported file says."""
    config = model.config
    shape = {name: config[name] for name in ("hidden_sizes", "periods", "cell")}
    return numbered("export", {"kind": kind, "dtype": name_of(model.dtype), "reads": config["inputs"], **shape})


def of_step(step: Step, x: Tensor, boundaries: Tensor | None, output: Tensor, steps: int | None) -> dict[str, Any]:
    """Inputs and outputs by name, of a step or of a window of so many, and the state."""
    size = sum(step.sizes)
    state = {"dtype": name_of(step.dtype), "shape": ["batch", size]}

    def shape(tensor: Tensor) -> dict[str, Any]:
        """Of what has one row for each sequence."""
        return {"dtype": name_of(tensor.dtype), "shape": [*([] if steps is None else [steps]), "batch", *tensor.shape[1:]]}

    symbols = {"meaning": f"0 to {step.input_size - 1}; others are not checked"} if step.tokens else {}
    inputs: dict[str, Any] = {"x": shape(x) | symbols} | ({} if steps is not None else {"state": state})
    if boundaries is not None:
        inputs["boundaries"] = shape(boundaries) | {"meaning": NESTED}
    return {
        "inputs": inputs,
        "outputs": {"output": shape(output), "new_state": state},
        "state": {
            "size": size,
            "initial": 0.0,
            "parts": {name: [part.start, part.stop] for name, part in step.parts().items()},
            "carry": CARRY,
        },
    }


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check(facts: dict[str, Any] | None) -> None:
    """Before the file is written that they stand beside."""
    try:
        json.dumps({**(facts if facts is not None else {})})
    except (TypeError, ValueError) as error:
        raise TypeError(f"facts cannot be written as JSON ({error}); give numbers, texts, lists and dicts") from None


def write(path: Path, entries: dict[str, Any]) -> Path:
    """Beside the file, under its name with .json behind it."""
    beside = path.with_name(path.name + ".json")
    write_atomically(beside, json.dumps(entries, indent=2).encode() + b"\n")
    return beside
