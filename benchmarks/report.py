"""What a page costs: `hrnn report` of many runs, one of them with a long journal, and how fast the page answers.

    python -m benchmarks.report [--records 1000000] [--runs 200] [--folder FOLDER] [--json FILE]

The journals are made up: a record of ten updates each, and validations with what decoders recover. Measured are the whole
command, by the clock and of the processor, the peak of its memory, and the bytes of the page; with chromium, its driver and
selenium also the time until the page has drawn what is in view, and until it has done so again after a run is switched off,
all are, all are back, and the axes change. The limits that the page was written for: 30 s, 1 GB, 15 MB, and 1 s for an answer.
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

from benchmarks.reading import PROGRAM
from benchmarks.run import environment
from hrnn.metrics import Metric, Metrics
from hrnn.training.entries import sealed

METRICS = Metrics((Metric("accuracy", higher_is_better=True, least=0, most=1),))
PERIOD = 14


def config(seed: int) -> dict[str, Any]:
    model = {"model": "ours", "hidden_sizes": [64, 64], "periods": [PERIOD], "window": 196, "cell": "lstm", "betas": [1.0]}
    model |= {"indices": "all", "decoder_units": 256}
    learning = {"batch": 50, "learning_rate": 0.001 * (1 + seed % 4)}
    identity = {"id": f"{seed:016x}", "data": {}, "modules": {}, "task": {"name": "pixels"}, "model": model}
    rest = {"learning": learning, "budget": {"updates": None}, "upkeep": {"seed": seed}, "metrics": METRICS.to_json()}
    return sealed({**identity, **rest})


def lines(records: int, seed: int) -> Iterator[dict[str, Any]]:
    """Losses that fall, and a validation after every hundredth of the records."""
    every = max(1, records // 100)
    for place in range(1, records + 1):
        done = place / records
        loss = (0.3 + 0.01 * (seed % 17)) + 2 * math.exp(-5 * done) * (1 + 0.05 * math.sin(place + seed))
        common = {"update": 10 * place, "sequences": 500 * place, "loss": loss, "accuracy": max(0.0, 1 - loss / 2.5)}
        times = {"seconds": round(0.1 * place, 3), "cpu_seconds": round(0.099 * place, 3)}
        local = {"local_losses": [loss / 3], "moves": [140 * place, 10 * place], "learning_rate": 1e-3}
        yield {"kind": "update", **common, **local, **times}
        if place % every == 0:
            recovered = [[round(min(1.0, index / PERIOD * loss), 4) for index in range(1, PERIOD + 1)]]
            yield {"kind": "validation", **common, "best": True, "recovered": recovered, **times}


def write(folder: Path, records: int, seed: int) -> None:
    if (folder / "journal.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(seed)))
    with open(folder / "journal.jsonl", "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in lines(records, seed))


def written(place: Path, page: Path) -> dict[str, float]:
    """What the command took."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROGRAM, "report", str(place), "--output", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = int(done.stderr.split()[-1]) * 1024
    return {"seconds": elapsed, "cpu_seconds": processor, "peak_bytes": peak, "page_bytes": page.stat().st_size}


def answers(page: Path) -> dict[str, Any]:
    """Seconds until the page has drawn what is in view, by the clock and of its thread; nothing without a browser."""
    try:
        from tests.report.browser import Browser
    except ImportError:
        return {}
    if not Browser.there():
        return {}
    with Browser() as browser:
        found: dict[str, Any] = {"load": {"seconds": browser.open(page)}}
        browser.run("document.getElementById('curves').scrollIntoView()")
        time.sleep(2)  # on a busy machine it takes a while until the browser notices what is in view
        browser.settled()
        for name, action in (
            ("long_run_off", "document.querySelectorAll('#runs input')[0].click()"),  # the others now fill the panels
            ("another_run_off", "document.querySelectorAll('#runs input')[1].click()"),
            ("horizontal_logarithmic", "document.getElementById('logx').click()"),
            ("all_runs_off", "document.getElementById('none').click()"),
            ("all_runs_on", "document.getElementById('all').click()"),
            ("by_seconds", "const x = document.getElementById('x'); x.value = 'seconds'; x.dispatchEvent(new Event('change'))"),
            ("logarithmic", "const y = document.getElementById('y'); y.value = 'log'; y.dispatchEvent(new Event('change'))"),
        ):
            before = browser.processor_seconds()
            browser.run(action)
            waited = browser.settled()
            found[name] = {"seconds": waited, "cpu_seconds": browser.processor_seconds() - before}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the journals go, and stay; by default they are removed")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = options.folder or Path(temporary)
        for number in range(options.runs):
            write(place / "runs" / f"run-{number:03}", options.records if number == 0 else 2000, number)
        size = (place / "runs" / "run-000" / "journal.jsonl").stat().st_size
        page = place / "report.html"
        figures: dict[str, Any] = {"runs": options.runs, "records": options.records, "journal_bytes": size}
        figures |= written(place / "runs", page)
        figures["answers"] = answers(page)
    figures |= {**environment(1), "clock": "wall clock"}
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
