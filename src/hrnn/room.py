"""What a model takes, and what the machine has: weights and bytes, before anything is made. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path

CELLS = {"lstm": (4, 2, 1, 4, 4), "gru": (4, 1, 0, 3, 3), "rnn": (1, 1, 0, 1, 1)}  # gates, state, scratch, entering, hidden
OBJECTS = 9_000  # bytes of the views that are kept of a tick
OVERHEAD = 2_000_000  # what a first window takes of allocators, libraries and interpreter, whatever its size
MOST_AT_ONCE = 1000  # segments, whoever says so: beyond it nothing is quicker
AT_ONCE, ENOUGH = 2_500_000, 8  # bytes, batches or segments that are differentiated together
SIDE_BY_SIDE = 8_000_000  # bytes of segments that share a batch
_ALIKE = 4096  # steps that are scheduled at once, where rows are alike
_SHOWN = 2**18  # numbers of the output that a loss is shown at once
BACKWARD_TICKS = 16  # how many ticks are differentiated at once: bounds the temporaries, whatever a block's length
_POWERS = ["", "k", "m", "g", "t"]  # of bytes, as users write them
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def weight_numbers(
    hidden_sizes: Sequence[int],
    reaches: Sequence[int],
    cells: Sequence[str | None],
    *,
    inputs: int,
    decoder_layers: Sequence[int],
    decoder_units: Sequence[int],
    decoders: bool,
    reads: Sequence[str] = (),
    context: Sequence[str] = (),
    readers: Sequence[str | None] = (),
) -> int:
    """How many weights a model has, those of cells and readers with other names than the built-in ones left out."""
    reads, context = reads or ["summary"] * len(reaches), context or ["input"] * len(reaches)
    sizes, total = input_sizes(inputs, hidden_sizes, reads), 0
    above = [*hidden_sizes[1:], 0]
    for level, (cell, enters) in enumerate(zip(cells, [*context, "input"], strict=True)):
        if cell in CELLS:
            total += cell_numbers(str(cell), sizes[level], above[level] * (enters == "input"), hidden_sizes[level])
            total += (above[level] + 1) * hidden_sizes[level] * CELLS[str(cell)][1] if enters == "state" else 0
    for level, reader in enumerate(readers, start=1):
        total += 0 if reader is None else reader_numbers(reader, inputs, hidden_sizes[level], reaches[:level])
    for level, reach in enumerate(reaches if decoders else []):
        if reads[level] == "inputs":
            continue
        layers, units, outputs = decoder_layers[level], decoder_units[level], sizes[level]
        first = units if layers > 1 else outputs
        total += first * (hidden_sizes[level] + reach + 1)
        total += 0 if layers == 1 else (layers - 2) * units * (units + 1) + (units + 1) * outputs
    return total


def input_sizes(inputs: int, hidden_sizes: Sequence[int], reads: Sequence[str]) -> list[int]:
    """Numbers of what each level reads at a tick, the context left out."""
    above = zip(hidden_sizes, hidden_sizes[1:], reads, strict=False)
    return [inputs, *(below * (one != "inputs") + own * (one != "summary") for below, own, one in above)]


def reader_numbers(reader: str, inputs: int, size: int, reaches: Sequence[int]) -> int:
    """Weights of a level's reader."""
    width = size // 2 if reader == "maximum" else size
    sizes = [inputs, *[size] * (len(reaches) - 1)]
    return sum(width * (reach * one + 1) + (size - width) * (one + 1) for reach, one in zip(reaches, sizes, strict=True))


def cell_numbers(cell: str, below: int, above: int, size: int) -> int:
    _, _, _, entering, recurrent = CELLS[cell]
    return size * (entering * (below + above + 1) + recurrent * size)


def output_size(hidden_sizes: Sequence[int], output: str) -> int:
    """Numbers of a hierarchy's output, for each step and row; output: "lowest" or "all" levels."""
    return sum(hidden_sizes) if output == "all" else hidden_sizes[0]


