"""Memory, said and measured: the paper's count, an exact one, bytes predicted, bytes measured, and a planner.

A count is in vectors per batch row. Bytes are those of the whole process above what it had before the window.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

_CELLS = {"lstm": (4, 2, 1, 4, 4), "gru": (4, 1, 0, 3, 3), "rnn": (1, 1, 0, 1, 1)}  # gates, state, scratch, entering, hidden
_BLOCK = 16  # hrnn.cells.block.BACKWARD_TICKS, without importing torch; a test compares them
_FLOAT, _TOKEN = 4, 8
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def paper_count(periods: Sequence[int], window: int) -> int:
    """The paper's count for restricted gradients: the sum of the periods plus twice the top level's ticks. 166 for a period
    of 10 and a window of 784. Without a hierarchy, and for true gradients, it is the window."""
    _check(periods, window)
    return sum(periods) + 2 * (window // math.prod(periods)) if periods else window


def exact_count(hidden_sizes: Sequence[int], periods: Sequence[int], window: int) -> float:
    """What has to be stored by the same reckoning, nothing left out: hidden states of every level, and, above the lowest, the
    gradients of contexts. In vectors of the lowest level's size: a vector of twice that size counts twice."""
    _check(periods, window)
    if len(hidden_sizes) != len(periods) + 1:
        raise ValueError(f"periods has {len(periods)} entries for {len(hidden_sizes)} levels; give one fewer than hidden_sizes")
    ticks = [*periods, math.ceil(window / math.prod(periods))]
    numbers = sum(n * size * (1 if level == 0 else 2) for level, (n, size) in enumerate(zip(ticks, hidden_sizes, strict=True)))
    return numbers / hidden_sizes[0]


def predict(
    hidden_sizes: Sequence[int],
    periods: Sequence[int],
    window: int,
    batch: int,
    *,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    decoder_units: int = 256,
    all_indices: bool = False,
    outputs: int = 3,
) -> int:
    """Bytes that `Restricted` takes for one window, above the model, its inputs and targets: float32, fixed periods, a linear
    head of `outputs` numbers. It adds up the buffers that the code allocates."""
    _check(periods, window)
    gates, parts, scratch, entering, recurrent = _CELLS[cell]
    levels, total, temporary = len(hidden_sizes), 0.0, 0.0
    sizes = [inputs, *hidden_sizes, 0]
    for level, size in enumerate(hidden_sizes):
        below, above = sizes[level], sizes[level + 2]
        reads_tokens = tokens and level == 0
        top = level == levels - 1
        ticks = math.ceil(window / math.prod(periods)) if top else periods[level]
        blocks = math.ceil(ticks / _BLOCK) if top else 1
        read = _TOKEN if reads_tokens else _FLOAT * below
        tick = _FLOAT * size * (gates + parts + scratch + 1) + read
        total += batch * (ticks * tick + blocks * _FLOAT * size * parts)
        total += batch * min(ticks, _BLOCK) * _FLOAT * size * (gates + (1 if cell == "lstm" else 0))  # differentiation
        weights = _FLOAT * size * (entering * (below + above) + recurrent * size)
        total += weights * (2 if cell == "lstm" else 1)  # gradients, and scaled copies
        if not top:
            reach, width = periods[level], (inputs if reads_tokens else below)
            total += _FLOAT * decoder_units * (size + width + reach)  # the decoder's gradients
            total += batch * reach * read  # history in the new state
            decoded = reach if all_indices else 1
            temporary = max(temporary, _FLOAT * batch * decoded * (3 * decoder_units + 3 * width))
    lowest = periods[0] if periods else _BLOCK
    temporary = max(temporary, _FLOAT * batch * lowest * (2 * hidden_sizes[0] + 3 * outputs))
    return int(total + temporary)


@dataclass(frozen=True)
class Plan:
    """A hierarchy that fits: predicted bytes, and the two counts."""

    hidden_sizes: list[int]
    periods: list[int]
    bytes: int
    paper_count: int
    exact_count: float


def plan(
    budget: int,
    window: int,
    batch: int,
    hidden: int | Sequence[int] = 256,
    depths: Sequence[int] = (2, 3, 4, 5),
    **options: Any,
) -> list[Plan]:
    """For each depth, the hierarchy with the smallest period that fits the budget in bytes: short segments are easier to
    summarise. `hidden` is the size of every level, or, from the lowest, of each (the last is repeated). An empty list:
    nothing fits. Further options are those of `predict`."""
    if budget < 1 or window < 1 or batch < 1:
        raise ValueError(f"budget, window and batch are {budget}, {window} and {batch}; each must be at least 1")
    found = []
    for depth in depths:
        sizes = [hidden] * depth if isinstance(hidden, int) else [*hidden, *[hidden[-1]] * depth][:depth]
        for period in range(2, max(2, math.isqrt(window)) + 1):
            periods = [period] * (depth - 1)
            if math.prod(periods) > window:
                break
            size = predict(sizes, periods, window, batch, **options)
            if size <= budget:
                found.append(Plan(sizes, periods, size, paper_count(periods, window), exact_count(sizes, periods, window)))
                break
    return found


