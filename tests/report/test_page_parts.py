"""What stands on the page beside curves: memory and time, sweeps, studies, samples."""

import json
import re

import pytest

from hrnn.formats import numbered
from hrnn.memory import predict, predict_checkpointed, predict_truncated
from hrnn.report.committed import FOLDER
from hrnn.report.page_facts import differing, notes_of, option_text, times_of
from hrnn.report.page_memory import memory_of
from hrnn.report.page_numbers import confusion_of, evenly, recovered_of
from hrnn.report.page_studies import committed_study
from hrnn.room import in_words
from tests.commands.console import hrnn
from tests.report.pages import config, content_of, page_of, records, write
from tests.runs import SMALL, tasks

RESULTS = FOLDER.parents[3] / "results"


def test_memory_where_periods_are_fixed():
    found = memory_of(config(), {"name": "native"}, None)
    assert found["vectors by the paper's count"] == str(4 + 2 * (20 // 4))
    assert list(found) == ["vectors by the paper's count", "vectors, exactly", "predicted, for three symbols"]
    known = {**config(), "about": {"notes": [], "tokens": False, "inputs": 5000, "outputs": 5000}}
    wide = memory_of(known, {"name": "native"}, {"peak_bytes": 300_000_000}, 5_000_000)
    options = {"inputs": 5000, "tokens": False, "outputs": 5000, "decoder_units": 16, "all_indices": True}
    predicted = predict([8, 8], [4], 20, 10, native=True, **options)
    assert wide["predicted"] == in_words(predicted)
    assert (wide["of an update, measured now"], wide["whole process at its peak, measured"]) == ("5 MB", "300 MB")


def test_memory_of_every_method():
    shape = ([8, 8], [4], 20, 10)
    options = {"decoder_units": 16}
    full = memory_of(config(model="hrnn"), {"name": "native"}, None)
    assert full["vectors by the paper's count"] == "20"
    assert full["predicted, for three symbols"] == in_words(predict_truncated(*shape, 20, **options))
    assert memory_of(config(gradient="full"), {"name": "native"}, None) == full
    shorter = memory_of(config(model="mr-hrnn"), {"name": "native"}, None)
    assert shorter["vectors by the paper's count"] == "14"
    assert shorter == memory_of(config(gradient="truncated:14"), {"name": "native"}, None)
    kept = memory_of(config(gradient="checkpointed"), {"name": "native"}, None)
    assert kept == {"predicted, for three symbols": in_words(predict_checkpointed(*shape, **options))}
    assert memory_of(config(gradient="replay:0.5"), {"name": "native"}, None) == kept
    assert "predicted, for three symbols" not in memory_of(config(gradient="synthetic"), None, None)


def test_memory_where_nothing_can_be_said():
    assert list(memory_of(config(periods=[]), None, None)) == ["vectors"]  # given by the data
    assert "predicted" not in str(memory_of(config(cell="mine:Cell"), None, None))
    for nonsense in ({"window": "x"}, {"gradient": "truncated:x"}, {"hidden_sizes": 3}, {"periods": [0]}):
        assert memory_of(config(**nonsense), None, {"peak_bytes": "many"}) == {}


def test_time_by_part():
    assert times_of(records(20, every=5)) == {"all": 36.0, "of the processor": 18.0}
    assert times_of([]) == {}
    times = {"seconds": 40.0, "cpu_seconds": 20.0, "validation_seconds": 12.0, "data_seconds": 3.0, "test_seconds": 4.0}
    lines = [*records(20), {"kind": "end", "update": 20, **times}]
    found = {"of learning": 21.0, "of validation": 12.0, "of the test": 4.0, "of reading data": 3.0}
    assert times_of(lines) == {"all": 40.0, "of the processor": 20.0, **found}


def test_what_was_found_in_the_data():
    assert notes_of({**config(), "about": {"notes": ["sequences: training 3", "<b>"]}}) == ["sequences: training 3", "<b>"]
    assert notes_of({**config(), "about": 3}) == []
    assert notes_of({**config(), "task": {"name": "text", "vocabulary": "abc"}}) == ["3 symbols"]


def test_options_in_which_runs_differ():
    first, second = config(seed=0), config(seed=1)
    assert differing([first, second]) == ["upkeep.seed", "learning.learning_rate"]
    first["task"] |= {"data": "/a/long way/walks.csv"}
    second["task"] |= {"data": "/a/long way/runs.csv"}
    assert "task.data" in differing([first, second])
    assert option_text(first, "task.data") == "walks.csv"
    second["task"]["name"] = "text"
    assert "task.data" not in differing([first, second])


def test_what_decoders_recover_stays_within_its_size():
    table = [[float(index) for index in range(500)], [1.0, 2.0]]
    lines = [{"kind": "validation", "update": number, "recovered": table} for number in range(1000)]
    levels = recovered_of(lines, cells=2000)
    assert sum(len(level["z"]) * len(level["z"][0]) for level in levels) <= 2000
    assert levels[0]["thinned"]
    assert levels[0]["indices"][::59] == [1, 500]
    assert [row[0] for row in levels[0]["z"]][::59] == [0, 499]
    assert levels[1]["x"]["update"][-1] == 999
    assert recovered_of([{"kind": "validation", "recovered": "nonsense"}], 100) == []


def test_confusion_of_the_last_test_where_the_result_has_none():
    lines = [{"kind": "test", "update": 1, "confusion": [[1]]}, {"kind": "test", "update": 2, "confusion": [[2]]}]
    assert confusion_of(None, lines) == {"classes": ["0"], "counts": [[2]]}
    assert confusion_of({"confusion": [[None]]}, []) is None


def test_evenly():
    assert evenly(range(10), 4) == [0, 3, 6, 9]
    assert evenly(range(3), 4) == [0, 1, 2]


def test_the_table_of_a_sweep(tmp_path):
    sweep = tmp_path / "sweep"
    for seed in (0, 1):
        write(sweep / f"seed={seed}", seed=seed)
    (sweep / "sweep.json").write_text(json.dumps(numbered("sweep", {"over": {"seed": ["0", "1"]}})))
    runs = [
        {"run": "seed=0", "state": "done", "update": 20, "value": 0.91},
        {"run": "x", "state": "stopped early", "update": 7},
    ]
    row = {"setting": {"batch": "<i>10</i>"}, "mean": 0.91, "std": 0.0, "runs": runs}
    entries = {"metric": "accuracy", "judged_on": "validation", "higher_is_better": True, "rows": [row]}
    (sweep / "table.json").write_text(json.dumps(numbered("sweep", entries)))
    text = page_of(sweep).text
    assert "Sweep sweep" in text
    assert "batch accuracy (validation) runs <i>10</i> 0.9100 ± 0.0000 0.9100, stopped early at update 7" in text
    (sweep / "table.json").write_text("{}")
    content = content_of(sweep)
    assert len(content.runs) == 2
    assert list(content.problems) == [str(sweep / "table.json")]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_every_committed_study(name):
    page = page_of(name)
    table = json.loads((FOLDER / f"{name}.json").read_text())["table"]
    assert table["title"] in page.text
    assert "Trained 20" in page.text
    assert page.data["studies"][0]
    for row in table["rows"]:
        assert (row.get("title") or row["row"]) in page.text
    for one in table.get("expectations", ()):
        assert f"{one['sentence']} {one['verdict']} {one['rule']}" in page.text
    published = [
        cell["published"] for row in table["rows"] for cell in row.get("cells", {}).values() if cell["published"] is not None
    ]
    assert all(str(cell["mean"] or cell["words"]) in page.text for cell in published)


def test_a_study_by_the_name_of_its_experiment_and_from_its_folder():
    assert committed_study("copy") == committed_study("copy-desk")
    assert committed_study("no such study") is None
    assert page_of(RESULTS / "copy-desk").data["studies"] == page_of("copy").data["studies"]


def test_a_study_with_damaged_files(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "table.json").write_bytes((RESULTS / "copy-desk" / "table.json").read_bytes())
    assert f"{folder} has no curves.json" in page_of(folder).text
    (folder / "curves.json").write_text('{"format": 5}')
    assert "its curves cannot be read" in page_of(folder).text
    curves = (RESULTS / "copy-desk" / "curves.json").read_text()
    (folder / "curves.json").write_text(re.sub(r"\[\[(\d+),", "[[NaN,", curves, count=1))
    assert "its curves cannot be read" in page_of(folder, "mnist").text
    (folder / "table.json").write_text('{"format": 5, "experiment": "copy"}')
    content = content_of(folder, "copy")
    assert len(content.studies) == 1
    assert "does not describe a study" in content.problems[str(folder)]


def test_lines_of_a_study_are_means_with_a_band():
    panel = page_of("copy").data["studies"][0][0]
    ours = panel["curves"][0]
    assert len(ours["lines"]) == 1
    assert len(ours["lines"][0][0]) == len(ours["low"]) == len(ours["high"])
    assert ours["lines"][0][1][-1] == pytest.approx(29.3333, abs=1e-3)
    assert ours["high"][-1] - ours["lines"][0][1][-1] == pytest.approx(8.0139, abs=1e-3)


def test_samples_of_text(tmp_path, capsys):
    task, *words = tasks(tmp_path)["text"]
    assert hrnn(capsys, "train", task, *words, *SMALL, "--updates", 3, "--run", tmp_path / "run")[0] == 0
    other = write(tmp_path / "pixels")
    page, again = tmp_path / "a.html", tmp_path / "b.html"
    assert hrnn(capsys, "report", tmp_path / "run", other, "-o", page, "--sample", 40) == (0, f"{page}\n", "")
    assert page.read_text().count('class="sample"') == 1
    assert hrnn(capsys, "report", tmp_path / "run", "-o", again)[0] == 0
    assert 'class="sample"' not in again.read_text()
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        checkpoint.unlink()
    code, _, err = hrnn(capsys, "report", tmp_path / "run", "-o", again, "--sample", 40)
    assert code == 0
    assert "has no checkpoint yet" in err
    code, _, err = hrnn(capsys, "report", other, "-o", again, "--sample", 40)
    assert (code, err) == (0, "skipped --sample: none of the runs is on text\n")


def test_a_sample_of_a_text_without_lines(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("abcd" * 500)
    words = ("--data", tmp_path / "a.txt", "--boundaries", "c", "--no-unknown", "--window", 50, "--updates", 3)
    code, _, err = hrnn(capsys, "train", "text", *words, *SMALL, "--run", tmp_path / "run")
    assert code == 0, err
    page = tmp_path / "a.html"
    assert hrnn(capsys, "report", tmp_path / "run", "-o", page, "--sample", 40) == (0, f"{page}\n", "")
    assert page.read_text().count('class="sample"') == 1
