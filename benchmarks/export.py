"""One input at a time: the exported step in onnxruntime and in torch, beside `model.step`.

    python -m benchmarks.export [--units 64] [--repeats N] [--json FILE]

Levels of LSTM units with periods of 10, float32, without autograd, rows in phase and each at its own place. A step computes
every level at every input, `model.step` only those that tick; the head is left out. Time is the best of several interleaved
repeats, one thread, process time.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

import hrnn
from benchmarks.run import environment

PERIOD, CALLS = 10, 200  # calls in one repeat: whole periods
CASES = ((2, 1, True), (2, 16, True), (2, 16, False), (4, 1, True))  # levels, rows, in phase
Call = Callable[[], object]


def started(model: hrnn.HRNN, rows: int, in_phase: bool) -> hrnn.State:
    """A state whose rows are at the same place, or at different ones."""
    state = model.initial_state(rows)
    if not in_phase:
        for row in range(rows):
            _, state = model.step(torch.randn(rows, model.input_size), model.reset(state, torch.arange(rows) == row))
    return state


def stepping(model: hrnn.HRNN, rows: int, in_phase: bool, folder: Path) -> Call:
    state, x = started(model, rows, in_phase), torch.randn(rows, model.input_size)

    def run() -> None:
        nonlocal state
        _, state = model.step(x, state)

    return run


def in_onnxruntime(model: hrnn.HRNN, rows: int, in_phase: bool, folder: Path) -> Call:
    hrnn.export.to_onnx(model, folder / "step.onnx", check=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "step.onnx", options, providers=["CPUExecutionProvider"])
    state = hrnn.export.Step(model).flat(started(model, rows, in_phase)).numpy()
    x = torch.randn(rows, model.input_size).numpy()

    def run() -> None:
        nonlocal state
        _, state = session.run(None, {"x": x, "state": state})

    return run


def by_torch_export(model: hrnn.HRNN, rows: int, in_phase: bool, folder: Path) -> Call:
    hrnn.export.to_torch_export(model, folder / "step.pt2")
    step = torch.export.load(folder / "step.pt2").module()
    state = hrnn.export.Step(model).flat(started(model, rows, in_phase))
    x = torch.randn(rows, model.input_size)

    def run() -> None:
        nonlocal state
        _, state = step(x, state)

    return run


METHODS = {"model.step": stepping, "ONNX in onnxruntime": in_onnxruntime, "torch.export": by_torch_export}


def timed(units: int, levels: int, rows: int, in_phase: bool, repeats: int) -> dict[str, float]:
    """The best time of each method, in microseconds for an input of all rows."""
    torch.manual_seed(0)
    model = hrnn.HRNN(units, [units] * levels, [PERIOD] * (levels - 1), decoders=False)
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: make(model, rows, in_phase, Path(folder)) for name, make in METHODS.items()}
    best = dict.fromkeys(runs, math.inf)
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            for _ in range(CALLS):
                run()
            if repeat:  # the first warms up
                best[name] = min(best[name], (time.process_time() - start) / CALLS * 1e6)
    return best


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title=f"levels of {options.units} LSTM units, periods of {PERIOD}: {hrnn.engine()}")
    for column in ("levels", "rows", "in phase", "method", "microseconds an input", "of model.step"):
        table.add_column(column, justify="left" if column == "method" else "right")
    found = []
    for levels, rows, in_phase in CASES:
        times = timed(options.units, levels, rows, in_phase, options.repeats)
        for name, microseconds in times.items():
            ratio = microseconds / times["model.step"]
            found.append(
                {"units": options.units, "period": PERIOD, "levels": levels, "rows": rows, "in_phase": in_phase, "method": name}
                | {"microseconds": round(microseconds, 2), "of_model_step": round(ratio, 3), "repeats": options.repeats}
                | {"onnxruntime": onnxruntime.__version__}
                | environment(1)
            )
            table.add_row(str(levels), str(rows), str(in_phase), name, f"{microseconds:.1f}", f"{ratio:.2f}")
    Console().print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
