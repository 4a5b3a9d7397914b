"""Run campaigns for a stated time; exit code 1 if there are defects."""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from campaigns.defects import Defect, Limit, Summary, markdown, write_between, write_json
from campaigns.forked import be_patient, forked, warm

# Shares of the time, by what a case costs and how many are wanted.
SHARES = {"commands": 0.45, "kills": 0.2, "disk": 0.1, "damage": 0.1, "links": 0.1, "api": 0.05}
SHORT = {"commands": 25, "kills": 5, "disk": 3, "damage": 6, "links": 2, "api": 120}  # cases of each part for `make test`


def main() -> int:
    options = arguments()
    parts = options.only.split(",") if options.only else list(SHARES)
    if unknown := set(parts) - set(SHARES):
        sys.exit(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(SHARES)}")
    warm()
    if options.short:
        be_patient()
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=options.scratch) as scratch:
        summaries = side_by_side(parts, options, Path(scratch))
    facts = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "torch": importlib.metadata.version("torch"),
        "python": sys.version.split()[0],
        "seed": options.seed,
        "minutes": options.minutes,
    }
    table = markdown(summaries, facts)
    print(table)
    if options.json:
        write_json(options.json, summaries, facts)
    if options.write:
        write_between(options.write, table)
    return 1 if any(summary.defects for summary in summaries) else 0


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of all parts together")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    parser.add_argument("--only", default="", help="parts, separated by commas: " + ",".join(SHARES))
    parser.add_argument("--case", type=int, help="only this case of each part: what a defect's line names")
    parser.add_argument("--short", action="store_true", help="the first few cases of each part, whatever time they take")
    parser.add_argument("--jobs", type=int, default=1, help="parts at a time, each on a core of its own")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--write", type=Path, help="write the table between the markers of this page")
    parser.add_argument("--scratch", type=Path, help="folder for what the campaigns write; a temporary one by default")
    return parser.parse_args(words)


def side_by_side(parts: list[str], options: argparse.Namespace, scratch: Path) -> list[Summary]:
    """The parts, `--jobs` at a time, the longest first."""
    total, began = sum(SHARES[part] for part in parts), time.monotonic()
    running: dict[int, tuple[str, float]] = {}
    found: dict[str, Summary] = {}
    for part in sorted(parts, key=lambda one: -SHARES[one]):
        if len(running) >= options.jobs:
            wait(running, found, scratch)
        seconds = 60 * options.minutes * SHARES[part] / total * min(options.jobs, len(parts))
        seconds = min(seconds, began + 60 * options.minutes - time.monotonic())
        limit = Limit(seconds)
        if options.short or options.case is not None:
            limit = Limit(cases=1, first=options.case) if options.case is not None else Limit(cases=SHORT[part])
        running[in_a_child(part, options.seed, limit, scratch)] = part, time.monotonic()
    while running:
        wait(running, found, scratch)
    return [found[part] for part in parts]


def in_a_child(part: str, seed: int, limit: Limit, scratch: Path) -> int:
    """Begin a part in a fork of the warm process: whatever it does to its process, the others are not touched by it."""
    (scratch / part).mkdir()

    def work() -> int:
        summary = importlib.import_module(f"campaigns.{part}").run(seed, limit, scratch / part)
        (scratch / f"{part}.json").write_text(json.dumps(summary.to_json()))
        return 0

    return forked(work)


def wait(running: dict[int, tuple[str, float]], found: dict[str, Summary], scratch: Path) -> None:
    """Wait for a part to end, and read its summary."""
    pid, status = os.wait()
    part, began = running.pop(pid)
    report, code = scratch / f"{part}.json", os.waitstatus_to_exitcode(status)
    if code == 0:
        found[part] = Summary.from_json(json.loads(report.read_text()))
    else:
        found[part] = Summary(part, defects=[Defect(f"the campaign itself ended with {code}", f"--only {part}")])
    found[part].seconds = round(time.monotonic() - began, 1)


def machine() -> str:
    """The processor's name, as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    sys.exit(main())
