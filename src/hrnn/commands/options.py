"""From arguments to a dataclass of options, for every command alike."""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Sequence
from typing import TypeVar

import tyro
from rich.console import Console

from hrnn.launch import is_first_process

T = TypeVar("T")


def parse(kind: type[T], command: str, arguments: Sequence[str], description: str | None = None) -> T:
    """Options by their own names, without those of the dataclasses around them; a mistake ends with exit code 2."""
    with contextlib.ExitStack() as silence:
        if not is_first_process():
            for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
                silence.enter_context(redirect(io.StringIO()))
        return tyro.cli(
            kind,
            prog=f"hrnn {command}",
            args=list(arguments),
            description=description or inspect.cleandoc(kind.__doc__ or ""),
            config=(tyro.conf.OmitArgPrefixes,),
        )


def console() -> Console:
    """Where tables go. A pipe has no width of its own, and 80 columns would break the rows of a table."""
    return Console(width=None if sys.stdout.isatty() else 160)
