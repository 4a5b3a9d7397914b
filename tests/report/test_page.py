"""The page as a file: it needs nothing else, says what was trained, and shows what a file says as text, never as HTML."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from random import Random

import pytest

from hrnn.report import series
from hrnn.report.page import PLOTLY, plotly_script, render, safe_json
from hrnn.training.entries import sealed
from tests.report.pages import config, content_of, page_of, records, write

HOSTILE = "<img src=x onerror=document.title='bad'><b>&amp; \u2028 ${1} %{x}"
MORE_HOSTILE = "</script><script>document.title='bad'</script><!--"


@pytest.fixture
def runs(tmp_path):
    return [write(tmp_path / name, seed=seed) for seed, name in enumerate(("first", "second"))]


def test_the_page_needs_nothing_else(runs):
    page = page_of(*runs, plotly=None)
    assert plotly_script() in page.scripts
    assert len(page.scripts) == 2
    for tag, attributes in page.elements:
        assert "src" not in attributes
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert len(page.source) < 5.5e6


def test_its_policy_names_its_own_scripts_and_no_other_source(runs):
    page = page_of(*runs, plotly=None)
    (policy,) = [one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in page.scripts}
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert set(rules["script-src"].split()) == hashes
    assert rules["default-src"] == rules["connect-src"] == "'none'"


def test_what_was_trained(runs):
    page = page_of(*runs)
    assert "2 runs on pixels" in page.text
    for words in ("ours 8/8, seed 0", "ours 8/8, seed 1", "/data/train.gz", "1,234,567", "ab" * 32, "native, avx2, threads 1"):
        assert words in page.text
    command = "hrnn train pixels --pool 2 --model ours --hidden-sizes 8 8 --periods 4 --window 20 --cell lstm --betas 1.0"
    assert command in page.text
    assert "--clip None --updates 100 --seed 1" in page.text
    assert "learning rate" in page.text  # in which they differ
    assert "0.02" in page.text
    assert "vectors by the paper's count 14" in page.text
    assert "validation 0.9524 accuracy" in page.text


def test_curves_of_every_metric(runs):
    page = page_of(*runs)
    first = page.data["runs"][0]
    assert first["columns"]["update"]["y"]["loss"]["v"] == [float(f"{2 / n:.5g}") for n in range(1, 21)]
    assert first["columns"]["validation"]["x"] == {
        "update": [5, 10, 15, 20],
        "sequences": [50, 100, 150, 200],
        "seconds": [9, 18, 27, 36],
    }
    names = [panel["name"] for panel in page.data["panels"]]
    assert names == ["accuracy", "loss", "local_losses/0", "moves/0", "moves/1"]
    drawn = [one["data-curves"] for one in page.all("div") if "data-curves" in one]
    assert drawn == names
    accuracy = page.data["panels"][0]
    assert (accuracy["least"], accuracy["most"], accuracy["marks"]) == (0, 1, [[0.9, "good"]])
    assert first["recovered"][0]["z"] == [[0.1] * 4, [0.2] * 4, [0.3] * 4, [None] * 4]


def test_it_can_be_used_without_seeing_it(runs):
    page = page_of(*runs)
    tags = [tag for tag, _ in page.elements]
    assert [tags.count(tag) for tag in ("main", "header", "footer", "aside", "h1")] == [1] * 5
    assert all(one.get("aria-label") for one in page.all("div") if one.get("role") in ("img", "region"))
    assert all(one.get("scope") in ("col", "row") for one in page.all("th"))
    assert ("html", {"lang": "en"}) in page.elements
    last = page.text[page.text.index("Last values") :]
    assert "loss 0.1 0.1" in last  # of training and validation


@pytest.mark.parametrize("name", [HOSTILE, MORE_HOSTILE], ids=["html", "script"])
def test_hostile_texts_are_texts(tmp_path, name):
    folder = tmp_path / name.replace("/", "\u2215")
    lines = [{**record, name: 1.0} for record in records()]
    write(folder, lines, task=name)
    write(tmp_path / "other")  # of the same name but for the folder
    broken = write(tmp_path / f"broken{name.replace('/', '')}")
    (broken / "config.json").write_text(json.dumps({**config(), "task": {"name": name}, "format": name}))
    page = page_of(tmp_path)
    assert len(page.scripts) == 1
    assert len(page.all("script")) == 3  # with the data and Plotly's
    assert not page.all("img")
    assert not page.all("b")
    assert name.split("\u2028")[0].strip() in page.text
    assert folder.name in [run["label"] for run in page.data["runs"]]
    assert name in [panel["name"] for panel in page.data["panels"]]
    assert "\u2028" not in re.search(r'id="data">(.*?)</script>', page.source, re.DOTALL)[1]


def test_json_in_a_script_cannot_end_it():
    text = safe_json({"a": "</script><!--\u2028\u2029&"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028\u2029&"}


def test_damaged_runs_are_named_among_good_ones(tmp_path):
    write(tmp_path / "good")
    damaged = write(tmp_path / "damaged", seed=1)
    (damaged / "journal.jsonl").write_text('{"kind": "update"\n' + (damaged / "journal.jsonl").read_text())
    edited = write(tmp_path / "edited", seed=2)
    (edited / "config.json").write_text((edited / "config.json").read_text().replace('"batch": 10', '"batch": 11'))
    content = content_of(tmp_path)
    assert [run.folder.name for run in content.runs] == ["good"]
    page = page_of(tmp_path)
    assert "What could not be read" in page.text
    assert f"{damaged / 'journal.jsonl'} is damaged at line 1" in page.text
    assert f"{edited / 'config.json'} was edited" in page.text


def test_runs_without_a_journal_or_with_half_a_line(tmp_path):
    nothing = write(tmp_path / "nothing")
    (nothing / "journal.jsonl").unlink()
    torn = write(tmp_path / "torn", seed=1)
    with open(torn / "journal.jsonl", "a") as file:
        file.write('{"kind": "update", "update": 2')
    page = page_of(tmp_path)
    assert "none yet; let it run a little" in page.text
    assert len(page.data["runs"][1]["columns"]["update"]["y"]["loss"]["v"]) == 20
    assert len([one for one in page.all("input") if "data-run" in one]) == 1  # of the one that can be switched
    alone = page_of(nothing)
    assert not alone.data["panels"]
    assert "Curves" not in alone.text


def test_what_is_not_a_number_is_a_gap_and_said(tmp_path):
    lines = records()
    lines[3]["loss"] = None
    text = "".join(json.dumps(record) + "\n" for record in lines).replace('"loss": 0.5', '"loss": NaN')
    (write(tmp_path / "run") / "journal.jsonl").write_text(text)
    page = page_of(tmp_path / "run")
    values = page.data["runs"][0]["columns"]["update"]["y"]["loss"]["v"]
    assert [place for place, value in enumerate(values) if value is None] == [2, 3]
    assert "loss in 2 records" in page.text


def test_what_is_never_a_number_is_said(tmp_path):
    lines = records()
    for record in lines:
        record |= {"loss": None} if "loss" in record else {}
    page = page_of(write(tmp_path / "run", lines))
    count = sum("loss" in record for record in lines)
    assert f"loss in {count} records" in page.text


def test_entries_of_some_records_only(tmp_path):
    lines = records(4, every=10)
    lines[2]["frozen_loss"] = 7.0
    page = page_of(write(tmp_path / "run", lines))
    assert page.data["runs"][0]["columns"]["update"]["y"]["frozen_loss"] == {"at": [1], "v": [7]}


def test_thinning_is_said(tmp_path):
    page = page_of(write(tmp_path / "run", records(5000, every=100)))
    kept = len(page.data["runs"][0]["columns"]["update"]["y"]["loss"]["v"])
    assert 1000 <= kept <= 2001
    assert "has more records than a picture can show" in page.text
    assert re.search(r"1,\d\d\d of 5,051 are shown; the curves are thinned", page.text)


def test_many_runs_have_few_points_each(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "ALL_POINTS", 510)
    monkeypatch.setattr(series, "FEWEST", 5)
    folders = [write(tmp_path / f"run-{seed}", records(60, every=1), seed=seed) for seed in range(51)]
    page = page_of(*folders)
    for kind in ("update", "validation"):
        counts = [len(run["columns"][kind]["x"]["update"]) for run in page.data["runs"]]
        assert set(counts) == {10}
        assert {run["columns"][kind]["x"]["update"][-1] for run in page.data["runs"]} == {60}
    assert {style["dash"] for style in page.data["styles"]} == {"solid"}


def test_a_confusion_matrix_of_the_result(tmp_path):
    run = write(tmp_path / "run")
    result = {"format": 5, "reason": "budget", "confusion": [[5, 1], [0, 6]], "classes": ["a", HOSTILE]}
    (run / "result.json").write_text(json.dumps(result))
    assert page_of(run).data["runs"][0]["confusion"] == {"classes": ["a", HOSTILE], "counts": [[5, 1], [0, 6]]}
    (run / "result.json").write_text(json.dumps({**result, "confusion": [[5, 1], [0]]}))
    assert "confusion" not in page_of(run).data["runs"][0]


def test_plotly_can_be_shared_by_pages(runs):
    page = page_of(*runs)
    assert [one.get("src") for one in page.all("script") if "src" in one] == [PLOTLY]
    assert len(page.source) < 500_000
    assert len(page.scripts) == 1


def test_no_torch_for_a_report_of_journals(tmp_path, runs):
    program = "import sys; from hrnn.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    command = [sys.executable, "-c", program, "report", *map(str, runs), "copy", "-o", str(tmp_path / "a.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(tmp_path / "a.html"), "False"]


NONSENSE = [None, True, -1, 0, 1e999, 10**400, "", "<b>", [], [[]], [None], ["a", 1], {}, {"a": [1]}, [1, 2, 3], 0.5]


def spoiled(value, random):
    """The same JSON with one entry of it, anywhere, replaced by nonsense, or left out."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(list(value))
        if random.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: spoiled(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        place = random.randrange(len(value))
        return [*value[:place], spoiled(value[place], random), *value[place + 1 :]]
    return random.choice(NONSENSE)


def test_no_nonsense_in_a_run_keeps_the_others_from_the_page(tmp_path):
    random = Random(0)
    good, bad = write(tmp_path / "good"), write(tmp_path / "bad", seed=1)
    shown = 0
    for _ in range(100):
        entries = spoiled({key: one for key, one in config(seed=1).items() if key != "checksum"}, random)
        whole = sealed(entries) if isinstance(entries, dict) and random.random() < 0.5 else config(seed=1)
        (bad / "config.json").write_text(json.dumps(whole))
        lines = [spoiled(record, random) if random.random() < 0.1 else record for record in records()]
        text = "".join(json.dumps(line) + "\n" for line in lines if not isinstance(line, dict) or "kind" in line)
        (bad / "journal.jsonl").write_text(text)
        result = {"format": 5, "reason": "budget", "seconds": 3.0, "validation": {"accuracy": 0.5}, "confusion": [[1]]}
        (bad / "result.json").write_text(json.dumps(spoiled(result, random)))
        content = content_of(good, bad)
        assert good in [run.folder for run in content.runs]
        assert len(content.runs) + len(content.problems) == 2
        render(content, plotly=PLOTLY)
        shown += len(content.runs) - 1
    assert 10 < shown < 90
