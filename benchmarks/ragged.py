"""Do rows of very different lengths learn as well as cropped ones, where levels move within the window?

Synthetic sensors: two noisy channels swing at a frequency that is the row's class, which is asked for at every step. The
same rows are learned with their lengths as drawn, cut down to multiples of the period, and all of one length (as many steps in
all). Every model is then judged on held-out rows as drawn, by the mean of its logits.

    python -m benchmarks.ragged --windows 40 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from statistics import mean

import torch
from torch import Tensor
from torch.nn import functional as F

import hrnn
from benchmarks.run import environment

PERIOD, LONGEST, SHORTEST, ROWS, UNITS = 16, 160, 10, 16, 32
FREQUENCIES = (1 / 5, 1 / 8, 1 / 13, 1 / 21)  # of a class each


@dataclass(frozen=True)
class Rows:
    """x (time, rows, 2), each row's class (rows,), how many of its steps count (rows,)."""

    x: Tensor
    classes: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        return torch.arange(len(self.x))[:, None] < self.lengths


def drawn(rows: int, generator: torch.Generator) -> Rows:
    """Lengths are spread evenly over their logarithm: most rows are short, and one is as long as the window."""
    classes = torch.randint(len(FREQUENCIES), (rows,), generator=generator)
    spread = torch.rand(rows, generator=generator)
    lengths = (SHORTEST * (LONGEST / SHORTEST) ** spread).long()
    lengths[0] = LONGEST
    frequency = torch.tensor(FREQUENCIES)[classes] * (1 + 0.1 * torch.rand(rows, generator=generator))
    phase = torch.rand(rows, generator=generator)
    angle = 2 * torch.pi * (torch.arange(LONGEST)[:, None] * frequency + phase)
    x = torch.stack([angle.sin(), 0.5 * angle.cos()], -1) + 0.7 * torch.randn(LONGEST, rows, 2, generator=generator)
    return Rows(x, classes, lengths)


def cropped(rows: Rows) -> Rows:
    """Lengths cut down to multiples of the period; a row shorter than one keeps what it has up to a boundary: nothing."""
    return Rows(rows.x, rows.classes, rows.lengths // PERIOD * PERIOD)


def equal(rows: Rows) -> Rows:
    """All rows as long as they are in the mean, to the next multiple of the period."""
    steps = max(PERIOD, round(float(rows.lengths.float().mean()) / PERIOD) * PERIOD)
    return Rows(rows.x[:steps], rows.classes, torch.full_like(rows.lengths, steps))


def learned(kind: str, windows: int, seed: int) -> dict[str, float]:
    """Train one model; what came out."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = hrnn.HRNN(2, hidden_sizes=[UNITS, UNITS], periods=[PERIOD], indices="all")
    head = torch.nn.Linear(UNITS, len(FREQUENCIES))
    updates = hrnn.Updates(model, lambda p: torch.optim.Adam(p, lr=3e-3), heads=head.parameters(), clip=1.0)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)

    began = time.process_time()
    for _ in range(windows):
        rows = drawn(ROWS, generator)
        rows = {"as drawn": lambda r: r, "cropped": cropped, "equal": equal}[kind](rows)
        alike = bool((rows.lengths == len(rows.x)).all())
        hrnn.Restricted().backward(
            model,
            rows.x,
            rows.classes.expand(len(rows.x), -1),
            loss=loss,
            betas=[1.0],
            lengths=None if alike else rows.lengths,
            updates=updates,
        )
    seconds = time.process_time() - began
    test = drawn(500, torch.Generator().manual_seed(99))
    with torch.no_grad():
        logits = head(model(test.x)[0]).log_softmax(-1) * test.mask[..., None]
    right = (logits.sum(0).argmax(-1) == test.classes).float().mean()
    return {"accuracy": float(right), "moves": updates.moves[0] / windows, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in environment(1).items()))
    print(
        f"{UNITS}/{UNITS} units, period {PERIOD}, {ROWS} rows of {SHORTEST} to {LONGEST} steps, {options.windows} windows, all "
        "indices, beta 1, clip 1, Adam at 0.003\n"
    )
    print("| lengths | accuracy, 500 held-out rows | every seed | moves of the lowest level a window | seconds of a core |")
    print("| --- | --- | --- | --- | --- |")
    for kind in ("as drawn", "cropped", "equal"):
        found = [learned(kind, options.windows, seed) for seed in options.seeds]
        accuracies = [one["accuracy"] for one in found]
        every = ", ".join(f"{value:.3f}" for value in accuracies)
        moves, seconds = mean(one["moves"] for one in found), mean(one["seconds"] for one in found)
        print(f"| {kind} | {mean(accuracies):.3f} | {every} | {moves:.1f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
