"""How much memory a process has come to take."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import sys


def child() -> None:
    """The child process of `hrnn.memory.measure`: prints bytes."""
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
