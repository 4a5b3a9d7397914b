"""The model card: what a stranger wants to know, in Markdown with a header that the Hub reads."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from hrnn.hierarchy import HRNN, Tokens
from hrnn.room import in_words
from hrnn.segments import Given

PAPER = "[Decoupling Hierarchical Recurrent Neural Networks With Locally Computable Losses](https://arxiv.org/abs/1910.05245)"
LONGEST = 100  # characters of an option's value


def written(name: str, model: HRNN, entries: dict[str, Any], license: str | None, repository: str) -> str:
    """The card of a saved model; entries: what its config.json holds."""
    run = entries["run"]
    lines = [*_header(name, run, license), "", f"# {_text(name)}", "", *_what(model, entries), ""]
    lines += ["## How to use it", "", "```python", "import hrnn", ""]
    lines += [f"pretrained = hrnn.hub.from_pretrained({json.dumps(repository)})", *_use(model, entries), "```", ""]
    lines += ["`pip install 'hrnn[hub]'`. The folder holds tensors (safetensors) and JSON, no code.", ""]
    if run is not None:
        lines += [*_scores(run), *_training(run), *_data(run)]
    lines += ["## The model", "", *_table(_parts(model, entries)), ""]
    return "\n".join(lines)


def _header(name: str, run: dict[str, Any] | None, license: str | None) -> Iterator[str]:
    """YAML, of which JSON is a part."""
    yield "---"
    yield "library_name: hrnn"
    if license is not None:
        yield f"license: {json.dumps(license)}"
    yield f"tags: {json.dumps(['hrnn', 'recurrent', 'hierarchical-rnn', *([_plain_name(run)] if run else [])])}"
    test = (run or {}).get("result") or {}
    numbers = {key: value for key, value in (test.get("test") or {}).items() if isinstance(value, int | float)}
    if run and numbers:
        task = _plain_name(run)
        metrics = [{"type": key, "name": f"test {key.replace('_', ' ')}", "value": value} for key, value in numbers.items()]
        data = run["data"][0]["file"] if run["data"] else task
        results = [{"task": {"type": "other", "name": task}, "dataset": {"type": task, "name": data}, "metrics": metrics}]
        yield f"model-index: {json.dumps([{'name': name, 'results': results}])}"
    yield "---"


def _plain_name(run: dict[str, Any]) -> str:
    return str(run["task"]["name"]).rpartition(":")[2].lower()


def _what(model: HRNN, entries: dict[str, Any]) -> Iterator[str]:
    run, levels = entries["run"], len(model.hidden_sizes)
    reads = f"one of {model.inputs.count} symbols" if isinstance(model.inputs, Tokens) else f"a vector of {model.input_size}"
    learned = "" if run is None else f", trained on the task *{_text(run['task']['name'])}* ({_text(run['what'])})"
    stack = "one recurrent level" if levels == 1 else f"{levels} recurrent levels that tick ever more slowly"
    yield (
        f"A hierarchical recurrent network{learned} with hrnn {entries['version']}: {stack}. It reads "
        f"{reads} at a step and keeps a state from step to step, so that a sequence may come whole, in pieces or one input at "
        f"a time. The method: {PAPER}."
    )


def _use(model: HRNN, entries: dict[str, Any]) -> Iterator[str]:
    shape = "(time, batch) int64" if model.tokens else f"(time, batch, {model.input_size})"
    given = sum(isinstance(period, Given) for period in model.periods)
    extra = ", boundaries=boundaries" if given else ""
    yield f"output, state = pretrained.model(x{extra})  # x: {shape}"
    if given:
        yield f"# boundaries: bool (time, batch{f', {given}' if given > 1 else ''}), true where the level above ticks"
    if (head := entries["head"]) is not None:
        outputs = f"  # (time, batch, {head['outputs']})" if head["kind"] == "linear" else ""
        yield f"result = pretrained.head(output){outputs}"
    if (entries["run"] or {}).get("task", {}).get("vocabulary"):
        other = "; one more stands for all others" if entries["run"]["task"].get("unknown") else ""
        yield f'vocabulary = pretrained.about["run"]["task"]["vocabulary"]  # symbol i is vocabulary[i]{other}'
    if (entries["run"] or {}).get("task", {}).get("preprocessing"):
        yield "answers = pretrained.predict(data)  # values as they are: files, a table, or a list of arrays (time, channels)"
        yield "stream = pretrained.stream()  # one step at a time: stream.step(values)"


def _scores(run: dict[str, Any]) -> Iterator[str]:
    result = run["result"]
    yield "## Scores"
    yield ""
    if result is None:
        yield f"The run was not finished when its weights were taken, after {run['update']} updates; it has no test score."
        yield ""
        return
    if "scored" in run:
        yield f"These weights, of update {run['update']}, were not scored; the run's scores are of update {run['scored']}."
        yield ""
        return
    rows = []
    for part in ("validation", "test"):
        for key, value in (result.get(part) or {}).items():
            if isinstance(value, int | float) and key != "update":
                known = run["metrics"].get(key, {"label": key.replace("_", " "), "digits": 4})
                rows.append((f"{known['label']}, {part}", f"{value:.{known['digits']}f}"))
    rows += [("reached", run["reached"])] if run["reached"] else []
    yield from _table(rows)
    yield ""
    best = ", with the weights that were best on validation" if result.get("validation") else ""
    once = f"; the test was taken once{best}" if result.get("test") else ""
    yield f"One run with seed {run['upkeep']['seed']}{once}."
    yield ""


def _training(run: dict[str, Any]) -> Iterator[str]:
    yield "## Training"
    yield ""
    yield "```sh"
    yield run["command"]
    yield "```"
    yield ""
    result, rows = run["result"] or {}, [("weights of update", str(run["update"]))]
    for key, unit in (("updates", ""), ("sequences", ""), ("seconds", " s")):
        if isinstance(result.get(key), int | float):
            rows.append(({"seconds": "time"}.get(key, key), f"{result[key]:,.0f}{unit}"))
    rows += [("ended by", str(result["reason"]))] if "reason" in result else []
    if (memory := run["memory"]) is not None:
        kept = f"{memory['kept']:,} vectors of hidden-state size for each row"
        full = "" if memory["kept"] == memory["window"] else f"; true gradients keep {memory['window']:,}"
        rows.append(("memory of a window", f"{kept} (the paper's count){full}"))
    else:
        rows.append(("memory of a window", "bounded by the longest segments, not by the window"))
    if isinstance(peak := result.get("peak_bytes"), int):
        rows.append(("memory of the whole process", f"{in_words(peak)} at its peak, measured"))
    yield from _table(rows)
    yield ""


def _data(run: dict[str, Any]) -> Iterator[str]:
    yield "## Data"
    yield ""
    if run["data"]:
        rows = [(one["file"], f"{one['size']:,} bytes, SHA-256 {one['sha256'][:16]}...") for one in run["data"]]
        yield from _table(rows)
    else:
        yield "The task makes its own data from the seed."
    yield ""
    if run["notes"]:
        yield from (f"- {_text(note)}" for note in run["notes"])
        yield ""
    left_out = ("name", "cache", *run["found"])
    known = {key: value for key, value in run["task"].items() if key not in left_out and value not in (None, [])}
    yield "Options of the task:"
    yield ""
    yield from _table([(key.replace("_", " "), _short(value)) for key, value in known.items()])
    yield ""


def _parts(model: HRNN, entries: dict[str, Any]) -> Iterator[tuple[str, str]]:
    periods = [f"given by the data (decoder reach {p.reach})" if isinstance(p, Given) else str(p) for p in model.periods]
    yield "units of the levels, lowest first", ", ".join(map(str, model.hidden_sizes))
    yield "periods", ", ".join(periods) or "none"
    yield "cells", ", ".join("of its author's own" if kind is None else kind for kind in model.config["cell"])
    yield from edges_in_words(model)
    yield (
        "weights",
        f"{sum(p.numel() for p in model.parameters()):,}, decoders included, {str(model.dtype).removeprefix('torch.')}",
    )
    yield "output", f"hidden states of {'all levels' if model.shows_all else 'the lowest level'}, {model.output_size} numbers"
    if entries["head"] is not None:
        head = entries["head"]
        yield "head", f"linear, {head['outputs']} outputs" if head["kind"] == "linear" else f"its author's own, {head['name']}"


def edges_in_words(model: HRNN) -> Iterator[tuple[str, str]]:
    """What levels read and where contexts enter, where that is not as in the paper."""
    config = model.config
    if model.edges.highest:
        readers = zip(config["reads"], config["reader"], strict=True)
        own = [one if one == "summary" else f"{one} ({reader or 'by a reader of its own'})" for one, reader in readers]
        yield "levels above the lowest read", ", ".join(own)
    if "state" in config["context"]:
        yield "contexts enter as", ", ".join(config["context"])
    if config["burn_in"]:
        yield "inputs that are read once more before each segment", str(config["burn_in"])


def _table(rows: Any) -> Iterator[str]:
    yield "| | |"
    yield "| --- | --- |"
    for name, value in rows:
        yield f"| {_text(name)} | {_text(value)} |"


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _text(value: Any) -> str:
    """As plain text, whatever stands in a name: neither HTML, nor a table's bar, nor a line's end."""
    line = html.escape(" ".join(str(value).split()), quote=False)
    return re.sub(r"([\\|`*\[\]])", r"\\\1", line)
