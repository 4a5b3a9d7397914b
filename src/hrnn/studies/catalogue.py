"""All studies by name, for whoever is given one."""

from __future__ import annotations

import hrnn.studies.defaults as defaults
import hrnn.studies.paper as paper
import hrnn.studies.paper_size as paper_size
import hrnn.studies.upward_edges as upward_edges
from hrnn.studies.experiment import Experiment
from hrnn.studies.frontier import FRONTIER
from hrnn.studies.searched import SEARCHED
from hrnn.studies.unlocked import UNLOCKED

STUDIES: dict[str, Experiment] = {
    **paper.EXPERIMENTS,
    **paper_size.EXPERIMENTS,
    **defaults.EXPERIMENTS,
    **upward_edges.EXPERIMENTS,
    UNLOCKED.name: UNLOCKED,
    FRONTIER.name: FRONTIER,
}


def study(name: str, searched: bool = False) -> Experiment:
    return SEARCHED[name] if searched else STUDIES[name]
