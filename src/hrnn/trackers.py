"""Curves in somebody else's tracker: what a run journals is also told to wandb, or to an object of the user's.

A tracker has three calls, those of wandb:

    init(project=, name=, id=, resume="allow", config=)   once; a run that is resumed says the same id and name
    log({"update/loss": 0.5, ...}, step=update)           for every record of the journal that has numbers
    finish()                                              at the end, or when the run stops for now

Tracking changes nothing in a run: whatever a tracker raises is a warning, and the run goes on without it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Protocol

from hrnn.errors import UserError, words_of

PROJECT = "hrnn"
NAMES = ("wandb",)


class Tracker(Protocol):
    """What `train` takes as `tracker`: the module wandb itself is one."""

    def init(self, *, project: str, name: str, id: str, resume: str, config: dict[str, Any]) -> Any:
        """A run begins, or goes on; all as wandb.init takes them."""

    def log(self, data: dict[str, float], step: int) -> Any:
        """Numbers by their names, at an update."""

    def finish(self) -> Any:
        """The run ends, for now or for good."""


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Every number of a record, under its kind: update/loss, validation/accuracy, update/local_losses/0."""
    kind, found = record.get("kind", "run"), {}
    for name, value in record.items():
        for place, number in enumerate(value if name == "local_losses" else [value]):
            if isinstance(number, int | float) and not isinstance(number, bool) and name != "update":
                found[f"{kind}/{name}" + (f"/{place}" if name == "local_losses" else "")] = number
    return found


def require(name: str | None) -> None:
    """Refuse a tracker that is not installed, before a run is begun."""
    if name in NAMES and find_spec(name) is None:
        raise UserError(f"--tracker {name} needs {name}, which is not installed; pip install {name}")


def named(name: str) -> Tracker:
    """One of NAMES."""
    require(name)
    module: Any = importlib.import_module(name)
    tracker: Tracker = module
    return tracker


class Tracked:
    """A tracker that cannot disturb: after the first thing that it raises it is left alone, and `warn` is told."""

    def __init__(self, tracker: Tracker | str, *, name: str, id: str, config: dict[str, Any]):
        self._tracker: Tracker | None = None
        self.warnings: list[str] = []  # before anything is logged
        self._step = 0
        try:
            found = named(tracker) if isinstance(tracker, str) else tracker
            found.init(project=PROJECT, name=name, id=id, resume="allow", config=config)
            self._tracker = found
        except Exception as error:  # whatever a service, its network and its login come up with
            self.warnings.append(f"the tracker cannot begin, and the run goes on without it ({words_of(error)})")

    def record(self, record: Mapping[str, Any]) -> None:
        """What the journal records."""
        self._step = max(self._step, int(record.get("update", 0)))  # tests are of earlier weights; wandb drops earlier steps
        if self._tracker is not None and (numbers := numbers_of(record)):
            self._call("log", numbers, step=self._step)

    def close(self) -> None:
        self._call("finish")

    def _call(self, verb: str, *arguments: Any, **options: Any) -> None:
        if self._tracker is None:
            return
        try:
            getattr(self._tracker, verb)(*arguments, **options)
        except Exception as error:  # as above
            self._tracker = None
            words = f"warning: the tracker failed, and the run goes on without it ({words_of(error)})"
            print(words, file=sys.stderr, flush=True)
