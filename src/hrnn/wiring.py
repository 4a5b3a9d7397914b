"""Who reads what: the edges between the levels of a hierarchy, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hrnn.segments import Period, reach_of

READS = ("summary", "inputs", "both")
CONTEXTS = ("input", "state")


@dataclass(frozen=True)
class Wiring:
    """periods: of each level below the top. reads: what each level above the lowest reads of the level below: the "summary",
    its hidden state; the raw "inputs" of its segment that has just ended; or "both". burn_in: inputs that the lowest level
    reads once more before a segment's own. segments: of each level below the top, how many consecutive segments of a row share
    a batch"""

    periods: tuple[Period, ...]
    reads: tuple[str, ...]
    burn_in: int = 0
    segments: tuple[int, ...] = ()

    @staticmethod
    def of_summaries(periods: Sequence[Period]) -> Wiring:
        """The paper's."""
        return Wiring(tuple(periods), ("summary",) * len(periods), 0, (1,) * len(periods))

    @property
    def plain(self) -> bool:
        """Is it the paper's?"""
        return self.highest == 0

    @property
    def cuts(self) -> bool:
        """Does anything hidden go up, whose gradient can be cut?"""
        return any(self.sends(level) for level in range(len(self.periods)))

    def sends(self, level: int) -> bool:
        """Is the summary of a level below the top read?"""
        return self.reads[level] != "inputs"

    def takes(self, level: int) -> bool:
        """Does a level read raw inputs of the segment below?"""
        return level > 0 and self.reads[level - 1] != "summary"

    def leads(self, level: int) -> bool:
        """Does a level need nothing hidden of the levels below, so that all ticks of a batch can run before these?"""
        return level > 0 and self.reads[level - 1] == "inputs"

    def shares(self, level: int) -> bool:
        """May several segments of a row, of a level below the top, share a batch? Each then begins from its context alone."""
        return self.leads(level + 1) and (level == 0 or self.leads(level))

    @property
    def highest(self) -> int:
        """The highest level that reads raw inputs; 0: none."""
        return max((level for level in range(1, len(self.reads) + 1) if self.takes(level)), default=0)

    def parts(self, level: int) -> tuple[int, ...]:
        """Of the segment that a level reads raw inputs of: how many parts it has, how many these have, and so on down to the
        inputs of a segment of the lowest level."""
        return tuple(reach_of(period) for period in reversed(self.periods[:level]))

    def places(self, level: int) -> int:
        """Raw inputs that a level reads at a tick."""
        return prod(self.parts(level)) if self.takes(level) else 0
