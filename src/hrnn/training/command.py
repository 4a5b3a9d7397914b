"""What to type to train a run again, from the options that its config.json holds. Needs no torch, and imports no task."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from typing import Any

from hrnn.training.entries import SECTIONS

HIDDEN = {  # what a task finds out by itself, and no option says; a test compares these
    "pixels": ("order",),
    "text": ("vocabulary",),
    "series": ("preprocessing", "weights", "naive", "changed", "identified", "timed", "tested"),
}
OPEN = ("gradient", "tracker", "updates", "sequences", "epochs", "validate_every", "stop_after")  # where None
EMPTY = ("validation", "test", "values", "categorical")  # options of tasks that were not given, where empty
VALUED = ("intervals",)  # yes, no, or as the data look: these take a word, where other flags take none
Said = Callable[[str, str, Any], bool]


def command_of(
    entries: dict[str, Any], *, without: Collection[str] = (), said: Said = lambda section, option, value: True
) -> str:
    """Every option is there, so that it means the same with other defaults, but for those that are open: nothing was chosen.

    entries: of a configuration, by section, as JSON
    without: options to be left out
    said:    whether the command has this option of this section with this value; by default it does
    """
    task = dict(entries["task"])
    name = str(task.pop("name"))
    own = ":" in name
    words = ["hrnn", "train", *(["--task", name] if own else [name])]
    if not own and "data" not in without and (data := task.pop("data", None)):
        words += map(str, data if isinstance(data, list) else [data])
    for section, options in {**entries, "task": task}.items():
        for option, value in options.items() if section in SECTIONS else ():
            if section == "task":  # one of the user's own may have any default; of ours, what is None was not given
                unspoken = option in HIDDEN.get(name, ()) or (not own and (value is None or (value == [] and option in EMPTY)))
            else:
                unspoken = value is None and option in OPEN
            if not unspoken and option not in without and said(section, option, value):
                words += _words(option.replace("_", "-"), value)
    return shlex.join(words)


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool) and option not in VALUED:
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", *(map(str, value) if isinstance(value, list) else [str(value)])]
