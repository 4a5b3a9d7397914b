"""The frontier: settings are chosen once for a method, what has the same gradients is not trained, and the figures follow."""

import json
from dataclasses import replace

import pytest

import hrnn.studies.frontier as frontier
from hrnn.commands.reproduce_runs import show
from hrnn.report.files import CURVES
from hrnn.report.frontier import entries_of
from hrnn.report.page_studies import study_in
from hrnn.studies.frontier import FRONTIER, METHODS, POINTS, TASKS, reproduce, stages
from hrnn.studies.plan import Request
from tests.studies.results import Pretended, solved
from tests.tiny import write_mnist


@pytest.fixture
def request_of_all(tmp_path):
    write_mnist(tmp_path / "mnist")
    return Request(FRONTIER, tmp_path / "frontier", seeds=(0, 1), data=tmp_path)


@pytest.fixture
def measured(monkeypatch):
    """An update of true gradients takes a second, every other one two; nothing is measured in a process."""
    asked = []

    def seconds(config):
        return 1.0 if config.model.method in ("full", "restricted") else 2.0

    def size(config, children):
        asked.append(config.model.method)
        return 9_000_000

    monkeypatch.setattr(frontier, "seconds_of", seconds)
    monkeypatch.setattr(frontier, "bytes_of", size)
    return asked


def finds(unit):
    """The rate of 0.006 or 0.004 is best, and the seeds differ."""
    task, rate = unit.name.removeprefix("search/").split("/")[0], unit.config.learning.learning_rate
    best, seed = rate in (6e-3, 4e-3), unit.config.upkeep.seed
    if task == "copy":
        return solved(20 + 6 * best + 2 * (seed == 1))
    accuracy = {"accuracy": 0.5 + 0.4 * best + 0.02 * (seed == 1)}
    return {"validation": accuracy, "test": accuracy}


def test_every_method_has_as_many_trials_and_three_values_of_its_knob():
    search = FRONTIER.search
    assert {len(set(trials)) for trials in search.trials.values()} == {4}
    assert min(search.seeds) >= 100
    assert {*search.trials, *search.shared} == {row.name for row in FRONTIER.rows}
    assert set(search.shared.values()) <= set(search.trials)
    for task in TASKS:
        for method in METHODS:
            points = [one for one in POINTS.values() if (one.task, one.method) == (task, method)]
            assert len(points) == (3 if method.knobs else 1)
            assert len({one.recipe("desk").model for one in points}) == len(points)
    for row in FRONTIER.rows:  # but for the method and what was chosen for it, the runs of a task are the same
        config, full = row.recipe("desk"), FRONTIER.row(f"{row.name.split('/')[0]}/full").recipe("desk")
        assert (config.task, config.budget, config.batch) == (full.task, full.budget, full.batch)
        assert config.learning.update == ("segment" if row.name.endswith("/unlocked") else "batch")


def test_what_is_asked_for_first_is_of_use_first(request_of_all):
    order = stages(request_of_all)
    assert order[:4] == [("copy/full",), ("pixels/full",), ("copy/restricted-5",), ("pixels/restricted-14",)]
    assert order[-1] == ("pixels/replay-0.1", "pixels/replay-0.5")
    assert sorted(name for names in order for name in names) == sorted(row.name for row in FRONTIER.offered)


def test_settings_are_chosen_at_the_middle_value_and_only_what_is_missing_is_run(request_of_all, measured, monkeypatch):
    engine = Pretended(monkeypatch, finds)
    some = replace(request_of_all, models=("copy/full", "copy/replay-0.5"))
    request, ending = reproduce(some, engine)
    assert not ending.failures
    searched = [name for name in engine.asked if name.startswith("search/")]
    assert searched == [
        f"search/copy/{row}/beta-{beta}-rate-{rate}/seed-100"
        for row in ("full", "replay-0.2") for beta in ("0.1", "1") for rate in ("0.003", "0.006")
    ]  # fmt: skip
    assert [name for name in engine.asked if name not in searched] == [
        "copy/full/seed-0", "copy/full/seed-1", "copy/replay-0.5/seed-0", "copy/replay-0.5/seed-1"
    ]  # fmt: skip
    assert request.chosen["copy/replay-0.5"] == request.chosen["copy/replay-0.2"]
    assert request.chosen["copy/replay-0.5"].learning_rate == 6e-3
    assert measured == ["checkpointed:7MB", "checkpointed:9MB", "checkpointed:12MB"]  # restricted is not there yet
    count = len(engine.asked)
    reproduce(replace(some, chosen={}), engine)
    assert (len(engine.asked), len(measured)) == (count, 3)


def test_the_table_and_the_pictures(request_of_all, measured, monkeypatch, capsys):
    models = ("copy/full", "copy/restricted-5", "copy/truncated-10", "pixels/full")
    request, _ = reproduce(replace(request_of_all, models=models), Pretended(monkeypatch, finds))
    entries = entries_of(request)
    rows = {(row["task"], row["method"], row["knob"]): row for row in entries["rows"]}
    full, again, top = (rows[("copy", *key)] for key in (("full", None), ("checkpointed", 9), ("checkpointed-top", None)))
    assert full["scores"] == again["scores"] == [26, 28]
    assert (full["as"], again["as"], top["as"]) == (None, "copy/full", "copy/restricted-5")
    assert (full["minutes"], again["minutes"], top["minutes"]) == (1.0, 2.0, 2.0)
    assert (full["measured_bytes"], again["measured_bytes"]) == (4_000_000, 9_000_000)
    assert full["setting"] == "beta 0.1; rate 0.006"
    assert rows["pixels", "full", None]["mean"] == pytest.approx(0.91)
    assert (entries["called"], entries["searched"]) == ("frontier", False)
    show(request)
    page = (request.folder / "table.md").read_text()
    assert "| checkpointed | 9 | 27.0 ± 1.0* | ≥26.0, ≥28.0 | 9.0 | 2.00 | beta 0.1; rate 0.006 |" in page
    assert "64/64 units; period 5; window 60; beta 0.1; batch 50; Adam at 0.006;" in page
    assert "100,000 sequences per run." in page
    assert "Not run: copy/restricted-3, copy/restricted-10, copy/unlocked" in page
    assert "| copy | truncated |" not in page  # its trials are those of 20 steps, which was not asked for
    assert "| copy | full | beta 0.1; rate 0.006 | 26.0 | chosen |" in page
    for name in ("curves", "score-by-megabytes", "score-by-minutes"):
        assert (request.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    (first, *_), _ = json.loads((request.folder / CURVES).read_text())["rows"]
    assert first["log"]
    points = {curve["label"]: curve["runs"] for curve in first["curves"]}
    assert points["full"] == [[[4, 4], [26, 28]]]
    assert [x for (x, _), _ in points["checkpointed"]] == [9, 9, 9]
    panel = study_in(request.folder).panels[0]
    assert panel["points"]
    assert panel["curves"][0]["lines"] == [[[4.0], [27.0]]]
    assert "longest length solved" in capsys.readouterr().out
