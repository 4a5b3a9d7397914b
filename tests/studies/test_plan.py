"""Which runs there are, which are missing, and what is made of those that are there; nothing is trained here."""

import json
import re
import subprocess
from dataclasses import replace

import pytest

import hrnn
import hrnn.studies.results as results
from hrnn.commands.reproduce_runs import show
from hrnn.errors import DONE, UserError
from hrnn.launching.units import Ending
from hrnn.report.experiment_figure import picture_of, points
from hrnn.report.experiments import entries_of
from hrnn.report.picture import draw, from_json, to_json
from hrnn.report.shown import TOO_FEW, command_of, page
from hrnn.studies.catalogue import STUDIES
from hrnn.studies.paper import EXPERIMENTS
from hrnn.studies.plan import Request, collect, reproduce
from hrnn.studies.searched import SEARCHED
from hrnn.training.journal import JOURNAL
from tests.studies.results import Pretended, solved
from tests.tiny import write_mnist

LENGTHS = {"ours": 30, "hrnn": 30, "mr-hrnn": 15, "mr-hrnn-bytes": 10, "gr-hrnn": 5, "unlocked": 35, "default": 35}


@pytest.fixture
def copy(tmp_path):
    return Request(EXPERIMENTS["copy"], tmp_path / "copy")


def lengths(unit):
    row = unit.name.split("/")[0]
    return solved(LENGTHS[row] + (unit.config.upkeep.seed if row == "hrnn" else 0))


def test_only_what_is_missing_is_run(copy, monkeypatch):
    engine = Pretended(monkeypatch, lengths)
    reproduce(replace(copy, seeds=(0,), models=("ours",)), engine)
    assert engine.asked == ["ours/seed-0"]
    reproduce(replace(copy, seeds=(0, 1), models=("ours", "hrnn")), engine)
    assert engine.asked[1:] == ["hrnn/seed-0", "ours/seed-1", "hrnn/seed-1"]
    reproduce(replace(copy, seeds=(0, 1), models=("ours", "hrnn")), engine)
    assert len(engine.asked) == 4
    table = entries_of(copy, collect(copy))  # whatever seeds and models were asked for last
    assert [(row["name"], row["seeds"]) for row in table["rows"]] == [("ours", [0, 1]), ("hrnn", [0, 1])]
    assert {one["verdict"] for one in table["expectations"]} == {"undecided"}
    assert command_of(table) == "hrnn reproduce copy --run --models ours hrnn --seeds 0 1"
    missing = "Not run: gr-HRNN; mr-HRNN; mr-HRNN, equal bytes; ours, unlocked; ours, defaults."
    assert missing in page(table)
    without = {name: value for name, value in table.items() if name != "missing"}  # a table of an older version
    assert "Not run" not in page(without)


def test_a_curve_ends_with_what_a_run_came_to(copy, monkeypatch):
    """The last length may be solved between two records."""
    runs = collect(reproduce(replace(copy, seeds=(0,), models=("ours",)), Pretended(monkeypatch, lengths))[0])
    (run,), panel = runs["ours"], copy.experiment.panels[0]
    x, y = points(run, panel)
    assert (x[-1], y[-1], len(x)) == (3000, LENGTHS["ours"], 13)  # the last record has it: not twice
    fewer = replace(run, counted=replace(run.counted, records=run.counted.records[:-2]))
    x, y = points(fewer, panel)
    assert (x[-2:].tolist(), y[-2:].tolist()) == ([2750, 3000], [27, LENGTHS["ours"]])
    picture = picture_of(replace(copy.experiment, panels=(replace(panel, bottom=10.0),)), runs)
    assert draw(from_json(to_json(picture))).axes[0].get_ylim()[0] == 10


