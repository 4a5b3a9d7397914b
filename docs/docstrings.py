"""For the API reference: lines of `name: what it is` in a docstring become a list, as Markdown has it."""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): +(\S.*)")


class Entries(griffe.Extension):
    """A paragraph of entries, each with further lines that are indented; where there is one entry only, they need not be."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = "\n\n".join(map(as_list, obj.docstring.value.split("\n\n")))


def as_list(paragraph: str) -> str:
    lines = paragraph.split("\n")
    entries = [ENTRY.fullmatch(line) for line in lines]
    further = [line for line, entry in zip(lines, entries, strict=True) if not entry]
    if not entries[0] or (sum(map(bool, entries)) > 1 and not all(line.startswith("  ") for line in further)):
        return paragraph
    return "\n".join(f"- `{e[1]}`: {e[2]}" if e else f"    {line.strip()}" for e, line in zip(entries, lines, strict=True))
