"""What tells two configurations, as JSON, apart. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hrnn.errors import shortened


def flat(entries: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested entries by their path, such as "task.data"."""
    found: dict[str, Any] = {}
    for name, value in entries.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def in_words(
    there: dict[str, Any],
    here: dict[str, Any],
    ignored: Sequence[str] = (),
    pattern: str = "{name} is {there} there and {here} here",
) -> str:
    """The first few options in which configurations as JSON differ; ignored: options by their path, such as "task.data"."""
    first, second = flat(there), flat(here)
    named = [
        pattern.format(name=name, there=shortened(first.get(name)), here=shortened(second.get(name)))
        for name in sorted(first.keys() | second.keys())
        if name not in ignored and first.get(name) != second.get(name)
    ]
    return "; ".join(named[:3]) + ("; ..." if len(named) > 3 else "")


def edited_paths(before: dict[str, Any], after: dict[str, Any], data: dict[str, Any] | None) -> list[str]:
    """Options of a task that say where its data are: a user who moves data edits these, and nothing else.

    before: the task's entries when the run began, whose data were these
    """
    places = {Path(path) for path in data or {}}
    places |= {path.parent for path in places}

    def names_data(value: Any) -> bool:
        several = value if isinstance(value, list) else [value]
        return bool(several) and all(isinstance(one, str) and Path(one).absolute() in places for one in several)

    return [f"task.{name}" for name, value in before.items() if name in after and name != "name" and names_data(value)]
