"""Cases: a model and some consecutive windows, as plain values that can be drawn, printed, made simpler and built."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import torch

import hrnn
from hrnn import Given
from tests.helpers import CELLS, READERS
from tests.oracle import Row

At = tuple[tuple[int, ...], ...]  # positions: step, row and, for boundaries, which of the levels that have given ones


@dataclass(frozen=True)
class Window:
    steps: int
    lengths: tuple[int, ...] | None = None
    resets: At | None = None
    boundaries: At = ()
    behind: bool = False  # do the boundaries say what comes behind the last step?
    untargeted: At | None = None  # where there is no target
    cuts: tuple[int, ...] = ()  # where it is cut into chunks
    once: bool = False  # the chunks can be read only once


@dataclass(frozen=True)
class Case:
    windows: tuple[Window, ...]
    periods: tuple[int | Given, ...] = ()
    cells: tuple[str, ...] = ("lstm",)
    sizes: tuple[int, ...] = (3,)
    batch: int = 1
    tokens: bool = False
    indices: str = "all"
    normalized: tuple[bool, ...] = ()
    symbol_weights: str = "equal"
    decoder_layers: int = 2
    output: str = "lowest"
    betas: tuple[float, ...] = ()
    batch_first: bool = False
    piece: int = 3  # steps of pieces, for methods that cut
    round_steps: int | None = None
    replay: float = 0.5
    every: tuple[int | None, ...] = (1,)  # where levels move
    clip: float | None = None
    optimizer: str = "sgd"
    seed: int = 0
    reads: tuple[str, ...] = ()  # of each level above the lowest; as by default
    reader: tuple[str, ...] = ()
    context: tuple[str, ...] = ()  # of each level below the top
    burn_in: int = 0
    segments: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Without what is as by default."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        windows = [
            f"Window({', '.join(f'{f.name}={getattr(w, f.name)}' for f in fields(w) if getattr(w, f.name) != f.default)})"
            for w in given.pop("windows")
        ]
        return f"Case(({', '.join(windows)},), {', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def apart(self) -> bool:
        """May rows tick at different times?"""
        parts = any(w.lengths is not None or w.resets is not None for w in self.windows)
        return parts or any(isinstance(period, Given) for period in self.periods)

    @property
    def sends(self) -> tuple[bool, ...]:
        """Of each level below the top: does anybody read its summary?"""
        return tuple(reads != "inputs" for reads in self.reads) or (True,) * len(self.periods)


def case(*windows: Window | int, periods=(), cells="lstm", **options) -> Case:
    """One by hand: a number is a window of so many steps, a name the cell of all levels; local losses of all of them."""
    below, names = len(periods), (cells,) * (len(periods) + 1) if isinstance(cells, str) else cells
    own = {"sizes": (3, 2, 4, 2)[: below + 1], "normalized": (True,) * below, "betas": (0.5, 0.3, 0.7)[:below],
           "every": (1,) * (below + 1), "batch": 2}  # fmt: skip
    return agreed(
        Case(tuple(Window(w) if isinstance(w, int) else w for w in windows), tuple(periods), names, **(own | options))
    )


def agreed(case: Case) -> Case:
    """As by default wherever an option would be refused beside the others."""
    sends, reads = case.sends, case.reads or ("summary",) * len(case.periods)
    alone = [sends[i] or (i > 0 and sends[i - 1]) for i in range(len(sends))]  # segments that share no batch
    given = {
        "reads": reads,
        "reader": [
            "linear" if a == "summary" else b for a, b in zip(reads, case.reader or ["linear"] * len(reads), strict=True)
        ],
        "context": [
            how if name in ("lstm", "gru", "rnn") or hasattr(CELLS[name], "from_context") else "input"
            for name, how in zip(case.cells, case.context, strict=False)
        ],
        "segments": [1 if one else n for one, n in zip(alone, case.segments, strict=False)],
    }
    plain = {"reads": "summary", "reader": "linear", "context": "input", "segments": 1 if all(alone) else None}
    return replace(
        case,
        betas=tuple(beta if read else 0.0 for beta, read in zip(case.betas, sends, strict=True)),
        burn_in=case.burn_in if sends and not sends[0] else 0,
        **{name: () if all(one == plain[name] for one in values) else tuple(values) for name, values in given.items()},
    )


def draw(
    seed: int,
    apart: bool | None = None,
    levels: int | None = None,
    least: int = 1,
    names: Sequence[str] = sorted(CELLS),
    edges: bool | None = None,
) -> Case:
    """Anything: 1 to 4 levels, 1 to 3 windows and rows, tiny. apart: rows certainly part, or certainly not; least: of rows;
    names: of cells; edges: what levels read, and how contexts come down, are drawn, or as by default."""
    r = random.Random(seed)
    below = r.choice([0, 1, 1, 2, 2, 2, 3]) if levels is None else levels - 1
    kind = "together" if apart is False else r.choice(["together"] * (apart is None) + ["fixed", "given", "given"])
    kind = "fixed" if kind == "given" and not below else kind
    periods: list[int | Given] = [r.randint(1, 4) for _ in range(below)]
    if kind == "given":
        for i in [i for i in range(below) if r.random() < 0.6] or [r.randrange(below)]:
            periods[i] = Given(r.randint(1, 4))
    cells = [r.choice(names) for _ in range(below + 1)] if r.random() < 0.4 else [r.choice(names)] * (below + 1)
    batch = r.randint(max(least, 2 if apart else 1), 3)
    some_lengths, some_resets = (kind != "together" and r.random() < 0.5 for _ in range(2))
    some_lengths = some_lengths or (apart is True and kind == "fixed" and not some_resets)
    masked, nested = r.random() < 0.4, sum(isinstance(period, Given) for period in periods)
    windows = []
    for _ in range(r.choice([1, 2, 2, 3])):
        steps = r.randint(2 if apart else 1, 12)
        there = [(t, b) for t in range(steps) for b in range(batch)]
        lengths = [r.randint(0, steps) for _ in range(batch)]
        if apart and min(lengths) == max(lengths):
            lengths[0] = (lengths[0] + 1) % (steps + 1)
        behind, often = nested > 0 and r.random() < 0.5, r.choice([0.2, 0.5])
        flags = [(t, b, j) for t in range(steps + behind) for b in range(batch) for j in range(nested) if r.random() < often]
        cuts = [t for t in range(1, steps) if r.random() < 0.3] if r.random() < 0.4 else []
        windows.append(
            Window(
                steps, tuple(lengths) if some_lengths else None,
                tuple(at for at in there if r.random() < 0.12) if some_resets else None, tuple(flags), behind,
                tuple(at for at in there if r.random() < 0.4) if masked else None, tuple(cuts), r.random() < 0.5,
            )
        )  # fmt: skip
    tokens = r.random() < 0.5
    one = Case(
        tuple(windows), tuple(periods), tuple(cells), tuple(r.randint(1, 4) for _ in range(below + 1)), batch, tokens,
        r.choice(["sampled", "all"]), tuple(r.random() < 0.7 for _ in periods),
        r.choice(["equal", "inverse"]) if tokens else "equal", r.choice([1, 2, 2, 3]), r.choice(["lowest", "lowest", "all"]),
        tuple(r.choice([0.0, 0.3, 0.7, 2.0]) for _ in periods), r.random() < 0.2, r.randint(1, 7), r.choice([None, 1, 3, 7]),
        r.choice([0.3, 0.6, 1.0]), tuple(r.choice([1, 1, 2, 3, None]) for _ in range(below + 1)),
        r.choice([None, 0.05]), "sgd" if "learned" in cells else r.choice(["sgd", "momentum", "adam"]), seed,
    )  # fmt: skip
    r = random.Random(f"edges {seed}")
    if not below or not (r.random() < 0.6 if edges is None else edges):
        return one
    kinds = r.choice(
        [["inputs"], ["inputs"], ["both"], ["summary", "inputs", "both"], ["summary", "inputs", "both"], ["summary"]]
    )
    readers, ways = ["linear", "maximum", "tanh"], r.choice([["input"], ["state"], ["input", "state"]])
    return agreed(
        replace(
            one, reads=tuple(r.choice(kinds) for _ in periods), reader=tuple(r.choice(readers) for _ in periods),
            context=tuple(r.choice(ways) for _ in periods), burn_in=r.choice([0, 0, 1, 2, 3, 4]),
            segments=tuple(r.randint(1, 3) for _ in periods) if r.random() < 0.7 else (),
        )
    )  # fmt: skip


def batched(case: Case) -> Case:
    """With numbers of segments in a batch where they were left to the library."""
    return agreed(replace(case, segments=case.segments or (2,) * len(case.periods)))


@dataclass
class Built:
    """What a case describes. windows: of each the arguments of `backward`, time first, with garbage wherever nobody looks;
    weights: of each what losses count for, if that is not as by default."""

    model: hrnn.HRNN
    head: torch.nn.Linear
    windows: list[dict[str, Any]]
    weights: list[dict[str, float]] | None = None


def build(case: Case) -> Built:
    torch.manual_seed(case.seed)
    generator = torch.Generator().manual_seed(case.seed)
    model = hrnn.HRNN(
        hrnn.Tokens(3) if case.tokens else 2, list(case.sizes), list(case.periods), cell=[CELLS[name] for name in case.cells],
        decoder_layers=case.decoder_layers, decoder_units=3, indices=case.indices, normalized=list(case.normalized),
        symbol_weights=case.symbol_weights, output=case.output, batch_first=case.batch_first, **_edges(case),
    ).double()  # fmt: skip
    head = torch.nn.Linear(model.output_size, 3).double()
    rows, windows = [Row(b, model.periods) for b in range(case.batch)], []
    for window in case.windows:
        shape, steps = (window.steps, case.batch), window.steps
        x = torch.randint(3, shape, generator=generator)
        x = x if case.tokens else torch.randn(*shape, 2, generator=generator, dtype=torch.float64)
        y = torch.randint(3, shape, generator=generator)
        lengths = None if window.lengths is None else torch.tensor([min(n, steps) for n in window.lengths[: case.batch]])
        valid = torch.arange(steps)[:, None] < (torch.tensor(steps) if lengths is None else lengths)
        reset = None if window.resets is None else _marked(torch.zeros(shape, dtype=torch.bool), window.resets)
        given = sum(isinstance(period, Given) for period in case.periods)
        boundaries = None
        if given:
            boundaries = torch.zeros(steps + window.behind, case.batch, given, dtype=torch.bool)
            _nest(rows, _marked(boundaries, window.boundaries), valid.expand(shape), reset)
        mask = None if window.untargeted is None else ~_marked(torch.zeros(shape, dtype=torch.bool), window.untargeted)
        x = torch.where(valid.expand(shape) if case.tokens else valid[..., None], x, -1 if case.tokens else float("nan"))
        y[~(valid if mask is None else valid & mask).expand(shape)] = 99
        windows.append({"x": x, "y": y, "mask": mask, "boundaries": boundaries, "lengths": lengths, "reset": reset})
    return Built(model, head, windows)


def _edges(case: Case) -> dict[str, Any]:
    """Arguments of the model that are not as by default."""
    given = {name: list(getattr(case, name)) for name in ("reads", "context", "segments") if getattr(case, name)}
    if case.reader:
        given["reader"] = [READERS[name] for name in case.reader]
    return given | ({"burn_in": case.burn_in} if case.burn_in else {})


def _marked(flags: torch.Tensor, where: At) -> torch.Tensor:
    for at in where:
        if all(i < n for i, n in zip(at, flags.shape, strict=True)):
            flags[at] = True
    return flags


def _nest(rows: list[Row], boundaries: torch.Tensor, valid: torch.Tensor, reset: torch.Tensor | None) -> None:
    """Clear boundaries where the level below does not tick, by going through the steps of each row."""
    given = [i for i, period in enumerate(rows[0].periods) if isinstance(period, Given)]
    for b, row in enumerate(rows):
        row.opens()
        for t in range(int(valid[:, b].sum())):
            starts, ticks, flags = reset is not None and bool(reset[t, b]), True, {}
            for i, period in enumerate(row.periods):
                if i in given:
                    boundaries[t, b, given.index(i)] &= ticks
                    flags[i] = bool(boundaries[t, b, given.index(i)])
                place = 0 if starts else row.position(i)
                ticks = ticks and (place == 0 or flags.get(i, place == period))
            list(row.step(t, flags, starts))
        end = int(valid[:, b].sum())
        row.closes(dict(zip(given, boundaries[end, b].tolist(), strict=True)) if end < len(boundaries) else {})


def chunks(window: dict[str, Any], cuts: tuple[int, ...]) -> list[hrnn.Chunk]:
    """A window's arguments, time first, as chunks; what comes behind its last step is told with the last of them."""
    steps, lengths, flags = len(window["x"]), window["lengths"], window["boundaries"]
    return [
        hrnn.Chunk(
            window["x"][a:b], window["y"][a:b], None if window["mask"] is None else window["mask"][a:b],
            None if flags is None else flags[a : len(flags) if b == steps else b],
            None if lengths is None else (lengths - a).clamp(0, b - a),
            None if window["reset"] is None else window["reset"][a:b],
        )
        for a, b in pairwise([0, *sorted(cut for cut in cuts if 0 < cut < steps), steps])
    ]  # fmt: skip


