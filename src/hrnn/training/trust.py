"""Whose code may run when a run is opened: a run's config.json can name modules, and importing one runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hrnn.errors import UserError, shortened
from hrnn.tasks import load_object
from hrnn.training.config import Config, to_json


@dataclass(frozen=True)
class Trust:
    """Modules that a run names are imported only if you name them as well, or trust the run."""

    task: str | None = None
    """The run's own task, module:Name, to be imported."""
    cell: str | None = None
    """The run's own cell, module:Name, to be imported."""
    trust: bool = False
    """Import whatever modules the run names. Only for runs whose code you would run."""

    @staticmethod
    def of(config: Config[Any]) -> Trust:
        """What a configuration names that the user has written, and not read from a file."""
        named = own_names(to_json(config))
        return Trust(named.get("task"), named.get("cell"))

    def check(self, folder: Path, entries: dict[str, Any]) -> None:
        """Refuse a run that names modules which the user did not."""
        named, given = own_names(entries), {"task": self.task, "cell": self.cell}
        for option, name in given.items():
            if name is not None and name != (there := named.get(option)):
                raise UserError(
                    f"--{option} is {name} and {folder} has {there or 'none of its own'}; give the same, or drop it"
                )
        wanted = {option: name for option, name in named.items() if given[option] != name}
        if wanted and not self.trust:
            options = " ".join(f"--{option} {name}" for option, name in wanted.items())
            raise UserError(
                f"{folder} names code of its own, which would run if it were opened; if that is yours, or you trust it, "
                f"add {options} (or --trust)"
            )

    def load(self, folder: Path, entries: dict[str, Any], modules: dict[str, str]) -> None:
        """Import what the run names, after the check; where it is not found, say where it was."""
        self.check(folder, entries)
        for option, name in own_names(entries).items():
            try:
                load_object(name, f"--{option}")
            except UserError as error:
                was_in = modules.get(name.partition(":")[0])
                hint = (
                    f"; it was in {was_in} when the run began: work there, or add that folder to PYTHONPATH" if was_in else ""
                )
                raise UserError(f"{error}{hint}") from None


def own_names(entries: dict[str, Any]) -> dict[str, str]:
    """The modules that a run's entries name, by the option that names them."""
    found = {"task": entries["task"].get("name"), "cell": entries["model"].get("cell")}
    for option, name in found.items():
        if not isinstance(name, str):
            raise UserError(f"the run's configuration has {option} {shortened(name)!r}, which is not a name")
    return {option: str(name) for option, name in found.items() if ":" in str(name)}
