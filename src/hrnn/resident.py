"""How much memory a process has come to take, and how much a window takes in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from hrnn.arguments import flag, shown, whole
from hrnn.room import check_fits
from hrnn.telling import followed


def measure(maker: str = "hrnn.resident:one_window", *, children: int = 3, **arguments: Any) -> int:
    """Peak bytes of a window above the process's size before it, the median of several child processes.

    maker: "module:function"; called in the child with `arguments` (anything JSON holds), it returns a function of no
    arguments that runs a tiny window, to warm up, and one that runs the window to be measured. On a device the allocator's
    peak is taken, on the CPU the process's resident memory (Linux only).
    """
    if not isinstance(maker, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+", maker):
        raise ValueError(f"maker is {shown(maker)}; give 'module:function'")
    children = whole("children", children)
    try:
        given = json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        raise TypeError(f"arguments is {shown(arguments)}; give what JSON can hold") from None
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    sizes = []
    for _ in followed("measuring", range(children), "child processes"):
        command = [sys.executable, "-c", "from hrnn.resident import child; child()", maker, given]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"measuring {maker} with {shown(arguments)} failed in the child process: {reason[:200]}")
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
    output: str = "lowest",
    reads: str = "summary",
    context: str = "input",
    burn_in: int = 0,
    segments: int | None = None,
    device: str = "cpu",
    **options: Any,
) -> tuple[Callable[[], object], Callable[[], object]]:
    """What `measure` runs by default: a window of random inputs, a linear head, a target at every step, local losses of levels
    whose summary is read. method: "restricted", "full", "truncated" or "checkpointed"; further options are its own."""
    import torch
    from torch.nn import functional as F

    from hrnn.gradients import Checkpointed, Full, Restricted, Truncated
    from hrnn.hierarchy import HRNN, Tokens
    from hrnn.tensors import device_of

    torch.manual_seed(0)
    methods: dict[str, Any] = {
        "restricted": Restricted, "full": Full, "truncated": Truncated, "checkpointed": Checkpointed
    }  # fmt: skip
    if not isinstance(method, str) or method not in methods:
        raise ValueError(f"method is {shown(method)}; expected one of {sorted(methods)}")
    gradient = methods[method](**options)
    window, batch, inputs = whole("window", window), whole("batch", batch), whole("inputs", inputs)
    flag("tokens", tokens)
    check_fits(f"window is {window} and batch {batch}", window * batch * (16 if tokens else 8 + 4 * inputs))
    model = HRNN(
        Tokens(inputs) if tokens else inputs, hidden_sizes, periods, cell=cell, indices=indices, output=output, reads=reads,
        context=context, burn_in=burn_in, segments=segments,
    )  # fmt: skip
    betas = [float(model.edges.sends(level)) for level in range(len(periods))]
    model = model.to(device_of(device))
    head = torch.nn.Linear(model.output_size, 3).to(device)
    x = torch.randint(inputs, (window, batch)) if tokens else torch.randn(window, batch, inputs)
    x, y = x.to(device), torch.randint(3, (window, batch)).to(device)

    def loss(output: Any, target: Any) -> Any:
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    def run(steps: int) -> None:
        gradient.backward(model, x[:steps], y[:steps], loss=loss, betas=betas)
        for parameter in [*model.parameters(), *head.parameters()]:
            parameter.grad = None

    return lambda: run(3), lambda: run(window)


def child() -> None:
    """The child process of `measure`: prints bytes."""
    keep_large_blocks_apart()
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


def keep_large_blocks_apart() -> None:
    """Let malloc map blocks of 128 kB and more one by one, as it does to begin with.

    When such a block is freed, it puts the next ones of that size into its heap, between small objects, and how many holes are
    left there is chance: the same window of 27 MB then took 30 to 34 MB, differently in every process.
    """
    threshold = -3  # M_MMAP_THRESHOLD of malloc.h
    ctypes.CDLL(None).mallopt(threshold, 128 * 1024)


def start_of_peak() -> int:
    """Give back what is free, let the process's peak start anew, and return its resident bytes (Linux only)."""
    gc.collect()  # what is garbage already would be used again, and the peak look smaller than it is
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def peak_since(before: int) -> int:
    """How far the process's resident memory went above `before`, what `start_of_peak` returned."""
    return _status("VmHWM") - before


def peak_of_process() -> int | None:
    """The most resident bytes that this process has had so far; None where the system does not say."""
    try:
        return _status("VmHWM")
    except (OSError, StopIteration):
        return None


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024
