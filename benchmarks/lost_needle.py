"""At which level a trained hierarchy loses the needle: a linear classifier reads the flagged symbol from each level's summary.

    python -m benchmarks.lost_needle RUN

RUN is a run of `hrnn train needle` with two levels or more and fixed periods. A needle falls into each level's first segment,
so that its summary should hold it; chance is one over the symbols.
"""

from __future__ import annotations

import argparse
from math import prod

import torch
from sklearn.linear_model import LogisticRegression

import hrnn

ROWS, LEARNED = 6000, 4000  # sequences, and those of them that the classifier learns from


@torch.no_grad()
def summaries(levels: hrnn.HRNN, symbols: int, level: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Summaries (rows, units) of a level's first segment, and the flagged symbols (rows,) among what it covers."""
    periods = [int(period) for period in levels.periods]
    steps, below = prod(periods[: level + 1]), prod(periods[:level])
    random = torch.Generator().manual_seed(0)
    x = torch.randint(symbols, (steps, ROWS), generator=random)
    # A level above the lowest reads the summary of a segment below when the next begins: that of the last comes too late.
    place = torch.randint(steps if level == 0 else steps - below, (ROWS,), generator=random)
    rows = torch.arange(ROWS)
    needle = x[place, rows].clone()
    x[place, rows] += symbols
    _, state = levels(x)
    return state.hidden[level], needle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    trained = hrnn.load(parser.parse_args().run)
    levels, task = trained.network.levels, trained.config.task
    print(f"update {trained.update}; chance {1 / task.symbols:.3f}")
    for level in range(len(levels.periods)):
        read, needle = (tensor.numpy() for tensor in summaries(levels, task.symbols, level))
        found = LogisticRegression(max_iter=300).fit(read[:LEARNED], needle[:LEARNED])
        print(f"level {level}: {found.score(read[LEARNED:], needle[LEARNED:]):.3f} of the needles read from its summary")


if __name__ == "__main__":
    main()
