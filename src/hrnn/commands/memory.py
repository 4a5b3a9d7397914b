"""hrnn memory: what a window needs by the paper's count, exactly, predicted, measured; and what fits a budget."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hrnn import memory, room
from hrnn.commands.options import console, parse
from hrnn.errors import DONE, FAILED, UserError
from hrnn.limits import LEVELS, at_least, in_bytes, option
from hrnn.report.table import Table

LONGEST = 10**9  # steps of a window; beyond it the planner would search for minutes


@dataclass(frozen=True)
class Memory:
    """What the gradient of one window needs: vectors per batch row by the paper's count, exactly, and bytes.

    Examples:
        hrnn memory --hidden-sizes 256 256 --periods 10 --window 784 --measure
        hrnn memory --hidden-sizes 128 --window 1000000 --batch 16 --budget 100MB
    """

    hidden_sizes: tuple[int, ...] = option((256, 256), at_least(1, entries=LEVELS))
    """Units of each level, the lowest first; with --budget, the last is repeated for deeper hierarchies."""
    periods: tuple[int, ...] = option((10,), at_least(1, entries=LEVELS))
    """Ticks of a level to one tick of the level above."""
    window: int = option(784, at_least(1, LONGEST))
    """Steps of the window."""
    batch: int = option(100, at_least(1))
    """Rows."""
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    """Cell of every level."""
    measure: bool = False
    """Measure bytes, too, of restricted and of true gradients, in child processes; takes the memory that it measures."""
    budget: str | None = None
    """Propose depths and periods whose window fits so many bytes, as in 200MB or 500MiB."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Memory, "memory", arguments)
    try:
        rows = _plans(options) if options.budget is not None else _needs(options)
    except (ValueError, RuntimeError) as error:
        raise UserError(str(error)) from None
    if options.json:
        print(json.dumps(rows))
    elif rows:
        console().print(_table(rows).terminal())
    if not rows:
        remedy = "give more, a smaller --batch, or smaller --hidden-sizes"
        print(f"hrnn: nothing fits {options.budget}; {remedy}", file=sys.stderr)
    return DONE if rows else FAILED


def _needs(options: Memory) -> list[dict[str, Any]]:
    """Restricted gradients beside true ones, for the same hierarchy and window."""
    sizes, periods, window, batch = options.hidden_sizes, options.periods, options.window, options.batch
    restricted: dict[str, Any] = {
        "gradient": "restricted",
        "paper_count": memory.paper_count(periods, window),
        "exact_count": memory.exact_count(sizes, periods, window),
        "predicted_bytes": memory.predict(sizes, periods, window, batch, cell=options.cell),
    }
    full: dict[str, Any] = {"gradient": "true", "paper_count": memory.paper_count((), window)}
    if options.measure:
        _require_room(options, restricted["predicted_bytes"])
        shape: dict[str, Any] = {"hidden_sizes": sizes, "periods": periods, "window": window, "batch": batch}
        for row, method in ((restricted, "restricted"), (full, "full")):
            row["measured_bytes"] = memory.measure(method=method, cell=options.cell, **shape)
    return [restricted, full]


def _require_room(options: Memory, predicted: int) -> None:
    """Refuse to measure what surely does not fit; true gradients keep every tick of the lowest level."""
    there = room.memory_of_machine()
    needed = max(predicted, 4 * options.window * options.batch * options.hidden_sizes[0])
    if there is not None and needed > there:
        raise UserError(
            f"measuring needs about {room.in_words(needed)} and this machine has {room.in_words(there)}; give a smaller "
            "--window, --batch or --hidden-sizes, or drop --measure"
        )


def _plans(options: Memory) -> list[dict[str, Any]]:
    if options.measure or options.periods != Memory.periods:
        raise UserError("--budget proposes periods; give neither --periods nor --measure with it")
    budget = in_bytes(str(options.budget), "--budget")
    plans = memory.plan(budget, options.window, options.batch, hidden=options.hidden_sizes, cell=options.cell)
    return [{**asdict(plan), "batch": options.batch} for plan in plans]


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    heads = [name.replace("_", " ") for name in names]
    return Table(heads, [[_cell(name, row.get(name)) for name in names] for row in rows], words=["gradient"])


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("bytes"):
        return f"{value / 1e6:,.1f} MB"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else f"{value:,g}" if name != "gradient" else value
