"""The commands and the code that README.md and docs/ show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))


def text_of(page: Path) -> str:
    """A page with the files that it includes."""
    included = r'^--8<-- "([^":]+)[^"]*"$'
    return re.sub(included, lambda found: (ROOT / found[1]).read_text(), page.read_text(), flags=re.M)


def code_in(page: Path) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)


def lines_in(page: Path, section: str = "") -> list[str]:
    """The command lines of a page's shell blocks, or of those of one section, without their comments."""
    text = page.read_text()
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    blocks = "".join(re.findall(r"```(?:sh|console)\n(.*?)```", text, flags=re.S))
    return re.findall(r"^((?:hrnn|python|torchrun) .+?)(?:  +#.*)?$", blocks, re.MULTILINE)


def arguments_of(line: str) -> list[str] | None:
    """What `hrnn` is given by a command line, also by one of torchrun; None where it does not start it."""
    words = shlex.split(line)
    return words[words.index("hrnn") + 1 :] if "hrnn" in words else None