def segment_bytes(cell: str, size: int, period: int, rows: int, numbers: int, width: int = 4) -> int:
    """What one segment of a level takes until it is differentiated, and while it is, with what Python keeps of its ticks:
    `numbers` of an input, `width` bytes of a number."""
    gates, parts, scratch, _, _ = CELLS[cell]
    kept = gates + parts + scratch + 1
    return period * (rows * width * (size * (kept + gates + 1) + 2 * numbers) + OBJECTS)


def segments_at_once(cell: str, size: int, period: int, rows: int, numbers: int, width: int = 4) -> int:
    """How many segments of the lowest level are run before they are differentiated, unless somebody says otherwise: as many as
    take 2.5 MB, of which a small network has many."""
    return max(1, min(ENOUGH, AT_ONCE // segment_bytes(cell, size, period, rows, numbers, width)))


def batches_at_once(size: int, steps: int, batches: int, width: int = 4) -> int:
    """The same without compiled code, of so many batches that have so many steps of all rows."""
    return max(1, min(ENOUGH, AT_ONCE * max(1, batches) // max(1, 10 * size * width * steps)))


def side_by_side(size: int, period: int, rows: int) -> int:
    """How many segments of a level whose summary nobody reads share a batch, unless somebody says otherwise: as many as take
    8 MB in float32, of all rows."""
    return max(1, min(MOST_AT_ONCE, SIDE_BY_SIDE // (10 * size * 4 * period * max(1, rows))))


def round_of(size: int, steps: int) -> int | None:
    """Steps of the rounds in which a window is gone through where rows are alike and a segment of the level below the top has
    `size` steps: rounds that are alike share a schedule. None: all at once."""
    return None if steps <= 2 * _ALIKE else _ALIKE // size * size or _ALIKE


def ticks_at_once(parts: Sequence[int], numbers: int, size: int, rows: int) -> int:
    """Ticks, of one row if there are `rows` that are alike, whose raw inputs are read at once: as many as take 2.5 MB. parts:
    as a reader has them; each gives a vector."""
    vectors = sum(prod(parts[:stage]) for stage in range(len(parts)))
    return max(1, AT_ONCE // (4 * max(1, rows) * (2 * prod(parts) * numbers + 3 * size * vectors)))


def shown_at_once(rows: int, size: int) -> int:
    """Steps of the output that a loss is shown at a time, where a piece of a window is differentiated: about a megabyte, and
    the loss's own graph does not grow with the piece."""
    return max(1, min(1024, _SHOWN // (rows * size)))


def ceiling(a: int, b: int) -> int:
    """a over b, rounded up."""
    return -(-a // b)


def complete_segments(periods: Sequence[int], steps: int) -> int:
    """How many segments of the lowest level can be differentiated together, in so many steps: they end with the one above."""
    return max(1, min([steps // periods[0], *periods[1:2]])) if periods else 1


def group_size(complete: int, most: int) -> int:
    """Segments of a group, of so many that are complete: groups are about equal."""
    return ceiling(complete, ceiling(complete, most))


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


def check_fits(what: str, size: int) -> None:
    """Refuse what takes more bytes than the machine has; `what` names the arguments and their values."""
    if size > 1 << 28:  # less is not worth asking the system
        room = memory_of_machine()
        if room is not None and size > room:
            raise ValueError(f"{what}: that takes {in_words(size)} and this machine has {in_words(room)}; give smaller numbers")


def in_words(count: int) -> str:
    """Bytes as one says them: 3.2 TB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.3g} EB"


def byte_count(text: str) -> int:
    """200MB as a number; KiB, MiB and GiB are powers of 1024. A ValueError says no more: the caller knows the option."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if not match or (match[3] and not match[2]):
        raise ValueError(text)
    count = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS.index(match[2]))
    if not 1 <= count < 2**63:
        raise ValueError(text)
    return count