def measure(maker: str = "hrnn.memory:one_window", *, children: int = 3, **arguments: Any) -> int:
    """Peak bytes of a window above the process's size before it, the median of several child processes.

    maker: "module:function"; called in the child with `arguments` (anything JSON holds), it returns a function of no
    arguments that runs a tiny window, to warm up, and one that runs the window to be measured. On a device the allocator's
    peak is taken, on the CPU the process's resident memory (Linux only).
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    sizes = []
    for _ in range(children):
        command = [sys.executable, "-c", "from hrnn.memory import _child; _child()", maker, json.dumps(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"measuring {maker} with {arguments} failed in the child process: {reason}")
        sizes.append(int(done.stdout.strip().splitlines()[-1]))
    return int(median(sizes))


def one_window(
    method: str = "restricted",
    hidden_sizes: Sequence[int] = (256, 256),
    periods: Sequence[int] = (10,),
    window: int = 784,
    batch: int = 100,
    inputs: int = 3,
    tokens: bool = True,
    cell: str = "lstm",
    indices: str = "sampled",
    device: str = "cpu",
) -> tuple[Callable[[], object], Callable[[], object]]:
    """What `measure` runs by default: a window of random inputs, a linear head, a target at every step, local losses."""
    import torch
    from torch.nn import functional as F

    import hrnn

    torch.manual_seed(0)
    gradients: dict[str, Any] = {"restricted": hrnn.Restricted(), "full": hrnn.Full()}
    if method not in gradients:
        raise ValueError(f"method is {method!r}; expected one of {sorted(gradients)}")
    model = hrnn.HRNN(hrnn.Tokens(inputs) if tokens else inputs, hidden_sizes, periods, cell=cell, indices=indices).to(device)
    head = torch.nn.Linear(hidden_sizes[0], 3).to(device)
    x = torch.randint(inputs, (window, batch)) if tokens else torch.randn(window, batch, inputs)
    x, y = x.to(device), torch.randint(3, (window, batch)).to(device)

    def loss(output: Any, target: Any) -> Any:
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    def run(steps: int) -> None:
        gradients[method].backward(model, x[:steps], y[:steps], loss=loss, betas=[1.0] * len(periods))
        for parameter in [*model.parameters(), *head.parameters()]:
            parameter.grad = None

    return lambda: run(2), lambda: run(window)


def _child() -> None:
    """The child process of `measure`: prints bytes."""
    import importlib

    import torch

    torch.set_num_threads(1)
    module, function = sys.argv[1].split(":")
    arguments = json.loads(sys.argv[2])
    warm_up, run = getattr(importlib.import_module(module), function)(**arguments)
    warm_up()
    device = torch.device(arguments.get("device", "cpu"))
    if device.type != "cpu":
        accelerator = torch.get_device_module(device)
        accelerator.reset_peak_memory_stats()
        before = accelerator.memory_allocated()
        run()
        print(accelerator.max_memory_allocated() - before)
        return
    before = start_of_peak()
    run()
    print(peak_since(before))


def start_of_peak() -> int:
    """Give back what is free, let the process's peak start anew, and return its resident bytes (Linux only)."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def peak_since(before: int) -> int:
    """How far the process's resident memory went above `before`, what `start_of_peak` returned."""
    return _status("VmHWM") - before


def memory_of_machine() -> int | None:
    """Bytes that a process can have here, with swap; None where the system does not say."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        entries = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        found.append(entries["MemTotal"] + entries.get("SwapTotal", 0))
    except (OSError, ValueError, KeyError, IndexError):
        pass
    for path in _LIMITS:
        try:
            found.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # none, or "max"
            continue
    return min(found, default=None)


def in_words(count: int) -> str:
    """Bytes as one says them: 3.2 TB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.3g} EB"


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def _check(periods: Sequence[int], window: int) -> None:
    if window < 1 or any(not isinstance(p, int) or p < 1 for p in periods):
        raise ValueError(f"window is {window} and periods {list(periods)}; each must be a whole number of at least 1")
