"""What is measured: configurations by name, and each method as a function that runs one window."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import hrnn
from benchmarks import rivals

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Configuration:
    """Sizes of a run. text: characters with given word boundaries instead of fixed periods. rows: "given" draws boundaries
    six steps apart in the mean, "endless" the same but for one row that never ends a segment, "ragged" draws lengths."""

    inputs: int
    sizes: tuple[int, ...]
    periods: tuple[int, ...]
    window: int
    batch: int
    tokens: bool = True
    text: bool = False
    rows: str = "alike"
    cell: str | type[nn.Module] = "lstm"
    side_by_side: bool = False  # no upward edges, contexts as initial states, all levels shown, numbers as targets


class MinimalGRU(nn.Module):
    """A cell of a user's own."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.hidden_size = hidden_size
        self.gate = nn.Linear(input_size + hidden_size, hidden_size)
        self.value = nn.Linear(input_size, hidden_size)

    def initial_state(self, batch: int) -> tuple[torch.Tensor]:
        return (self.value.weight.new_zeros(batch, self.hidden_size),)

    def step(self, inputs: torch.Tensor, state: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        (h,) = state
        keep = torch.sigmoid(self.gate(torch.cat([inputs, h], 1)))
        return (keep * h + (1 - keep) * torch.tanh(self.value(inputs)),)


CONFIGURATIONS = {
    "copy": Configuration(3, (256, 256), (10,), 200, 100),
    "pixels": Configuration(1, (256, 256), (10,), 784, 100, tokens=False),
    "deep-copy": Configuration(3, (64, 256, 1024), (5, 5), 1000, 100),
    "small": Configuration(3, (64, 64), (10,), 200, 16),
    "three-levels": Configuration(3, (128, 128, 128), (10, 10), 10_000, 16),
    "small-deep": Configuration(3, (64, 64, 64), (5, 5), 200, 16),
    "given-64": Configuration(3, (64, 64), (), 200, 16, rows="given"),
    "given-256": Configuration(3, (256, 256), (), 200, 32, rows="given"),
    "endless": Configuration(3, (128, 128), (), 2000, 16, rows="endless"),
    "ragged-64": Configuration(3, (64, 64), (10,), 200, 16, rows="ragged"),
    "ragged-256": Configuration(3, (256, 256), (10,), 200, 32, rows="ragged"),
    "side-by-side": Configuration(1, (64, 64), (16,), 512, 4, tokens=False, side_by_side=True),
    "long": Configuration(1, (64, 64), (16,), 100_000, 4, tokens=False, side_by_side=True),
    "million-deep": Configuration(1, (128,) * 4, (10,) * 3, 1_000_000, 8, tokens=False, side_by_side=True),
    "million": Configuration(1, (64, 64), (100,), 1_000_000, 1, tokens=False, side_by_side=True),
    "own-cell": Configuration(3, (64, 64), (10,), 200, 16, cell=MinimalGRU),
    "characters-50": Configuration(128, (256, 512), (), 50, 100, text=True),
    "characters-1000": Configuration(128, (256, 512), (), 1000, 100, text=True),
}
FOR_MEMORY = ("three-levels", "long", "million-deep", "million")  # alone
# The last two with fused Adam: once per window, after every segment.
OWN = ("full", "restricted", "locked Adam", "unlocked Adam")
INFERENCE = ("forward", "step")  # without gradients: a whole window, and the first steps of a stream
METHODS = ("floor", "nn.LSTM", "naive", "checkpoint", *OWN)
SIDE_BY_SIDE = {"reads": "inputs", "context": "state", "output": "all"}  # as HRNN has them


def methods(name: str) -> tuple[str, ...]:
    """Those that make sense for a configuration: the rivals know fixed periods only, and hold long windows in memory."""
    c = CONFIGURATIONS[name]
    if c.side_by_side:
        return "two calls", "locked Adam"
    if c.text:
        return "nn.LSTM", "full", "restricted"
    return METHODS if c.rows == "alike" and c.cell == "lstm" else OWN


def text_source() -> tuple[str, Path | None]:
    """Real text: Penn TreeBank from a folder named by HRNN_DATA or beside the project, else the project's own pages."""
    for folder in (os.environ.get("HRNN_DATA"), str(ROOT.parent / "shared" / "data")):
        path = Path(folder or "") / "ptb" / "ptb.train.txt.gz"
        if folder and path.is_file():
            return "Penn TreeBank", path
    return "the project's documentation", None


def characters(window: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Character codes (window + 1, batch) and where words start, one stream per row."""
    _, path = text_source()
    if path is not None:
        import gzip

        text = gzip.decompress(path.read_bytes()).decode("ascii", "replace")
    else:
        pages = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("src/**/*.md"))
        text = re.sub(r"[^\x00-\x7f]", "?", "\n".join(page.read_text() for page in pages))
    needed = batch * (window + 1)
    codes = torch.tensor(list((text * (needed // len(text) + 1))[:needed].encode("ascii", "replace")))
    streams = codes.view(batch, window + 1).t().contiguous()
    starts = torch.zeros_like(streams, dtype=torch.bool)
    starts[1:] = (streams[:-1] == ord(" ")) | (streams[:-1] == ord("\n"))
    return streams, starts


def own(name: str, method: str, window: int | None = None) -> Callable[[], object]:
    """One window of this library, head, loss and local losses included."""
    c = CONFIGURATIONS[name]
    window = window or c.window
    outputs = c.inputs if c.text else 1 if c.side_by_side else 3
    periods = list(c.periods) or [hrnn.Given(16)]
    edges = SIDE_BY_SIDE if c.side_by_side else {}
    model = hrnn.HRNN(hrnn.Tokens(c.inputs) if c.tokens else c.inputs, list(c.sizes), periods, cell=c.cell, **edges)
    head = nn.Linear(model.output_size, outputs)
    boundaries = lengths = None
    if c.text:
        streams, boundaries = characters(window, c.batch)
        x, y = streams[:-1], streams[1:]
    else:
        x = torch.randint(3, (window, c.batch)) if c.tokens else torch.randn(window, c.batch, c.inputs)
        y = torch.randn(window, c.batch) if c.side_by_side else torch.randint(3, (window, c.batch))
        if not c.periods:
            boundaries = torch.rand(window, c.batch) < 1 / 6
            if c.rows == "endless":
                boundaries[1:, 0] = False
        if c.rows == "ragged":
            lengths = torch.randint(max(1, window // 10), window + 1, (c.batch,))
    if method in INFERENCE:
        return partial(_infer, model, x, boundaries, method == "step")
    gradient = hrnn.Full() if method == "full" else hrnn.Restricted()
    parameters = [*model.parameters(), *head.parameters()]
    adam = partial(torch.optim.Adam, fused=True)
    locked = adam(parameters) if method == "locked Adam" else None
    updates = hrnn.Updates(model, adam, heads=head.parameters()) if method == "unlocked Adam" else None

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if c.side_by_side:
            return (head(output)[..., 0] - target).square()
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    betas = None if c.side_by_side else [0.1] * len(periods)

    def run() -> None:
        for parameter in parameters:
            parameter.grad = None
        gradient.backward(model, x, y, loss=loss, betas=betas, boundaries=boundaries, lengths=lengths, updates=updates)
        if locked is not None:
            locked.step()

    return run


@torch.no_grad()
def _infer(model: hrnn.HRNN, x: torch.Tensor, boundaries: torch.Tensor | None, step_by_step: bool) -> None:
    if not step_by_step:
        model(x, boundaries=None if boundaries is None else boundaries[: len(x)])
        return
    state = None
    for step in range(min(50, len(x))):
        _, state = model.step(x[step], state, None if boundaries is None else boundaries[step])


def runner(name: str, method: str, window: int | None = None) -> Callable[[], object]:
    """A function that runs one window of a configuration with a method."""
    c = CONFIGURATIONS[name]
    if method in OWN + INFERENCE:
        return own(name, method, window)
    rival = {
        "floor": rivals.floor, "nn.LSTM": rivals.flat, "naive": rivals.naive, "checkpoint": rivals.checkpointed,
        "two calls": rivals.two_calls,
    }[method]  # fmt: skip
    return rival(c.inputs, c.sizes, c.periods, window or c.window, c.batch)


def for_memory(name: str, method: str, window: int | None = None) -> tuple[Callable[[], object], Callable[[], object]]:
    """For hrnn.memory.measure: a tiny window to warm up, and the window."""
    torch.manual_seed(0)
    c = CONFIGURATIONS[name]
    tiny = 2 * c.periods[0] if c.side_by_side else max([20, *c.periods])
    run = runner(name, method, window)
    return partial(_twice, runner(name, method, tiny)), run


def _twice(run: Callable[[], object]) -> None:
    run()
    run()
