"""What stands beside an exported file: names, shapes, periods, and how the state is carried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hrnn.export.step import Step
from hrnn.export.window import Window
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
REMEMBERED = (
    "Raw inputs as the model reads them, one behind the other, the latest first: `inputs`, those of the latest segment that a "
    "level may still read, and `recent`, with which the next segment of the lowest level begins early. A token is its number "
    "plus 1; zeros are none."
)


def of_model(model: HRNN, kind: str) -> dict[str, Any]:
    """What every exported file says."""
    config = model.config
    shape = {name: config[name] for name in ("hidden_sizes", "periods", "cell")}
    edges = {name: config[name] for name in ("reads", "reader", "context", "output", "burn_in")}
    return numbered("export", {"kind": kind, "dtype": name_of(model.dtype), "reads": config["inputs"], **shape, "edges": edges})


def of_step(
    module: Step | Window, x: Tensor, boundaries: Tensor | None, arguments: list[Tensor], steps: int | None
) -> dict[str, Any]:
    """Inputs and outputs by name, of a step or of a window of so many, the state, and what a call costs."""
    step = module.step if isinstance(module, Window) else module
    size, width = sum(step.sizes), step.dtype.itemsize
    state = {"dtype": name_of(step.dtype), "shape": ["batch", size]}
    output, products = _run(module, arguments)
    output = output if steps is None else output[0]

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
            "bytes": size * width,
            "initial": 0.0,
            "parts": {name: [part.start, part.stop] for name, part in step.parts().items()},
            "carry": CARRY,
        }
        | ({"remembered": REMEMBERED} if step.raw else {}),
        "cost": {
            "multiplications": products // len(x),
            "meaning": "those of all products with matrices, for each row, whatever place of its segments it is at",
            "bytes_of_weights": sum(part.numel() * part.element_size() for part in module.state_dict().values()),
        },
    }


@torch.no_grad()
def _run(module: nn.Module, arguments: list[Tensor]) -> tuple[Tensor, int]:
    """The output, and how many multiplications all rows' products with matrices take."""
    with FlopCounterMode(display=False) as counter:
        output: Tensor = module(*arguments)[0]
    return output, counter.get_total_flops() // 2


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