def shortest(case: Case, fails) -> Case:
    """As simple as it gets and still `fails(case)`."""
    while (one := next(filter(fails, _simpler(case)), None)) is not None:
        case = one
    return case


def _simpler(case: Case) -> Iterator[Case]:
    yield from (other for one in _cut(case) if (other := agreed(one)) != case)


def _cut(case: Case) -> Iterator[Case]:
    below, windows = len(case.periods), case.windows
    for i in range(len(windows)) if len(windows) > 1 else ():
        yield replace(case, windows=windows[:i] + windows[i + 1 :])
    if case.batch > 1:
        yield replace(case, batch=case.batch - 1)
    if below:
        names = ("periods", "normalized", "betas", "reads", "reader", "context", "segments")
        yield replace(case, **{name: getattr(case, name)[:-1] for name in (*names, "cells", "sizes", "every")})
    for i, window in enumerate(windows):
        for other in _simpler_windows(window):
            yield replace(case, windows=(*windows[:i], other, *windows[i + 1 :]))
    plain = {"output": "lowest", "tokens": False, "indices": "all", "symbol_weights": "equal", "batch_first": False,
             "clip": None, "round_steps": None, "decoder_layers": 1, "optimizer": "sgd", "replay": 1.0,
             "reads": (), "context": (), "segments": (), "burn_in": 0}  # fmt: skip
    yield from (replace(case, **{name: value}) for name, value in plain.items() if getattr(case, name) != value)
    if case.burn_in:
        yield replace(case, burn_in=case.burn_in - 1)
    for name, simple in (("cells", "rnn"), ("sizes", 1), ("betas", 0.0), ("normalized", False), ("every", 1),
                         ("reads", "summary"), ("reader", "linear"), ("context", "input"), ("segments", 1)):  # fmt: skip
        for i, one in enumerate(values := getattr(case, name)):
            if one != simple:
                yield replace(case, **{name: (*values[:i], simple, *values[i + 1 :])})
    for i, period in enumerate(case.periods):
        if (n := getattr(period, "reach", period)) > 1:
            other = Given(n - 1) if isinstance(period, Given) else n - 1
            yield replace(case, periods=(*case.periods[:i], other, *case.periods[i + 1 :]))


def _simpler_windows(window: Window) -> Iterator[Window]:
    for steps in {window.steps // 2, window.steps - 1} - {0}:
        yield replace(window, steps=steps)
    plain = {"lengths": None, "resets": None, "untargeted": None, "cuts": (), "boundaries": (), "behind": False, "once": False}
    yield from (replace(window, **{name: value}) for name, value in plain.items() if getattr(window, name) != value)
    for name in ("resets", "boundaries", "untargeted", "cuts"):
        for i in range(len(values := getattr(window, name) or ())):
            yield replace(window, **{name: values[:i] + values[i + 1 :]})
