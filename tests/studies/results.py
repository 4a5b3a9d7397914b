"""Results of an experiment without training: an engine that writes down what a test wants to have been found."""

import json

import hrnn.studies.plan
from hrnn.formats import numbered
from hrnn.launching.units import Ending
from hrnn.training import folder as folders
from hrnn.training.journal import JOURNAL


def records(unit, final, points=12):
    """A journal that climbs, or falls, to its final values."""
    batch = unit.config.learning.batch
    sequences = unit.config.budget.sequences or 1000 * batch
    found = []
    for point in range(1, points + 1):
        share = point / points
        entry = {"update": int(share * sequences / batch), "sequences": int(share * sequences)}
        values = {
            name: 1.0 + (value - 1.0) * share if name != "solved" else int(value * share) for name, value in final.items()
        }
        found.append({"kind": "update", **entry, "loss": 2 - share, **values})
        found.append({"kind": "validation", **entry, "loss": 2 - share, **values})
    return found


class Pretended:
    """An engine: `finds(unit)` is a result, or a sentence that says why the unit failed. Remembers what it was asked for."""

    def __init__(self, monkeypatch, finds):
        self.finds, self.asked = finds, []
        monkeypatch.setattr(hrnn.studies.plan, "bytes_of", lambda config, children: 1_000_000 * len(config.model.model))

    def __call__(self, folder, units, watcher):
        ending = Ending()
        for unit in units:
            self.asked.append(unit.name)
            found = self.finds(unit)
            if isinstance(found, str):
                ending.failures[unit.name] = found
                continue
            result = {"sequences": unit.config.budget.sequences, "cpu_seconds": 60.0, **found}
            numbers = {**result.get("test", {}), "solved": result.get("longest_solved_length", 0)}
            (folder / unit.name / JOURNAL).write_text("".join(json.dumps(one) + "\n" for one in records(unit, numbers)))
            (folder / unit.name / folders.RESULT).write_text(json.dumps(numbered("run", result)))
        return ending


def solved(length, at_least=True):
    return {"longest_solved_length": length, "at_least": at_least}
