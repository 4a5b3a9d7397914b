"""What reading runs costs: `hrnn runs` and `hrnn plot` on a long journal and on many runs, as whole commands.

    python -m benchmarks.reading [--records 1000000] [--runs 200] [--folder FOLDER]

The journals are made up, with the entries that a run on the copy task writes. Printed are seconds from start to end, imports
and all, by the clock and of the processor, and the peak of the process's memory.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hrnn.tasks import Copy
from hrnn.training.entries import sealed

CONFIG = {
    "task": {"name": "copy", "length": None, "start": 5, "step": 5, "until": None, "patience": None, "solved": 0.15},
    "model": {"model": "ours", "hidden_sizes": [64, 64], "periods": [5], "window": 60},
    "learning": {"batch": 50},
    "budget": {"sequences": 200_000},
    "upkeep": {"seed": 0},
}
PROGRAM = """
import sys
from hrnn.cli import main
code = main(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1], file=sys.stderr)
sys.exit(code)
"""


def lines(records: int) -> Iterator[dict[str, Any]]:
    """A journal: losses that fall, lengths that are solved one after the other, seconds that pass."""
    solved, lengths = 0, max(1, records // 40)
    for place in range(1, records + 1):
        common = {"update": 10 * place, "length": solved + 5, "sequences": 500 * place}
        loss = 0.2 + math.exp(-(place % lengths) / lengths) * (1 + 0.1 * math.sin(place))
        numbers = {"recalled_bits_per_character": loss, "bits_per_character": loss / 2}
        if place % lengths == 0:
            by_position = [0.01] * (2 * solved + 10)
            yield {
                "kind": "length",
                **common,
                "outcome": "solved",
                "updates": lengths,
                **numbers,
                "bits_by_position": by_position,
            }
            solved += 5
        else:
            local = {"local_losses": [loss / 3], "moves": [120 * place, 10 * place], "learning_rate": 1e-3}
            times = {"seconds": round(0.1 * place, 3), "cpu_seconds": round(0.099 * place, 3)}
            yield {"kind": "update", **common, "solved": solved, "loss": loss, **numbers, **local, **times}


def write(folder: Path, records: int, seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(sealed({**CONFIG, "upkeep": {"seed": seed}, "metrics": Copy().measured.to_json()}))
    )
    with open(folder / "journal.jsonl", "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in lines(records))


def measured(*arguments: object) -> str:
    """Seconds and megabytes of a command."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=True)
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{elapsed:.2f} s ({processor:.2f} of the processor), {int(done.stderr.split()[-1]) / 1000:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the journals go, and stay; by default they are removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = options.folder or Path(temporary)
        if not (place / "long").exists():
            write(place / "long", options.records)
        for number in range(options.runs):
            if not (place / "many" / f"run-{number}").exists():
                write(place / "many" / f"run-{number}", 1000, number)
        size = (place / "long" / "journal.jsonl").stat().st_size
        picture = place / "curves.png"
        print(f"runs, {options.records:,} records, {size / 1e6:.0f} MB: {measured('runs', place / 'long')}")
        print(f"plot, the same: {measured('plot', place / 'long', '--output', picture)}")
        print(f"runs, {options.runs} runs of 1,000 records: {measured('runs', place / 'many')}")
        many = sorted((place / "many").iterdir())
        print(f"plot, the same: {measured('plot', *many, '--output', picture)}")


if __name__ == "__main__":
    main()
