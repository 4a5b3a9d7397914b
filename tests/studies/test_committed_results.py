"""What is committed under results/ belongs to the recipes as they are, and its tables are those that its runs give."""

import json
from pathlib import Path

import pytest

from hrnn.report.reproduction import markdown, table_of
from hrnn.studies.paper import EXPERIMENTS
from hrnn.studies.plan import Request, collect

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/runs"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_tables_follow_from_the_runs_and_runs_from_the_recipes(folder, tmp_path):
    written = json.loads((RESULTS / folder / "table.json").read_text())
    if written["experiment"] == "ptb":
        pytest.skip("the settings of a run on text hold what was found in the text, which is not in the repository")
    (tmp_path / "mnist").mkdir()
    request = Request(
        EXPERIMENTS[written["experiment"]], RESULTS / folder, written["profile"], data=tmp_path, scale=written["scale"]
    )
    table = table_of(request, collect(request))
    assert json.loads(json.dumps(table)) == written
    assert (RESULTS / folder / "table.md").read_text() == markdown(table)


def test_no_path_of_a_machine_is_in_them():
    def texts(value):
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [value] if isinstance(value, str) else [text for part in parts for text in texts(part)]

    for folder in FOLDERS:
        for path in (RESULTS / folder / "runs").rglob("*.json"):
            assert not [text for text in texts(json.loads(path.read_text())) if Path(text).is_absolute()], path
