"""hrnn resume: continue a run exactly where its last checkpoint was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from hrnn.commands.options import parse
from hrnn.commands.train import run_and_report
from hrnn.limits import above, at_least, option
from hrnn.parallel import LONGEST, TIMEOUT, Group
from hrnn.training import folder as folders
from hrnn.training.config import Budget
from hrnn.training.display import suitable_display
from hrnn.training.entries import whole_result
from hrnn.training.identity import Trust
from hrnn.training.loop import Outcome, train


@dataclass(frozen=True)
class Resume:
    """Continue a run: weights, optimizer, data, curriculum and journal go on as if nothing had happened.

    A run that is finished can be given a larger budget.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    updates: int | None = option(None, at_least(1))
    """A new budget in updates."""
    sequences: int | None = option(None, at_least(1))
    """A new budget in sequences."""
    epochs: float | None = option(None, above(0, 1e9))
    """A new budget in passes over the data."""
    minutes: float | None = option(None, at_least(0))
    """Stop after so long, to be continued again."""
    accept_changed_data: bool = False
    """Go on although the data are not those that the run began with; the journal notes it."""
    verify: bool = False
    """Compare the checksums of all data. Without it, files with the size and the time that they had are taken for the same."""
    own: Trust = field(default_factory=Trust)
    timeout: float = option(TIMEOUT, above(0, LONGEST))
    """Under torchrun: seconds that a process waits for the others before it gives up."""
    json: bool = False
    """Print the result as JSON."""

    @property
    def budget(self) -> Budget | None:
        """Another one, if any of it is given."""
        budget = Budget(self.updates, self.sequences, self.epochs)
        return None if budget == Budget() else budget


def main(arguments: Sequence[str]) -> int:
    options = parse(Resume, "resume", arguments)
    return run_and_report(options.run, options.json, options.timeout, lambda group: _resume(options, group))


def _resume(options: Resume, group: Group) -> Outcome:
    group.check_same_options({name: str(value) for name, value in asdict(options).items()})
    result = json.loads(group.broadcast(json.dumps(_result(options)).encode() if group.first else None))
    if result is not None:
        return Outcome(None, result)
    return train(
        options.run,
        group=group,
        minutes=options.minutes,
        display=suitable_display() if group.first else None,
        trust=options.own,
        budget=options.budget,
        accept_changed_data=options.accept_changed_data,
        verify=options.verify,
    )


def _result(options: Resume) -> dict[str, Any] | None:
    """What a run found that is finished and gets no other budget."""
    stored = folders.read_run(options.run)  # is there a run, and as it was written?
    return None if options.budget else whole_result(options.run, stored.metrics)
