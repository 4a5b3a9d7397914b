"""How noisy replayed gradients are: the variance of `Restricted(replay=p)` over its draws, beside the gradient itself.

    python -m benchmarks.replay_variance

One model, one window, many draws. For every number of upper ticks and every p: the standard deviation of the gradient's
estimate over its draws, relative to the norm of the true gradient; for the variant without 1/p also its bias, and for p = 0
what `Restricted` leaves out. With weights as they are made little goes through the upward edges; three times as large, much
does.
One window of 8 rows; a batch of n times as many has a variance n times smaller.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

import hrnn


def gradient(method: hrnn.Gradient, model: hrnn.HRNN, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output - target).square().mean(-1)

    mask = torch.zeros(x.shape[:2], dtype=torch.bool)
    mask[-5:] = True  # what was read long before has to be remembered
    method.backward(model, x, y, loss=loss, betas=[0.0], mask=mask, generator=generator)
    found = torch.cat([p.grad.flatten() for p in model.cells.parameters() if p.grad is not None])
    for p in model.parameters():
        p.grad = None
    return found


def measure(ticks: int, draws: int, gain: float) -> list[str]:
    torch.manual_seed(0)
    model = hrnn.HRNN(8, [16, 16], [5]).double()
    with torch.no_grad():
        for cell in model.cells:
            for p in cell.parameters():
                p.mul_(gain)
    x, y = torch.randn(5 * ticks, 8, 8).double(), torch.randn(5 * ticks, 8, 16).double()
    generator = torch.Generator().manual_seed(1)
    true = gradient(hrnn.Full(), model, x, y, generator)
    cells = [f"{float((gradient(hrnn.Restricted(), model, x, y, generator) - true).norm() / true.norm()):.3f}"]
    for p in (0.1, 0.2, 0.5):
        for unbiased in (True, False):
            method = hrnn.Restricted(replay=p, unbiased=unbiased)
            found = torch.stack([gradient(method, model, x, y, generator) for _ in range(draws)])
            noise = float(found.var(0).sum().sqrt() / true.norm())
            bias = float((found.mean(0) - true).norm() / true.norm())
            cells.append(f"{noise:.3f}" if unbiased else f"{noise:.3f} ({bias:.3f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    columns = ["p = 0: left out", *(f"p = {p} | without 1/p (bias)" for p in (0.1, 0.2, 0.5))]
    print(f"| weights times | ticks of the top | {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for gain in (1, 3):
        for ticks in (3, 6, 12, 24):
            print(f"| {gain} | {ticks} | {' | '.join(measure(ticks, draws, gain))} |", flush=True)


if __name__ == "__main__":
    main()