def test_the_table_of_copy(copy, monkeypatch):
    request, ending = reproduce(copy, Pretended(monkeypatch, lengths))
    assert ending == Ending()
    table = entries_of(request, collect(request))
    rows = {row["name"]: row for row in table["rows"]}
    cell = rows["hrnn"]["cells"]["length"]
    assert [run["value"] for run in cell["runs"]] == [30, 31, 32]
    assert (cell["mean"], round(cell["spread"], 4)) == (31, 0.8165)  # of the population
    assert (cell["published"]["mean"], cell["published"]["spread"]) == (107.7, 0.47)
    assert (rows["ours"]["memory"]["paper_count"], rows["hrnn"]["memory"]["paper_count"]) == (29, 60)
    assert rows["ours"]["memory"]["measured_bytes"] == 4_000_000
    assert (rows["gr-hrnn"]["gradients"], rows["gr-hrnn"]["local_loss"]) == ("restricted", False)
    verdicts = {one["sentence"]: one["verdict"] for one in table["expectations"]}
    assert set(verdicts.values()) == {"confirmed"}
    text = page(table)
    assert "| HRNN | true | yes | 31.0 ± 0.8 | ≥30, ≥31, ≥32 | 107.7 ± 0.47 | 60 | 200 | 4.0 | 1.0 |" in text
    assert "64/64 units; period 5" in text
    assert "150,000 sequences per run" in text
    assert "order of its seed (0 1 2)" in text
    assert re.search(rf"hrnn {re.escape(hrnn.__version__)}, (commit [0-9a-f]{{7,}}(-dirty)?, )?torch", text)
    assert "Scaled" not in text
    assert "Not run" not in text
    assert TOO_FEW not in text


def test_a_result_names_the_commit_of_its_source_and_no_other(tmp_path, monkeypatch):
    def git(*words):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    package = tmp_path / "site-packages" / "hrnn"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "other.py").write_text("")
    monkeypatch.setattr(results, "SOURCE", package)
    assert results.commit() is None  # no checkout at all
    git("init", "-q")
    git("add", "other.py")
    git("commit", "-q", "-m", "a project that uses hrnn")
    assert results.commit() is None  # the checkout is of something else
    git("add", "-A")
    git("commit", "-q", "-m", "hrnn itself")
    found = results.commit()
    assert re.fullmatch("[0-9a-f]{7,}", found)
    (package / "__init__.py").write_text("changed = True")
    assert results.commit() == f"{found}-dirty"
    monkeypatch.setenv("PATH", "")
    assert results.commit() is None  # no git


def test_a_model_that_misses_the_first_length_is_run_again_from_one(copy, monkeypatch):
    def finds(unit):
        if unit.name.startswith("gr-hrnn") and unit.config.task.start == 5:
            return solved(0, at_least=False)
        return lengths(unit)

    engine = Pretended(monkeypatch, finds)
    request = replace(copy, seeds=(0, 1), models=("ours", "gr-hrnn"))
    reproduce(request, engine)
    assert engine.asked[-2:] == ["gr-hrnn/seed-0-from-1", "gr-hrnn/seed-1-from-1"]
    row = entries_of(request, collect(request))["rows"][1]
    assert row["cells"]["length"]["runs"][0] == {"seed": 0, "value": 5, "at_least": True, "again": True, "first_attempt": 0}
    assert row["minutes"] == 2  # both attempts
    text = page(entries_of(request, collect(request)))
    assert "≥5†, ≥5†" in text
    assert "run again from 1 by 1" in text
    again = json.loads((copy.folder / "runs/gr-hrnn/seed-0-from-1.json").read_text())
    assert (again["config"]["task"]["start"], again["config"]["task"]["step"]) == (1, 1)
    assert again["config"]["budget"] == json.loads((copy.folder / "runs/gr-hrnn/seed-0.json").read_text())["config"]["budget"]
    reproduce(request, engine)
    assert len(engine.asked) == 6


@pytest.fixture
def searched(tmp_path):
    return Request(SEARCHED["copy"], tmp_path / "searched")


