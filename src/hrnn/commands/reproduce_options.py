"""The options of hrnn reproduce, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hrnn.errors import UserError
from hrnn.launching.options import Where
from hrnn.limits import above, at_least, option
from hrnn.studies import SEEDS

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Reproduce:
    """Show the results of an experiment, those of the paper beside them, or with --run train it, all models and seeds.

    Experiments: copy, mnist, permuted-mnist, ptb, deep-copy; the paper's sizes in hours: copy-from-20, mnist-784,
    permuted-mnist-784, deep-copy-from-50; beyond the paper: needle, needle-long, needle-rarity, needle-replay, unlocked, every
    gradient method against its bytes and minutes: frontier, and one default beta on five tasks: beta-copy, beta-mnist,
    beta-ptb, beta-deep-copy, beta-needle. Without --run the table and verdicts that come with hrnn are shown, and nothing is
    trained. With --run whatever is in the folder already is kept: interrupted, or asked for more seeds or models later, it
    runs only what is missing.

    Examples:
        hrnn reproduce
        hrnn reproduce copy
        hrnn reproduce copy --output curves.svg
        hrnn reproduce copy --list --measure
        hrnn reproduce copy --run
        hrnn reproduce copy --search --run
        hrnn reproduce mnist --run --data data --seeds 0 1 2 --jobs 2
        hrnn reproduce copy --run --profile paper --models ours hrnn
        hrnn reproduce copy --run --engine ray --address 10.0.0.1:6379 --folder /shared/copy
    """

    name: Annotated[str | None, tyro.conf.Positional] = None
    """The experiment; without one, what there is."""
    profile: Literal["desk", "paper"] | None = None
    """desk: small, in minutes; paper: the paper's own settings. By default desk, where there is one."""
    search: bool = False
    """The table for which beta and the learning rate of every row were chosen by trials, on validation and on seed 100."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Draw the curves that come with hrnn into this file; PNG, SVG or PDF by its name."""
    run: bool = False
    """Train what is missing, then write and show table and curves. All options below are for that, or for --list."""
    seeds: tuple[int, ...] = option(SEEDS, at_least(0, entries=1000))
    """One run of each model for each seed."""
    models: tuple[str, ...] = ()
    """Rows of the table, by name; all by default."""
    where: Where = field(default_factory=Where)
    data: Path | None = None
    """Folder that holds mnist/ and ptb/."""
    folder: Path | None = None
    """Where results go; by default runs/reproduce/NAME-PROFILE, with -searched and -xSCALE behind it where these are given."""
    scale: float = option(1.0, above(0, 1000))
    """Multiply every budget; anything but 1 marks the table as a trial."""
    list: bool = False
    """What there is, and how many runs of what size each experiment takes."""
    measure: bool = False
    """With --list: what they would cost here, measured seconds per update times the budget. That itself takes minutes."""


def check(options: Reproduce) -> None:
    """Refuse what would have no effect."""
    called = f"hrnn reproduce {options.name or 'NAME'}"
    if options.list and options.run:
        raise UserError("--list says what there is and --run trains; give one of them")
    if options.measure and not options.list:
        raise UserError("--measure is for --list: hrnn reproduce --list --measure")
    if options.output is not None and (options.run or options.list):
        other = "--run writes curves.png and curves.svg into its folder" if options.run else "--list has none"
        raise UserError(f"--output draws the curves that come with hrnn, and {other}; drop it")
    if options.output is not None and options.output.suffix.lower() not in PICTURES:
        raise UserError(f"--output is {options.output}; give a name that ends with .png, .svg or .pdf")
    if not options.run and not options.list and (given := _for_training(options)):
        raise UserError(f"{' and '.join(given)} {'are' if len(given) > 1 else 'is'} for training: {called} --run")


def _for_training(options: Reproduce) -> list[str]:
    """Options given that change nothing unless something is trained, as they are written."""
    plain, where = Reproduce(), Where()
    named = [name for name in ("seeds", "models", "data", "folder", "scale") if getattr(options, name) != getattr(plain, name)]
    named += [one.name for one in fields(Where) if getattr(options.where, one.name) != getattr(where, one.name)]
    return [f"--{name}" for name in named]
