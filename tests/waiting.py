"""Waiting for a condition, never for a time: how long is up to the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 1200  # seconds, which only end a hang


def wait_for(condition: Callable[[], T], what: str) -> T:
    """Its value, as soon as that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found
