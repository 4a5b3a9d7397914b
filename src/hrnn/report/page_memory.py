"""What a page says of a run's memory: counted, predicted for its own inputs, and measured."""

from __future__ import annotations

from typing import Any

from hrnn.memory import exact_count, paper_count, predict, predict_checkpointed, predict_truncated
from hrnn.report.summary import number
from hrnn.room import byte_count, in_words
from hrnn.training.entries import ABOUT
from hrnn.training.options import RESTRICTED

NONSENSE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)  # or a cell of the user's own


def memory_of(
    entries: dict[str, Any], engine: dict[str, Any] | None, result: dict[str, Any] | None, measured: int | None = None
) -> dict[str, str]:
    """By what is said, in words; measured: bytes of one update, where somebody has measured them."""
    found = _counts(entries)
    if (bytes_ := _predicted(entries, engine)) is not None:
        known = "" if _width(entries) else ", for three symbols"
        found[f"predicted{known}"] = in_words(bytes_)
    if measured is not None:
        found["of an update, measured now"] = in_words(measured)
    peak = number((result or {}).get("peak_bytes"))
    if peak is not None and peak > 0:
        found["whole process at its peak, measured"] = in_words(int(peak))
    return found


def _counts(entries: dict[str, Any]) -> dict[str, str]:
    """Vectors of a window by the paper's count and exactly; where boundaries are given by the data, what there is to say."""
    model = entries["model"]
    sizes, periods, window = (model.get(name) for name in ("hidden_sizes", "periods", "window"))
    if not _fixed(model):
        given = isinstance(periods, list) and isinstance(sizes, list) and len(periods) < len(sizes) - 1
        return {"vectors": "as many as the longest segments take, whatever the window"} if given else {}
    try:
        method, knob = _method(model)
        steps = int(knob) if method == "truncated" else window
        if method in ("full", "truncated"):
            return {"vectors by the paper's count": f"{min(steps, window):,}"}
        if method in ("checkpointed", "replay"):
            return {}
        exact = exact_count(sizes, periods, window)
        return {"vectors by the paper's count": f"{paper_count(periods, window):,}", "vectors, exactly": f"{exact:,.6g}"}
    except NONSENSE:
        return {}


def _predicted(entries: dict[str, Any], engine: dict[str, Any] | None) -> int | None:
    """Bytes of one window, as hrnn.memory has them; None where boundaries are given by the data, or nothing is predicted."""
    model = entries["model"]
    if not _fixed(model) or set(model.get("reads", ())) - {"summary"}:
        return None
    try:
        method, knob = _method(model)
        shape = (model["hidden_sizes"], model["periods"], model["window"], entries["learning"].get("batch"))
        options: dict[str, Any] = {"cell": model["cell"], "decoder_units": model["decoder_units"], **_width(entries)}
        options["output"] = model.get("output_levels", "lowest")
        if method in ("full", "truncated"):
            return predict_truncated(*shape, int(knob) if knob else model["window"], **options)
        if method == "replay":
            return predict_checkpointed(*shape, **options)
        if method == "checkpointed":
            return predict_checkpointed(*shape, bytes=byte_count(knob) if knob else None, **options)
        if method == "synthetic":
            return None
        native = None if engine is None else engine.get("name") == "native"
        options |= {"all_indices": model["indices"] == "all", "native": native}
        options |= {"top": "checkpointed"} if method == "checkpointed-top" else {}
        return predict(*shape, **options)
    except NONSENSE:
        return None


def _fixed(model: dict[str, Any]) -> bool:
    """Do fixed periods say when every level ticks?"""
    sizes, periods, window = (model.get(name) for name in ("hidden_sizes", "periods", "window"))
    lists = isinstance(periods, list) and isinstance(sizes, list) and len(periods) == len(sizes) - 1
    return lists and isinstance(window, int)


def _method(model: dict[str, Any]) -> tuple[str, str]:
    """The gradient's name and its knob, as --gradient has them; mr-hrnn has true gradients of a shorter window."""
    if model["model"] == "mr-hrnn":
        return "truncated", str(paper_count(model["periods"], model["window"]))
    given = model.get("gradient") or ("restricted" if model["model"] in RESTRICTED else "full")
    name, _, knob = str(given).partition(":")
    return name, knob


def _width(entries: dict[str, Any]) -> dict[str, Any]:
    """Inputs and outputs, where the run says them."""
    about = entries.get(ABOUT)
    names = ("inputs", "tokens", "outputs")
    return {name: about[name] for name in names} if isinstance(about, dict) and all(name in about for name in names) else {}
