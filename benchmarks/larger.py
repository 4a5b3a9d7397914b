"""A series that does not fit, by the commands: hrnn train and hrnn predict on it, their anonymous memory watched from outside.

    python -m benchmarks.larger [--rows 20000000] [--channels 6] [--memory 500MB] [--updates N] [--target] [--folder FOLDER]
                                [--json FILE]

Writes a Parquet file of random walks (as benchmarks.data does; with --target there is a class for each step, and hrnn predict
writes a row for each) and runs the commands as a user does. RssAnon is read from /proc every 50 ms; start-up is the time until
the journal has its first update. Wall clock, beside the seconds of a core that the command took. Processes of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.data import generate


def anonymous(pid: int) -> int:
    """RssAnon of a process in bytes; 0 when it is over."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def watched(arguments: list[str], folder: Path, begun: Path | None = None) -> dict:
    """Run a command; its peak of anonymous memory, its time, and how long it took until the file `begun` knew of an update."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "hrnn", *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        peak, first = 0, None
        while child.poll() is None:
            peak = max(peak, anonymous(child.pid))
            if first is None and begun is not None and begun.exists() and '"kind": "update"' in begun.read_text():
                first = time.perf_counter() - started
            time.sleep(0.05)
        said = child.stdout.read().strip() if child.stdout else ""
    if child.returncode:
        raise SystemExit(f"hrnn {' '.join(arguments)} ended with {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "command": "hrnn " + " ".join(arguments),
        "wall_seconds": round(time.perf_counter() - started, 1),
        "core_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "anonymous_bytes_peak": peak,
        "said": said.splitlines()[-1] if said else "",
    }
    return found if first is None else {**found, "wall_seconds_until_first_update": round(first, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--channels", type=int, default=6)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--updates", type=int, help="of training; by default what hrnn train takes")
    parser.add_argument("--target", action="store_true", help="a class for each step")
    parser.add_argument("--folder", help="where the temporary folder is made")
    parser.add_argument("--json")
    options = parser.parse_args()
    from benchmarks.run import environment

    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, series, run = Path(name), "series.parquet", Path("runs") / "r"
        generate(folder / series, options.rows, options.channels, target=options.target)
        budget = [] if options.updates is None else ["--updates", str(options.updates)]
        train = ["train", "series", series, "--memory", options.memory, *budget, "--journal-every", "1", "--run", str(run)]
        row = {"rows": options.rows, "channels": options.channels, "table_bytes": (folder / series).stat().st_size}
        row["train"] = watched(train, folder, folder / run / "journal.jsonl")
        print(json.dumps(row["train"]), flush=True)
        row["predict"] = watched(["predict", str(run), series, "-o", "out.parquet"], folder)
        row |= environment(1)
    row["clock"] = "wall clock"
    print(json.dumps(row, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
