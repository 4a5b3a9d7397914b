"""The commands and the code that README.md and docs/ show, and how tests make them shorter.

HRNN_DOCS_UPDATES says how many updates a training command or a training loop of a page may take in tests, 2 where it is not
set; `all` leaves them as they stand.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")))
UPDATES = os.environ.get("HRNN_DOCS_UPDATES", "2")

# What a page needs beside hrnn[cli,data]: packages, by the extra that brings them.
EXTRAS = {"export.md": ("onnx", "onnx", "onnxruntime", "onnxscript"), "estimators.md": ("dev", "pandas")}

# Options that come last win.
_FEWER = {
    "train": ["--batch", "10", "--updates", UPDATES, "--no-tensorboard", "--overwrite"],
    "resume": ["--updates", f"{UPDATES}0"],
    "sample": ["--length", "5"],
    "memory": ["--no-measure"],
}


def require(page: Path) -> None:
    """Skip a page whose code needs what is not installed."""
    extra, *packages = EXTRAS.get(page.name, ("",))
    for package in packages:
        pytest.importorskip(package, reason=f'{package} is not installed: pip install "hrnn[{extra}]"')


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
    lines = "".join(re.findall(r"```(?:sh|console)\n(.*?)```", text, flags=re.S)).replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s+)#.*$", "", line).removeprefix("$ ") for line in lines) if line]


def arguments_of(line: str) -> list[str] | None:
    """What `hrnn` is given by a command line, also by one of torchrun; None where it does not start it."""
    words = shlex.split(line)
    return words[words.index("hrnn") + 1 :] if "hrnn" in words else None


def shorter_code(code: str) -> str:
    """Loops over updates or windows, budgets, scales of an experiment and long windows, cut down."""
    if UPDATES == "all":
        return code
    code = re.sub(r"(for (?:window|update) in range)\(\d+\)", rf"\1({UPDATES})", code)
    return re.sub(r"updates=\d+", f"updates={UPDATES}", code).replace("scale=0.01", "scale=0.001").replace("2_000", "200")


def shorter_command(words: list[str]) -> list[str]:
    """The arguments of hrnn with a few updates of a small network."""
    if UPDATES == "all":
        return words
    for option, number in (("--hidden-sizes", "8"), ("--steps", "30")):
        at = words.index(option) + 1 if option in words else len(words)
        sizes = len(words[at:]) - len(" ".join(words[at:]).lstrip("0123456789 ").split()) if at < len(words) else 0
        words = [*words[:at], *[number] * sizes, *words[at + sizes :]]
    if words[:2] in (["train", "text"], ["train", "needle"]) and "--hidden-sizes" not in words:
        words = [*words, "--hidden-sizes", "8", "8"]
    if words[:2] in (["train", "copy"], ["train", "needle"]):
        words = [*words, "--test-sequences", "20"]
    if words[0] == "evaluate" and "copy" in words[1]:
        return [*words, "--length", "5"]  # so few updates solve none
    return [*words, *_FEWER.get(words[0], [])]
