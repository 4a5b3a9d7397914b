"""Train "ours" and the true-gradient HRNN on a small copy task until both solve it; losses and memory side by side.

The network reads LENGTH random bits, then LENGTH blanks, and has to repeat the bits: 0 1 1 0 * * * * -> * * * * 0 1 1 0.
"""

from __future__ import annotations

import math
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

import hrnn
from hrnn.memory import measure, paper_count

LENGTH, PERIOD, SIZES, BATCH = 10, 5, [64, 128], 50
SOLVED = 0.15  # bits per recalled bit; chance is 1
LIMIT = 3000  # updates


def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets (2 LENGTH, BATCH): 0 and 1 are bits, 2 is the blank."""
    bits = torch.randint(2, (LENGTH, BATCH), generator=generator)
    blanks = torch.full_like(bits, 2)
    return torch.cat([bits, blanks]), torch.cat([blanks, bits])


def train(name: str, gradient: hrnn.Restricted | hrnn.Full, console: Console) -> tuple[float, int, float]:
    """Train until a fresh batch is recalled; returns bits per recalled bit, updates, seconds."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = hrnn.HRNN(hrnn.Tokens(3), SIZES, periods=[PERIOD], indices="all")
    head = nn.Linear(SIZES[0], 3)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=3e-3)

    def loss(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        values = F.cross_entropy(head(output).flatten(0, 1), target.flatten(), reduction="none").view(target.shape)
        return values, {"recalled": values * (target < 2)}

    started, bits = time.perf_counter(), math.inf
    for update in range(1, LIMIT + 1):
        optimizer.zero_grad()
        x, y = batch(generator)
        result = gradient.backward(model, x, y, loss=loss, betas=[1.0], generator=generator)
        optimizer.step()
        bits = float(result.metrics["recalled"]) / (LENGTH * BATCH) / math.log(2)
        if update % 100 == 0 or bits < SOLVED:
            console.print(
                f"{name:5} update {update:5}: {bits:.3f} bits per recalled bit, local loss {result.local_losses[0]:.3f}"
            )
        if bits < SOLVED:
            break
    return bits, update, time.perf_counter() - started


def main() -> None:
    torch.set_num_threads(1)
    console = Console()
    console.print(__doc__)
    rows = [("ours", hrnn.Restricted(), "restricted"), ("HRNN", hrnn.Full(), "full")]
    table = Table(title=f"Copy task, {LENGTH} bits, two levels of {SIZES}, period {PERIOD}; memory also for 1,000 steps")
    for column in ("model", "gradients", "bits per recalled bit", "updates", "seconds", "vectors stored", "MB at T = 1,000"):
        table.add_column(column, justify="left" if column in ("model", "gradients") else "right")
    solved = True
    for name, gradient, method in rows:
        bits, updates, seconds = train(name, gradient, console)
        solved &= bits < SOLVED
        vectors = paper_count([PERIOD], 2 * LENGTH) if method == "restricted" else 2 * LENGTH
        size = measure(method=method, hidden_sizes=SIZES, periods=[PERIOD], window=1000, batch=BATCH)
        table.add_row(name, method, f"{bits:.3f}", str(updates), f"{seconds:.0f}", str(vectors), f"{size / 1e6:.0f}")
    console.print(table)
    if not solved:
        raise SystemExit(f"not solved within {LIMIT} updates")


if __name__ == "__main__":
    main()
