"""Runs that nobody trained, and how tests look into a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hrnn.metrics import Metric, Metrics
from hrnn.report.page import PLOTLY, render
from hrnn.report.page_content import Content, gather
from hrnn.report.page_runs import Reader
from hrnn.training.entries import sealed

METRICS = Metrics((Metric("accuracy", higher_is_better=True, least=0, most=1, levels=((0.9, "good"),)),))


def config(seed: int = 0, task: str = "pixels", **model: Any) -> dict[str, Any]:
    """As a run of today's version writes it."""
    shape = {"model": "ours", "hidden_sizes": [8, 8], "periods": [4], "window": 20, "cell": "lstm", "betas": [1.0]}
    shape |= {"indices": "all", "decoder_units": 16, **model}
    learning = {"batch": 10, "learning_rate": 0.01 * (seed + 1), "clip": None}
    file = {"/data/train.gz": {"size": 1234567, "sha256": "ab" * 32}}
    identity = {"id": f"{seed:016x}", "data": file, "modules": {}, "task": {"name": task, "pool": 2, "order": []}}
    rest = {"model": shape, "learning": learning, "budget": {"updates": 100, "epochs": None}, "upkeep": {"seed": seed}}
    return sealed({**identity, **rest, "metrics": METRICS.to_json()})


def records(count: int = 20, every: int = 5) -> list[dict[str, Any]]:
    """Updates a second apart, and validations that take four."""
    made: list[dict[str, Any]] = [{"kind": "engine", "update": 0, "engine": {"name": "native", "level": "avx2", "threads": 1}}]
    seconds = 0.0
    for number in range(1, count + 1):
        seconds += 1
        common = {"update": number, "sequences": 10 * number, "loss": 2 / number, "accuracy": 1 - 1 / (number + 1)}
        times = {"seconds": seconds, "cpu_seconds": seconds / 2}
        made.append({"kind": "update", **common, "local_losses": [1 / number], "moves": [number, number], **times})
        if number % every == 0:
            seconds += 4
            recovered = [[0.1, 0.2, 0.3, None]]
            times = {"seconds": seconds, "cpu_seconds": seconds / 2}
            made.append({"kind": "validation", **common, "best": True, "recovered": recovered, **times})
    return made


def write(folder: Path, lines: list[dict[str, Any]] | None = None, **options: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(**options)))
    text = "".join(json.dumps(record) + "\n" for record in (records() if lines is None else lines))
    (folder / "journal.jsonl").write_text(text)
    return folder


def content_of(*given: Path | str) -> Content:
    return gather([str(one) for one in given], Reader())


def page_of(*given: Path | str, plotly: str | None = PLOTLY, **options: Any) -> Page:
    """Without Plotly's script, which takes seconds to be looked through, unless it is asked for."""
    return Page(render(content_of(*given), plotly=plotly, **options))


class Page(HTMLParser):
    """elements: names and attributes; text: what a reader sees; scripts and data as they stand in the page"""

    def __init__(self, source: str):
        super().__init__()
        self.source, self.elements, self.texts, self.scripts = source, [], [], []
        self._inside = ""
        self.data: dict[str, Any] = {}
        self.feed(source)
        self.close()
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._inside = "data" if dict(attributes).get("id") == "data" else tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data = json.loads(data)
        elif self._inside == "script":
            self.scripts.append(data)
        elif not self._inside:
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
