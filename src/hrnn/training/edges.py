"""What levels read, where contexts enter and what a burn-in is, as a run's options say it: completed for every level, and
checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hrnn.errors import UserError, shortened
from hrnn.readers import READERS
from hrnn.room import side_by_side
from hrnn.training.options import Model
from hrnn.wiring import Wiring

ABOVE, BELOW = "above the lowest", "below the top"
PER_LEVEL = {"reads": ABOVE, "reader": ABOVE, "context": BELOW, "segments": BELOW}


def completed(model: Model, reaches: Sequence[int], rows: int) -> Model:
    """With an entry for each level in every list; betas and segments, where nothing is said, as suits what is read. What does
    not fit the levels stays as it is, for `check` to refuse.

    reaches: of all periods, given ones included; rows: of the whole batch
    """
    below = len(reaches)
    usual = Model()
    lists = {name: getattr(model, name) for name in ("reads", "reader", "context")}
    for name, value in lists.items():
        if len(value) == 1 and (below or value == getattr(usual, name)):
            lists[name] = value * below
    model = replace(model, **lists)
    if len(model.reads) != below:
        return replace(model, segments=model.segments or ())
    wiring = of(model, reaches)
    sends, shared = ([level for level in range(below) if of_level(level)] for of_level in (wiring.sends, wiring.shares))
    default = 1.0 if model.has_local_losses else 0.0
    betas = tuple(default if level in sends else 0.0 for level in range(below)) if model.betas is None else model.betas
    if model.betas is not None and len(betas) == 1:  # for all that can have it; where none can, it is refused
        betas = tuple(betas[0] if level in (sends or range(below)) else 0.0 for level in range(below))
    segments = model.segments
    if segments is None:
        segments = tuple(
            side_by_side(size, reach, rows) if level in shared else 1
            for level, (size, reach) in enumerate(zip(model.hidden_sizes or (), reaches, strict=False))
        )
    elif len(segments) == 1 and below:
        segments = tuple(segments[0] if level in (shared or range(below)) else 1 for level in range(below))
    return replace(model, betas=betas, segments=segments)


def of(model: Model, reaches: Sequence[int]) -> Wiring:
    """Who reads what."""
    return Wiring(tuple(reaches), model.reads, model.burn_in, model.segments or ())


def check(model: Model, reaches: Sequence[int]) -> None:
    """Refuse a completed choice that contradicts itself or the levels."""
    below = len(reaches)
    for name, levels in PER_LEVEL.items():
        if len(value := getattr(model, name)) != below:
            raise UserError(f"--{name} {_shown(value)} {_wrong(value, below, levels)}")
    wiring = of(model, reaches)
    for one in model.reader:
        if one not in READERS and ":" not in one:
            raise UserError(f"--reader is {shortened(one)!r}; give {', '.join(READERS)}, or module:Name of your own")
    if not wiring.highest and any(one != "linear" for one in model.reader):
        raise UserError(
            f"--reader {_shown(model.reader)} reads raw inputs, and no level does; give --reads inputs or both, or drop it"
        )
    if model.burn_in and (not below or wiring.sends(0)):
        why = "level 1 reads the summary of the lowest level; drop it, or give --reads inputs"
        raise UserError(f"--burn-in is {model.burn_in} and {why if below else 'the network has one level; drop it'}")
    for level, (beta, count) in enumerate(zip(model.betas or (), model.segments or (), strict=False)):
        if beta and not wiring.sends(level):
            raise UserError(
                f"--betas is {_shown(model.betas)}, and no level reads the summary of level {level}, which needs no local "
                f"loss; give 0 there, or drop it"
            )
        if count != 1 and not wiring.shares(level):
            raise UserError(f"--segments is {_shown(model.segments)}, and level {level} sends or reads a summary; give 1 there")
    name = model.method.partition(":")[0]
    if below and not wiring.cuts and name in ("replay", "synthetic"):
        raise UserError(
            f"--gradient is {model.method}, which sends gradients to summaries, and no level reads one: gradients are true "
            f"ones already; drop it, or give --reads summary or both"
        )


def unusual(model: Model) -> dict[str, Any]:
    """The choices of a completed model that differ from the paper, by option."""
    names = ("reads", "reader", "context", "output_levels", "burn_in", "segments")
    usual = {"summary", "linear", "input", "lowest", 0, 1}
    found = {name: getattr(model, name) for name in names}
    return {name: one for name, one in found.items() if set(one if isinstance(one, tuple) else (one,)) - usual}


def _wrong(value: Sequence[Any], below: int, levels: str) -> str:
    if not below:
        return "is for two levels or more, and the network has one; drop it"
    return f"has {len(value)} entries; give {below}, one for each level {levels}, or one for all"


def _shown(value: Sequence[Any] | None) -> str:
    return " ".join(shortened(one) for one in value or ())
