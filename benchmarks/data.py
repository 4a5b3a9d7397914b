"""A table that does not fit: time and anonymous memory until training could begin.

    python -m benchmarks.data [--rows 20000000] [--channels 6] [--ids N] [--mixed] [--folder FOLDER] [--json FILE]

Writes a Parquet file of random walks into a temporary folder (one series; with --ids several, with --mixed their rows in turn),
caches it in a child process that watches its own RssAnon, opens the cache again, splits, learns the preprocessing and reads
every input once, in windows. Processes of one thread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")

ROWS = 500_000  # of a row group


def generate(path: Path, rows: int, channels: int, ids: int = 1, mixed: bool = False, target: bool = False) -> None:
    """A long table: id (if several), ds, and channels x0, x1, ..., and with `target` a label: is x0 above x1? Never in memory
    as a whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator, level, writer = np.random.default_rng(0), np.zeros(channels), None
    for first in range(0, rows, ROWS):
        count = min(ROWS, rows - first)
        walk = level + np.cumsum(generator.standard_normal((count, channels)), axis=0)
        level = walk[-1]
        place = np.arange(first, first + count)
        columns = {"ds": pa.array(place * 1000, pa.timestamp("ms"))}
        if ids > 1:
            columns["unique_id"] = pa.array([f"series-{i}" for i in (place % ids if mixed else place * ids // rows)])
        columns |= {f"x{i}": pa.array(walk[:, i]) for i in range(channels)}
        if target:
            columns["label"] = pa.array(np.where(walk[:, 0] > walk[:, 1], "above", "below")).dictionary_encode()
        batch = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_table(batch)
    writer.close()


def anonymous() -> int:
    """RssAnon of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024


class Watch(threading.Thread):
    """The largest RssAnon, looked at every 5 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = self.start_bytes = anonymous()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, anonymous())
            time.sleep(0.005)


def child(path: str, folder: str) -> dict:
    from hrnn.data import Part, Streams, cache, learn, split, table

    seconds = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = work()
        seconds[name] = round(time.perf_counter() - started, 3)
        return result

    watch = Watch()
    watch.start()
    sequences = timed("cache", lambda: cache(table(path), folder))
    timed("open_again", lambda: cache(table(path), folder))
    parts = timed("split", lambda: split(sequences, "time"))
    preprocessing = timed("learn", lambda: learn(sequences, parts))
    streams = Streams(Part(sequences, preprocessing, parts["training"]), rows=16)
    timed(
        "read_windows",
        lambda: [streams.window(first, first + 1000, "next") and None for first in range(0, streams.steps, 1000)],
    )
    return {
        "sequences": len(sequences),
        "steps": int(sequences.lengths.sum()),
        "cache_bytes": sum(file.stat().st_size for file in Path(folder).iterdir()),
        "seconds": seconds,
        "anonymous_bytes_before": watch.start_bytes,
        "anonymous_bytes_peak": watch.peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--channels", type=int, default=6)
    parser.add_argument("--ids", type=int, default=1)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--folder", help="where the temporary folder is made")
    parser.add_argument("--json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    from benchmarks.run import environment

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "series.parquet"
        generate(path, options.rows, options.channels, options.ids, options.mixed)
        command = [sys.executable, "-m", "benchmarks.data", "--child", str(path), str(Path(folder) / "cache")]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = {
            "rows": options.rows,
            "channels": options.channels,
            "mixed": options.mixed,
            "table_bytes": path.stat().st_size,
            **json.loads(done.stdout),
            **environment(1),
        }
    row["clock"] = "wall clock"
    print(json.dumps(row, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
