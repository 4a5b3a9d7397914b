"""hrnn memory: what a window needs by the paper's count, exactly, predicted, measured; and what fits a budget."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.table import Table

from hrnn import memory
from hrnn.commands.options import console, parse
from hrnn.errors import UserError

UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True)
class Memory:
    """What the gradient of one window needs: vectors per batch row by the paper's count, exactly, and bytes.

    Examples:
        hrnn memory --hidden-sizes 256 256 --periods 10 --window 784 --measure
        hrnn memory --hidden-sizes 128 --window 1000000 --batch 16 --budget 100MB
    """

    hidden_sizes: tuple[int, ...] = (256, 256)
    """Units of each level, the lowest first; with --budget, the last is repeated for deeper hierarchies."""
    periods: tuple[int, ...] = (10,)
    """Ticks of a level to one tick of the level above."""
    window: int = 784
    """Steps of the window."""
    batch: int = 100
    """Rows."""
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    """Cell of every level."""
    measure: bool = False
    """Measure bytes, too, of restricted and of true gradients, in child processes; takes the memory that it measures."""
    budget: str | None = None
    """Propose depths and periods whose window fits so many bytes, as in 200MB."""
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
        console().print(_table(rows))
    else:
        print(f"nothing fits {options.budget}; give more, a smaller --batch, or smaller --hidden-sizes")
    return 0


def _needs(options: Memory) -> list[dict[str, Any]]:
    """Restricted gradients beside true ones, for the same hierarchy and window."""
    sizes, periods, window = options.hidden_sizes, options.periods, options.window
    restricted: dict[str, Any] = {
        "gradient": "restricted",
        "paper_count": memory.paper_count(periods, window),
        "exact_count": memory.exact_count(sizes, periods, window),
        "predicted_bytes": memory.predict(sizes, periods, window, options.batch, cell=options.cell),
    }
    full: dict[str, Any] = {"gradient": "true", "paper_count": memory.paper_count((), window)}
    if options.measure:
        arguments: dict[str, Any] = {
            "hidden_sizes": sizes,
            "periods": periods,
            "window": window,
            "batch": options.batch,
            "cell": options.cell,
        }
        restricted["measured_bytes"] = memory.measure(method="restricted", **arguments)
        full["measured_bytes"] = memory.measure(method="full", **arguments)
    return [restricted, full]


def _plans(options: Memory) -> list[dict[str, Any]]:
    if options.measure or options.periods != Memory.periods:
        raise UserError("--budget proposes periods; give neither --periods nor --measure with it")
    found = memory.plan(
        _bytes(str(options.budget)), options.window, options.batch, hidden=options.hidden_sizes, cell=options.cell
    )
    return [asdict(plan) for plan in found]


def _bytes(text: str) -> int:
    """200MB as a number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", text.strip().lower())
    if not match:
        raise UserError(f"--budget is {text!r}; give bytes, as in 200MB or 1.5GB")
    return int(float(match[1]) * UNITS[match[2]])


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    made = Table(box=None, header_style="bold")
    for name in names:
        made.add_column(name.replace("_", " "), justify="left" if name == "gradient" else "right")
    for row in rows:
        made.add_row(*(_cell(name, row.get(name)) for name in names))
    return made


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("bytes"):
        return f"{value / 1e6:,.1f} MB"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else f"{value:,g}" if name != "gradient" else value
