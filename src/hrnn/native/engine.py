"""What computes segments in this process, for a user to see and a run to record."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import hrnn.native as native


@dataclass(frozen=True)
class Engine:
    """What computes segments on the CPU. The same name, level and threads give the same bits; others need not.

    name:    "native", compiled C, or "torch", which also computes whatever native code does not know
    level:   the instruction set of native code: "avx512", "avx2" or "base"
    threads: torch's; None before torch is imported
    reason:  why it is this one
    """

    name: str
    level: str
    threads: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.short} ({self.reason})"

    @property
    def short(self) -> str:
        """All but the reason."""
        threads = "" if self.threads is None else f", {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.name} {self.level}".strip() + threads

    def entries(self) -> dict[str, str | int | None]:
        """The same, by name."""
        return {"name": self.name, "level": self.level, "threads": self.threads}


def engine() -> Engine:
    """The one in use, now. Does not import torch."""
    torch = sys.modules.get("torch")
    threads = None if torch is None else int(torch.get_num_threads())
    return Engine("torch" if native.library() is None else "native", native.level(), threads, native.reason())
