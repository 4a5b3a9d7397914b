"""What a campaign found: defects with their reproduction, counts, and both as JSON and as a table."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- last campaign: begin -->", "<!-- last campaign: end -->"


@dataclass(frozen=True)
class Defect:
    """what: in a sentence, the same for the same mistake. reproduction: the shortest that was found, on one line."""

    what: str
    reproduction: str


@dataclass
class Summary:
    """What one part did (`counts`, by name) and found. A defect that shows again is counted, not repeated."""

    name: str
    calls: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    defects: list[Defect] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)  # by defect: how often it was seen
    seconds: float = 0.0

    def known(self, what: str) -> bool:
        """Was this defect found before? Then nobody needs to shrink it; it is counted."""
        self.again[what] += 1
        return self.again[what] > 1

    def found(self, problem: str | None, reproduction: str) -> None:
        """Add a problem, if there is one, unless it is known."""
        if problem and not self.known(problem):
            self.add(problem, reproduction)

    def add(self, what: str, reproduction: str) -> None:
        self.defects.append(Defect(what, " ".join(reproduction.split())))
        print(f"{self.name}: {what}: {self.defects[-1].reproduction}", file=sys.stderr, flush=True)  # not only at the end

    def to_json(self) -> dict[str, Any]:
        entries = {**vars(self), "defects": [asdict(defect) for defect in self.defects]}
        return {**entries, "counts": dict(self.counts), "again": dict(self.again)}

    @staticmethod
    def from_json(entries: dict[str, Any]) -> Summary:
        defects = [Defect(**defect) for defect in entries["defects"]]
        counters = {name: Counter(entries[name]) for name in ("counts", "again")}
        return Summary(**{**entries, "defects": defects, **counters})


class Limit:
    """How long a part goes on: seconds, a number of cases, or both, whichever comes first."""

    def __init__(self, seconds: float | None = None, cases: int | None = None, first: int = 0):
        if seconds is None and cases is None:
            raise ValueError("a limit needs seconds or cases")
        self.seconds, self.cases, self.first = seconds, cases, first

    def numbers(self) -> Iterator[int]:
        """Numbers of cases, from the first on, until the limit is reached."""
        began, number = time.monotonic(), self.first
        while (self.cases is None or number < self.first + self.cases) and (
            self.seconds is None or time.monotonic() < began + self.seconds
        ):
            yield number
            number += 1


def draw(seed: int, part: str, number: int) -> random.Random:
    """The random choices of a case: of these three and of nothing that came before."""
    return random.Random(f"{seed}/{part}/{number}")


def write_json(path: Path, summaries: Iterable[Summary], facts: dict[str, Any]) -> None:
    parts = [summary.to_json() for summary in summaries]
    path.write_text(json.dumps({**facts, "parts": parts}, indent=1) + "\n")


def markdown(summaries: Sequence[Summary], facts: dict[str, Any]) -> str:
    """The facts in a line, a row for each part, a line for each defect."""
    lines = [", ".join(f"{name}: {value}" for name, value in facts.items()) + ".", ""]
    lines += ["| part | calls | what | defects |", "| --- | ---: | --- | ---: |"]
    for summary in summaries:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(summary.counts.items()))
        lines.append(f"| {summary.name} | {summary.calls:,} | {counts} | {len(summary.defects)} |")
    for summary in summaries:
        for defect in summary.defects:
            seen = f" ({summary.again[defect.what]} times)" if summary.again[defect.what] > 1 else ""
            lines += ["", f"- {summary.name}: {defect.what}{seen}: `{defect.reproduction}`"]
    return "\n".join(lines) + "\n"


def write_between(path: Path, text: str) -> None:
    """Replace what stands between the two markers of a page."""
    page = path.read_text()
    if BEGIN not in page or END not in page:
        raise ValueError(f"{path} has no markers {BEGIN} and {END}")
    inside = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    path.write_text(inside.sub(lambda _: f"{BEGIN}\n{text}{END}", page))
