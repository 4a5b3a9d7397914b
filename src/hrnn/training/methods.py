"""Gradient methods by name, as --gradient has them: `replay:0.2` is a name and its knob."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hrnn.errors import UserError, shortened
from hrnn.gradients import Checkpointed, Full, Gradient, Restricted, Synthetic, Truncated
from hrnn.hierarchy import HRNN
from hrnn.recomputation import TooLittleError
from hrnn.room import byte_count


@dataclass(frozen=True)
class Method:
    """A method: how a hierarchy gets it, with its knob if it has one; and how many steps of a window it keeps, `restricted`: of
    the levels below the top only some."""

    make: Callable[[HRNN, Any], Gradient]
    knob: Callable[[str], Any] | None = None
    needed: bool = False  # is there no method without a knob?
    restricted: bool = True
    keeps: Callable[[int, Any], int] = lambda window, knob: window
    example: str = ""


def _steps(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise ValueError
    return int(text)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


METHODS: dict[str, Method] = {
    "restricted": Method(lambda model, knob: Restricted()),
    "full": Method(lambda model, knob: Full(), restricted=False),
    "truncated": Method(
        lambda model, knob: Truncated(knob),
        _steps, True, False, lambda window, knob: min(window, knob), "truncated:50, so many steps",
    ),
    "checkpointed": Method(
        lambda model, knob: Checkpointed(bytes=knob),
        byte_count, False, False, lambda window, knob: math.isqrt(window), "checkpointed, or checkpointed:100MB",
    ),
    "checkpointed-top": Method(lambda model, knob: Restricted(top="checkpointed")),
    "replay": Method(
        lambda model, knob: Restricted(replay=knob),
        _share, True, True, lambda window, knob: math.isqrt(window), "replay:0.2, a probability",
    ),
    "synthetic": Method(lambda model, knob: Synthetic(model)),
}  # fmt: skip


def parsed(text: str) -> tuple[Method, Any]:
    """A method and its knob, or a sentence that says what would do."""
    name, _, value = text.partition(":")
    method = METHODS.get(name)
    if method is None:
        raise UserError(f"--gradient is {shortened(text)!r}; give one of {', '.join(METHODS)}")
    if not value and not method.needed:
        return method, None
    try:
        if not value or method.knob is None:
            raise ValueError
        return method, method.knob(value)
    except ValueError:
        remedy = f"give {method.example}" if method.knob else f"give {name}, which has no knob"
        raise UserError(f"--gradient is {shortened(text)!r}; {remedy}") from None


@contextmanager
def enough_memory(gradient: str | None) -> Iterator[None]:
    """Of what a method was given, it knows only at a window whether it will do."""
    try:
        yield
    except TooLittleError as error:
        raise UserError(f"--gradient is {shortened(gradient)!r}: {error}") from None
