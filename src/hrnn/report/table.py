"""Tables: heads and rows of text, shown in a terminal or written as Markdown, and how their numbers read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import rich.table
from rich.markup import escape


@dataclass(frozen=True)
class Table:
    """words: the heads of columns that hold words; all others hold numbers, which stand at the right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Collection[str] = ()
    title: str = ""
    notes: Sequence[str] = ()  # below the table

    def markdown(self) -> str:
        """The grid alone."""
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def terminal(self) -> rich.table.Table:
        grid = rich.table.Table(title=self.title or None, box=None, header_style="bold", caption_justify="left")
        grid.caption = "\n".join(self.notes) or None
        for place, head in enumerate(self.heads):  # the first column has the names that somebody types next
            grid.add_column(head, justify="left" if head in self.words else "right", overflow="fold", no_wrap=place == 0)
        for row in self.rows:
            grid.add_row(*(escape(_printable(cell)) for cell in row))
        return grid


def _printable(text: str) -> str:
    """What a file of somebody else says must not steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def mean_and_spread(mean: float, spread: float | None, digits: int) -> str:
    """spread: None of a single run"""
    return number(mean, digits) + ("" if spread is None else f" ± {number(spread, digits)}")
