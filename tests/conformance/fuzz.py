"""Long random checks: python -m tests.conformance.fuzz [cases [seed [check ...]]]; the shortest case of each disagreement."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import torch

from tests.conformance.cases import Case, draw, shortest
from tests.conformance.moving import check_moves, check_standing
from tests.conformance.sharing import check_shared
from tests.conformance.suite import METHODS, check, check_in_time

Check = tuple[Callable[[int], Case], Callable[[Case], object]]


def shared(case: Case) -> float:
    """By one method, another for every case."""
    suiting = [name for name, one in METHODS.items() if one.suits(case)]
    return check_shared(case, suiting[case.seed % len(suiting)])


CHECKS: dict[str, Check] = {
    "methods": (draw, check),
    "in-time": (draw, check_in_time),
    "together": (partial(draw, apart=False), check_moves),
    "apart": (partial(draw, apart=True), check_moves),
    "standing": (draw, check_standing),
    "shared": (partial(draw, least=2), shared),
    "shared-together": (partial(draw, apart=False, least=2), partial(check_shared, moves=True)),
    "shared-apart": (partial(draw, apart=True, least=2), partial(check_shared, moves=True)),
}


def told(check: Callable[[Case], object], case: Case) -> str:
    """What is wrong with a case, in one line; nothing if it is right."""
    try:
        check(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    return ""


def fuzz(count: int, seed: int, names: Sequence[str] = tuple(CHECKS), most: int = 3) -> list[str]:
    """So many cases of every check; the shortest cases of disagreements, at most so many of each kind."""
    found, kinds, worst = [], Counter(), Counter()
    began = time.process_time()
    for name in names:
        make, check = CHECKS[name]
        for number in range(seed * 1_000_000, seed * 1_000_000 + count):
            case = make(number)
            try:
                off = check(case)
                for who, value in (off if isinstance(off, Counter) else {name: off}).items():
                    worst[who] = max(worst[who], value)
            except Exception as error:
                kind = f"{name}: {str(error).split(':')[0]}"
                kinds[kind] += 1
                if kinds[kind] <= most:
                    short = shortest(case, lambda other: bool(told(check, other)))  # noqa: B023
                    found.append(f"{name}, {number}: {told(check, short)}\n    {short}")
                    print(found[-1], flush=True)
    print(
        f"{count} cases of each of {', '.join(names)} from {seed} on, {time.process_time() - began:.0f} s; the largest errors:"
    )
    print(
        ", ".join(f"{who} {off:.0e}" for who, off in sorted(worst.items())), "disagreements:", dict(kinds) or "none", flush=True
    )
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    count, seed, *_ = [int(value) for value in sys.argv[1:3]] + [100, 0][len(sys.argv[1:3]) :]
    sys.exit(bool(fuzz(count, seed, sys.argv[3:] or tuple(CHECKS))))
