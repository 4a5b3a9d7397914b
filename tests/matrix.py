"""The tests under other circumstances than those of make test; what came of it are rows of a table in docs/reliability.md."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from hrnn.studies.results import processor

ROOT = Path(__file__).parents[1]
PAGE, BEGIN, END = ROOT / "docs" / "reliability.md", "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
HEAD = """\
| variant | with | passed | failed | skipped | minutes | when and where |
| --- | --- | ---: | ---: | ---: | ---: | --- |
"""
OLDEST = ROOT / ".venv-oldest" / "bin" / "python"

# By name: variables of the environment (None: not set) and arguments of pytest.
VARIANTS: dict[str, tuple[dict[str, str | None], str]] = {
    "plain": ({}, ""),
    "torch": ({"HRNN_NATIVE": "0"}, ""),
    "avx2": ({"HRNN_LEVEL": "avx2"}, ""),
    "base": ({"HRNN_LEVEL": "base"}, ""),
    "one": ({}, "--numprocesses 0"),
    "four": ({}, "--numprocesses 4"),
    "order": ({}, f"--random-order --random-order-seed {random.randrange(10**6)}"),
    "threads": ({"OMP_NUM_THREADS": None}, ""),
    "home": ({"HOME": "/sys"}, ""),  # where root cannot write either
    "umlaut": ({"TMPDIR": "{scratch}/für alle Läufe"}, ""),
    "locale": ({"LANG": "C", "LC_ALL": "C"}, ""),
    "warnings": ({"PYTHONWARNINGS": "error"}, ""),
    "oldest": ({}, ""),  # in an environment of its own
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("variants", nargs="*", metavar="variant", help=f"of {', '.join(VARIANTS)}; by default all of them")
    parser.add_argument("--workers", type=int, default=2, help="of the variants that do not say how many")
    options = parser.parse_args()
    if unknown := set(options.variants) - set(VARIANTS):
        parser.error(f"no variant is called {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    return max([run(name, options.workers) for name in options.variants or VARIANTS])


def run(name: str, workers: int) -> int:
    """Run a variant and write its row; pytest's exit code."""
    variables, arguments = VARIANTS[name]
    words = [f"{key} unset" if value is None else f"{key}={value.format(scratch='...')}" for key, value in variables.items()]
    described = f"`{' '.join([*words, *arguments.split()])}`" if words or arguments else ""
    described = "`constraints-oldest.txt`" if name == "oldest" else described or "as `make test`"
    print(f"{name}: {described}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        given = {key: value and value.format(scratch=scratch) for key, value in variables.items()}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **given}
        Path(given.get("TMPDIR") or scratch).mkdir(exist_ok=True)
        python = OLDEST if name == "oldest" else sys.executable
        command = [python, "-m", "pytest", f"--junitxml={report}", f"--numprocesses={workers}", *arguments.split()]
        code = subprocess.run(command, cwd=ROOT, env={k: v for k, v in environment.items() if v is not None}).returncode
        suite = ElementTree.parse(report).getroot()[0]
    tests, skipped, failures, errors = (int(suite.get(key, 0)) for key in ("tests", "skipped", "failures", "errors"))
    failed, minutes = failures + errors, f"{float(suite.get('time', 0)) / 60:.1f}"
    cells = [name, described, tests - failed - skipped, failed, skipped, minutes, f"{date.today()}, {processor()}"]
    write(name, f"| {' | '.join(map(str, cells))} |\n")
    return code


def write(name: str, row: str) -> None:
    """Into the table of the page, in place of what this variant had there."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split()[1]: line for line in table.splitlines(keepends=True)[2:]} | {name: row}
    kept = "".join(rows[known] for known in VARIANTS if known in rows)
    PAGE.write_text(before + BEGIN + HEAD + kept + END + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
