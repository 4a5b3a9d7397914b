"""What the paper reports, as data. Mujika, Weissenberger, Steger, arXiv 1910.05245; the spread is that over 3 repetitions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Published:
    """A cell of a table: mean and spread, or words where the paper gives no number."""

    mean: float | None = None
    spread: float | None = None
    words: str = ""


@dataclass(frozen=True)
class PublishedRow:
    """A row: its cells by the name of the quantity, and the vectors that it stores by the paper's count."""

    source: str
    cells: dict[str, Published] = field(default_factory=dict)
    memory: int | None = None


COPY, MNIST, PTB, DEEP = "Table 1 (copy task)", "Table 2 (pixel MNIST)", "Table 3 (Penn TreeBank)", "Section 4.4 and its figure"


def _row(source: str, quantity: str, mean: float, spread: float, memory: int) -> PublishedRow:
    return PublishedRow(source, {quantity: Published(mean, spread)}, memory)


def _bits(validation: tuple[float, float], test: tuple[float, float]) -> PublishedRow:
    return PublishedRow(PTB, {"validation": Published(*validation), "test": Published(*test)})


_PAPER: dict[str, dict[str, PublishedRow]] = {
    "copy": {
        "ours": _row(COPY, "length", 108, 0, 50),
        "gr-hrnn": _row(COPY, "length", 21, 13, 50),
        "hrnn": _row(COPY, "length", 107.7, 0.47, 200),
        "mr-hrnn": _row(COPY, "length", 48.3, 0.94, 50),
    },
    "mnist": {
        "ours": _row(MNIST, "accuracy", 0.9886, 0.0002, 166),
        "gr-hrnn": _row(MNIST, "accuracy", 0.2109, 0.0743, 166),
        "hrnn": _row(MNIST, "accuracy", 0.9885, 0.0003, 784),
        "mr-hrnn": _row(MNIST, "accuracy", 0.8939, 0.0041, 166),
    },
    "permuted-mnist": {
        "ours": _row(MNIST, "accuracy", 0.9680, 0.0008, 166),
        "gr-hrnn": _row(MNIST, "accuracy", 0.9368, 0.0049, 166),
        "hrnn": _row(MNIST, "accuracy", 0.9681, 0.0008, 784),
        "mr-hrnn": _row(MNIST, "accuracy", 0.9553, 0.0015, 166),
    },
    "ptb": {
        "ours": _bits((1.4519, 0.0014), (1.4027, 0.0003)),
        "gr-hrnn": _bits((1.4545, 0.0016), (1.4074, 0.0011)),
        "hrnn": _bits((1.4480, 0.0011), (1.3974, 0.0021)),
    },
    "deep-copy": {
        "both": PublishedRow(DEEP, {"bits": Published(words="solved on every run")}),
        "lowest": PublishedRow(DEEP, {"bits": Published(words="close to chance (1 bit)")}),
    },
}


def _accuracies(mnist: dict[str, PublishedRow]) -> dict[str, PublishedRow]:
    """Those of pixel MNIST alone: with another period other numbers of vectors are stored."""
    return {row: PublishedRow(MNIST, mnist[name].cells) for row, name in (("default", "ours"), ("hrnn", "hrnn"))}


PUBLISHED = {
    **{name: {**rows, "default": rows.get("ours") or rows["both"]} for name, rows in _PAPER.items()},
    "copy-from-20": {"default": _PAPER["copy"]["ours"], **_PAPER["copy"]},
    "mnist-784": {**_accuracies(_PAPER["mnist"]), "default-10": _PAPER["mnist"]["ours"]},
    "permuted-mnist-784": _accuracies(_PAPER["permuted-mnist"]),
    "deep-copy-from-50": {
        "default": PublishedRow(DEEP, {"length": Published(words="500 on every run")}),
        "lowest": PublishedRow(DEEP, {"length": Published(words="close to chance at 500")}),
    },
}
"""By experiment and row, of defaults the figures of ours. The experiments beyond the paper have none."""
