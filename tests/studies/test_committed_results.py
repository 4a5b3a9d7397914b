"""What is committed under results/ belongs to the recipes as they are, and its tables are those that its runs give."""

import json
import runpy
from pathlib import Path

import pytest

import hrnn
import hrnn.studies.results as results
from hrnn.report.committed import FOLDER
from hrnn.report.experiment_figure import picture_of
from hrnn.report.experiments import entries_of
from hrnn.report.files import curves
from hrnn.report.frontier import entries_of as entries_of_frontier
from hrnn.report.frontier import picture_of as picture_of_frontier
from hrnn.report.shown import page, page_of_frontier, page_of_times
from hrnn.report.unlocked import picture_of as picture_of_times
from hrnn.studies.catalogue import study
from hrnn.studies.frontier import FRONTIER
from hrnn.studies.plan import Request, collect, with_chosen
from hrnn.studies.unlocked import RATES, TASKS, UNLOCKED, best_rate, unit
from hrnn.studies.unlocked import entries_of as entries_of_task
from tests.tiny import real_data

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/runs"))
UNLOCKED_FOLDER, FRONTIER_FOLDER = RESULTS / UNLOCKED.name, f"{FRONTIER.name}-desk"


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name not in (UNLOCKED.name, FRONTIER_FOLDER)])
def test_tables_follow_from_the_runs_and_runs_from_the_recipes(folder, tmp_path):
    written = json.loads((RESULTS / folder / "table.json").read_text())
    (tmp_path / "mnist").mkdir()
    if "ptb" in written["data"]:  # the settings of a run on text hold what was found in the text
        (tmp_path / "ptb").symlink_to(real_data("ptb").absolute())
    experiment = study(written["experiment"], written["searched"])
    request = Request(experiment, RESULTS / folder, written["profile"], data=tmp_path, scale=written["scale"])
    if request.searched:
        request = with_chosen(request)
    runs = collect(request)
    entries = entries_of(request, runs)
    assert json.loads(json.dumps(entries)) == written
    assert (RESULTS / folder / "table.md").read_text() == page(entries)
    note = "" if request.scale == 1 else f"scaled: {request.scale:g} of the budget, a trial"
    assert (RESULTS / folder / "curves.json").read_bytes() == curves(picture_of(request.experiment, runs, note))


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name == FRONTIER_FOLDER])
def test_the_tables_of_the_frontier_follow_from_the_runs(folder, tmp_path):
    written = json.loads((RESULTS / folder / "table.json").read_text())
    (tmp_path / "mnist").mkdir()
    entries = entries_of_frontier(Request(FRONTIER, RESULTS / folder, data=tmp_path, scale=written["scale"]))
    assert json.loads(json.dumps(entries)) == written
    assert (RESULTS / folder / "table.md").read_text() == page_of_frontier(entries)
    assert (RESULTS / folder / "curves.json").read_bytes() == curves(picture_of_frontier(entries))


def test_the_tables_of_unlocked_updates_follow_from_the_runs(tmp_path):
    written = json.loads((UNLOCKED_FOLDER / "table.json").read_text())
    entries = {task: entries_of_task(task, UNLOCKED_FOLDER) for task in TASKS}
    assert [row for rows in entries.values() for row in rows] == written["rows"]
    assert (UNLOCKED_FOLDER / "table.md").read_text() == page_of_times(written)
    (tmp_path / "mnist").mkdir()
    request = Request(UNLOCKED, UNLOCKED_FOLDER, data=tmp_path)
    assert (UNLOCKED_FOLDER / "curves.json").read_bytes() == curves(picture_of_times(request, list(entries)))
    for row in (row for row in UNLOCKED.rows if not row.name.startswith("text")):
        seeds = {rate: [100] for rate in RATES[row.name]}
        seeds[best_rate(UNLOCKED_FOLDER, row)] = [100, 0, 1, 2]
        for run in (unit(request, row, rate, seed) for rate, several in seeds.items() for seed in several):
            assert results.read(UNLOCKED_FOLDER, run, request.setting) is not None


def test_the_package_carries_every_table_and_curve_and_little_else():
    made = runpy.run_path(str(RESULTS / "write_package_data.py"))["files"]()
    assert len(made) == len(FOLDERS)
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == made, "run make results"
    assert sum(map(len, made.values())) < 13_000 * len(made)


def test_another_version_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(hrnn, "__version__", "99.0")
    for path in RESULTS.rglob("seed-*.json"):
        assert results.entries_of(path)["hrnn"].startswith("0.")


def test_no_path_of_a_machine_is_in_them():
    def texts(value):
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [value] if isinstance(value, str) else [text for part in parts for text in texts(part)]

    for folder in FOLDERS:
        for path in (RESULTS / folder / "runs").rglob("*.json"):
            assert not [text for text in texts(json.loads(path.read_text())) if Path(text).is_absolute()], path