def test_the_search(searched, monkeypatch):
    def finds(unit):
        betas, rate = unit.config.betas, unit.config.learning.learning_rate
        if unit.name.startswith("search/hrnn"):
            return solved(40 if (betas, rate) == ((10.0,), 8e-3) else 20)
        if unit.name.startswith("search/gr-hrnn"):
            return "the loss is nan" if rate > 0.01 else solved(int(1000 * rate))
        return solved(30 if unit.name.startswith("search") else 5 + int(10 * betas[0]))

    engine = Pretended(monkeypatch, finds)
    request = replace(searched, seeds=(0,), models=("ours", "hrnn", "gr-hrnn", "default"))
    request, ending = reproduce(request, engine)
    tried = [name for name in engine.asked if name.startswith("search/")]
    assert len(tried) == len(set(tried)) == 3 * 6  # ours with its defaults is not searched
    assert {name.rpartition("-")[2] for name in tried} == {"100"}
    assert "search/hrnn/beta-10-rate-0.008/seed-100" in tried
    assert set(ending.failures) == {f"search/gr-hrnn/rate-{rate}/seed-100" for rate in ("0.012", "0.024")}
    chosen = {row: (trial.betas, trial.learning_rate) for row, trial in request.chosen.items()}
    # Among equals the recipe's own; what failed has lost. mr-hrnn was not asked for.
    assert chosen == {"ours": ((1.0,), 3e-3), "hrnn": ((10.0,), 8e-3), "gr-hrnn": ((), 6e-3)}
    table = entries_of(request, collect(request))
    settings = {
        row["name"]: (row["config"]["model"]["betas"], row["config"]["learning"]["learning_rate"]) for row in table["rows"]
    }
    assert settings == {"ours": ([1.0], 3e-3), "gr-hrnn": ([0.0], 6e-3), "hrnn": ([10.0], 8e-3), "default": ([1.0], 3e-3)}
    assert (table["searched"], table["called"], table["runs"]) == (True, "copy --search", 18 + 4)
    text = page(table)
    assert "`hrnn reproduce copy --search --run --models ours gr-hrnn hrnn default --seeds 0`: 64/64 units" in text
    assert "; period 5; window 60; batch 50; Adam; 150,000" in text
    assert "| HRNN | true | yes | 10 | 0.008 | 105.0 ± 0.0 |" in text
    assert "## Search: the best by longest length solved, on seed 100" in text
    assert "| HRNN | beta 10; rate 0.008 | 40.0 | chosen |" in text
    assert "| HRNN | beta 0.1; rate 0.003 | 20.0 |  |" in text
    assert "| gr-HRNN | rate 0.024 | failed |  |" in text
    asked = len(engine.asked)
    reproduce(replace(request, chosen={}), engine)
    assert engine.asked[asked:] == list(ending.failures)  # what failed is tried again, and nothing else
    reproduce(replace(request, chosen={}, models=("mr-hrnn",)), engine)  # what was chosen for the others is still known
    assert len(engine.asked) == asked + 2 + 6 + 1


def test_a_row_whose_every_trial_failed_is_not_run(searched, monkeypatch, capsys):
    engine = Pretended(monkeypatch, lambda unit: "the loss is nan")
    request, ending = reproduce(replace(searched, models=("ours",)), engine)
    assert len(ending.failures) == len(engine.asked) == 6
    show(request)
    assert capsys.readouterr().out == ""


def test_a_search_is_fair_and_chosen_by_no_seed_that_is_reported():
    for experiment in SEARCHED.values():
        search = experiment.search
        assert len({len(trials) for trials in search.trials.values()}) == 1, experiment.name
        assert all(len(set(trials)) == len(trials) <= 6 for trials in search.trials.values())
        fixed = {"default", "both-soonest", "ours-same-rate", "hrnn-same-rate"}
        assert {row.name for row in experiment.rows} - fixed == {*search.trials}
        assert min(search.seeds) >= 100
        for row in experiment.rows:
            recipe, trials = row.recipe("desk"), search.trials.get(row.name, ())
            assert row.name in fixed or recipe in [trial.of(recipe) for trial in trials], (experiment.name, row.name)
            if row.name in ("hrnn", "mr-hrnn"):
                assert trials == search.trials["ours"]


