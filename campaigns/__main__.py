"""Run campaigns for a stated time; exit code 1 if there are defects."""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from campaigns.defects import Defect, Limit, Summary, markdown, write_between, write_json
from campaigns.forked import warm

# Shares of the time, by what a case costs and how many are wanted.
SHARES = {"kills": 0.3, "disk": 0.1, "commands": 0.4, "damage": 0.1, "api": 0.1}


def main() -> int:
    options = arguments()
    parts = options.only.split(",") if options.only else [name for name in SHARES if exists(name)]
    if unknown := set(parts) - set(SHARES):
        sys.exit(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(SHARES)}")
    warm()
    total = sum(SHARES[part] for part in parts)
    seconds = {part: None if options.case is not None else 60 * options.minutes * SHARES[part] / total for part in parts}
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=options.scratch) as scratch:
        summaries = [in_a_child(part, seconds[part], options, Path(scratch)) for part in parts]
    facts = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "torch": version("torch"),
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of all parts together")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    parser.add_argument("--only", default="", help="parts, separated by commas: " + ",".join(SHARES))
    parser.add_argument("--case", type=int, help="only this case of each part: what a defect's line names")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--write", type=Path, help="write the table between the markers of this page")
    parser.add_argument("--scratch", type=Path, help="folder for what the campaigns write; a temporary one by default")
    return parser.parse_args()


def exists(part: str) -> bool:
    return importlib.util.find_spec(f"campaigns.{part}") is not None


def in_a_child(part: str, seconds: float | None, options: argparse.Namespace, scratch: Path) -> Summary:
    """A part in a fork of the warm process: whatever it does to its process, the next part begins with a clean one."""
    place, report = scratch / part, scratch / f"{part}.json"
    place.mkdir()
    sys.stdout.flush()
    began = time.monotonic()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            limit = Limit(seconds) if options.case is None else Limit(cases=1, first=options.case)
            summary = importlib.import_module(f"campaigns.{part}").run(options.seed, limit, place)
            report.write_text(json.dumps(summary.to_json()))
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if report.exists():
        summary = Summary.from_json(json.loads(report.read_text()))
    else:
        code = os.waitstatus_to_exitcode(status)
        summary = Summary(part, defects=[Defect(f"the campaign itself ended with {code}", f"--only {part}")])
    summary.seconds = round(time.monotonic() - began, 1)
    return summary


def machine() -> str:
    """The processor's name, as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


if __name__ == "__main__":
    sys.exit(main())
