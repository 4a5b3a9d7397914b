"""From arguments to a dataclass of options, for every command alike."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TypeVar

import tyro

T = TypeVar("T")


def parse(kind: type[T], command: str, arguments: Sequence[str], description: str | None = None) -> T:
    """Options by their own names, without those of the dataclasses around them; a mistake ends with exit code 2."""
    return tyro.cli(
        kind,
        prog=f"hrnn {command}",
        args=list(arguments),
        description=description or inspect.cleandoc(kind.__doc__ or ""),
        config=(tyro.conf.OmitArgPrefixes,),
    )