def test_a_run_that_failed_is_shown_and_tried_again(copy, monkeypatch):
    request = replace(copy, seeds=(0, 1), models=("ours",))
    _, ending = reproduce(request, Pretended(monkeypatch, lambda u: "the loss is nan" if "seed-1" in u.name else lengths(u)))
    assert ending.failures == {"ours/seed-1": "the loss is nan"}
    table = entries_of(request, collect(request))
    assert table["rows"][0]["cells"]["length"]["mean"] == 30
    text = page(table)
    assert "| yes | 30.0 ± 0.0 | ≥30, failed |" in text
    assert "ours, seed 1, failed: the loss is nan." in text
    engine = Pretended(monkeypatch, lengths)
    assert reproduce(request, engine)[1] == Ending()
    assert engine.asked == ["ours/seed-1"]
    assert ", failed" not in page(entries_of(request, collect(request)))


def test_a_run_that_is_unfinished_is_no_result_of_any_kind(copy, monkeypatch):
    request = replace(copy, seeds=(0, 1), models=("ours",))
    finds = Pretended(monkeypatch, lengths)

    def engine(folder, units, watcher):
        ending = finds(folder, units[:1], watcher)
        line = {"kind": "update", "update": 3, "sequences": 150, "solved": 5, "cpu_seconds": 90.0}
        (folder / units[1].name / JOURNAL).write_text(json.dumps(line) + '\n{"kind": "upda')  # as a kill may leave it
        return replace(ending, interrupted=True, code=DONE)

    _, ending = reproduce(request, engine)
    assert ending.interrupted
    table = entries_of(request, collect(request))
    cell = table["rows"][0]["cells"]["length"]
    assert (cell["mean"], [run["value"] for run in cell["runs"]]) == (30, [30, None])
    assert table["minutes"] == 2.5  # what it took is counted
    assert "ours, seed 1, unfinished after 150 sequences and 1.5 core-minutes; length solved (bits) so far: 5." in page(table)
    assert TOO_FEW in page(table)
    assert reproduce(request, finds)[1] == Ending()
    assert finds.asked == ["ours/seed-0", "ours/seed-1"]
    assert "unfinished" not in page(entries_of(request, collect(request)))


@pytest.mark.parametrize("name", ["copy", "frontier"])
def test_a_failure_is_not_made_unfinished_by_an_interruption(name, tmp_path, monkeypatch):
    experiment = STUDIES[name]
    request = Request(experiment, tmp_path, models=(experiment.rows[0].name,), seeds=(0,), data=write_mnist(tmp_path).parent)
    monkeypatch.setattr(type(request), "searched", property(lambda self: False))

    def engine(folder, units, watcher):
        line = {"kind": "update", "update": 3, "sequences": 150, "cpu_seconds": 90.0}
        (folder / units[0].name / JOURNAL).write_text(json.dumps(line) + "\n")
        return Ending({units[0].name: "the loss is nan"} if failing else {}, interrupted=True, code=DONE)

    for failing in (False, True):
        reproduce(request, engine)
        (path,) = (tmp_path / "runs").rglob("*.json")
        said = json.loads(path.read_text())["failure"]
        assert said == "the loss is nan" if failing else said.startswith("unfinished after 150 sequences")


def test_results_of_another_recipe_format_or_experiment(copy, monkeypatch, tmp_path):
    engine = Pretended(monkeypatch, lengths)
    small = replace(copy, seeds=(0,), models=("ours",))
    reproduce(small, engine)
    path = copy.folder / "runs/ours/seed-0.json"
    for other in (replace(small, scale=0.5), replace(small, profile="paper")):
        with pytest.raises(UserError, match=r"seed-0.json is of another recipe \(.*give another --folder"):
            reproduce(other, engine)
    deep = replace(small, experiment=EXPERIMENTS["deep-copy"], models=("both",))
    with pytest.raises(UserError, match="belongs to no row of this experiment"):
        reproduce(deep, engine)
    entries = json.loads(path.read_text())
    path.write_text(json.dumps({**entries, "hrnn": "0.0.9"}))
    reproduce(small, engine)  # another version wrote it: no reason to train it again
    model = {**entries["config"]["model"], "segments_at_once": 4}  # an option that is gone and changed last bits only
    path.write_text(json.dumps({**entries, "config": {**entries["config"], "model": model}}))
    reproduce(small, engine)
    path.write_text(json.dumps({**entries, "format": 99}))
    with pytest.raises(UserError, match=r"in format 99 and this is hrnn .* use a newer version"):
        reproduce(small, engine)
    changed = {**entries, "config": {**entries["config"], "learning": {**entries["config"]["learning"], "batch": 49}}}
    path.write_text(json.dumps(changed))
    with pytest.raises(UserError, match=r"learning.batch is 49 there and 50 here"):
        reproduce(small, engine)
    path.write_text("{")
    with pytest.raises(UserError, match=r"seed-0.json cannot be read"):
        reproduce(small, engine)
    assert path.read_text() == "{"
    assert engine.asked == ["ours/seed-0"]


def test_tables_and_pictures_are_made_from_results_alone_and_are_the_same_each_time(tmp_path, monkeypatch, capsys):
    def scores(unit):
        return {"test": {"accuracy": 0.9, "recalled_bits_per_character": 0.2}, "longest_solved_length": 0}

    for name in ("copy", "needle"):
        request = Request(EXPERIMENTS[name], tmp_path / name)
        reproduce(request, Pretended(monkeypatch, lengths if name == "copy" else scores))
        show(request)
        files = ("table.md", "table.json", "curves.svg")
        before = {file: (request.folder / file).read_bytes() for file in files}
        if name == "copy":
            for path in (request.folder / "work").rglob("*.json"):
                path.unlink()
            show(request)
            assert {file: (request.folder / file).read_bytes() for file in files} == before
        assert (request.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
        words = set(re.findall(r"<!-- (.*?) -->", before["curves.svg"].decode()))
        assert {row.title for row in request.experiment.rows} <= words
        assert {panel.label for panel in request.experiment.panels} <= words
        assert any(word.startswith("updates (batches of ") for word in words)
    assert "longest length solved" in capsys.readouterr().out


def test_a_study_without_measured_memory_has_a_table_without_those_columns(tmp_path, monkeypatch, capsys):
    request = Request(STUDIES["needle-rarity"], tmp_path, seeds=(0,), models=("decoys-equal",))
    reproduce(request, Pretended(monkeypatch, lambda unit: {"test": {"accuracy": 0.25}}))
    show(request)
    head, _, row = [line for line in (tmp_path / "table.md").read_text().splitlines() if line.startswith("|")][:3]
    assert head.endswith("| every run | minutes |")
    assert (
        row == "| flagged among decoys, equal weights | restricted | yes | 0.2500 ± 0.0000 | 0.2500 | 5,000 ± 0 | 5,000 | 1.0 |"
    )


def test_a_table_names_the_method_of_each_row(tmp_path, monkeypatch):
    request = Request(STUDIES["needle-replay"], tmp_path, seeds=(0,), models=("restricted", "replay", "hrnn", "unlocked"))
    reproduce(request, Pretended(monkeypatch, lambda unit: {"test": {"accuracy": 0.25}}))
    rows = entries_of(request, collect(request))["rows"]
    assert [row["gradients"] for row in rows] == ["restricted", "replay:0.2", "true", "restricted"]
    assert [row["memory"]["paper_count"] for row in rows] == [20, None, 50, 20]  # the paper counts vectors of two methods
    assert [row["config"]["learning"]["update"] for row in rows] == ["batch", "batch", "batch", "segment"]
