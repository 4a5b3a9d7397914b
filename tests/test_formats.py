"""A file of an earlier version is refused in one sentence, whatever its kind; here the number of its format makes it one."""

from __future__ import annotations

import json
import shutil

import pytest
from torch import nn

import hrnn
from hrnn.data.preprocessing import Preprocessing
from hrnn.errors import UserError
from hrnn.export.metadata import of_model
from hrnn.formats import FIRST, FORMATS, check_format, numbered
from hrnn.hub import from_pretrained, save_pretrained
from hrnn.hub.files import CONFIG, HEAD
from hrnn.launching.units import EARLY, stop_early, stopped_early
from hrnn.report.committed import FOLDER
from hrnn.studies.catalogue import study
from hrnn.studies.frontier import EQUAL, equals
from hrnn.studies.plan import Request
from hrnn.studies.results import entries_of
from hrnn.training.checkpoint import read, write
from tests.commands.console import complaint
from tests.commands.console import hrnn as command
from tests.report.pages import content_of
from tests.runs import write_run
from tests.tiny import TINY, write_walks

RESULTS = FOLDER.parents[3] / "results"
BEFORE = "as files of hrnn before 0.3.0 have, which this version does not read; remove it and make it anew, or use hrnn 0.2.0"
NEEDLE = ("needle", *TINY, "--steps", 8, "--periods", 3, "--test-sequences", 5)


def aged(path):
    """The file, as one of an earlier version."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    return f"{path} has format 2, {BEFORE}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run, which nobody changes."""
    from hrnn.cli import main

    place = tmp_path_factory.mktemp("run") / "run"
    assert main(["train", *map(str, NEEDLE), "--updates", "2", "--run", str(place)]) == 0
    return place


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("entries", [{}, {"format": 0}, {"format": 1}, {"format": FIRST - 1}, {"format": -3}])
def test_numbers_of_earlier_versions_and_none(entries):
    said = f"format {entries['format']}" if entries else "no number of a format"
    for kind in FORMATS:
        with pytest.raises(UserError, match=f"^here has {said}, {BEFORE}$"):
            check_format(kind, entries, "here")


@pytest.mark.parametrize("number", ["5", None, 5.0, True, [5]])
def test_what_is_no_number(number):
    with pytest.raises(UserError, match=r"^here has format .*, which is no number; put back a copy of it, or make it anew$"):
        check_format("run", {"format": number}, "here")


def test_todays_and_later_ones():
    assert check_format("run", numbered("run", {"a": 1}), "here") == {"a": 1}
    with pytest.raises(
        UserError, match=r"^here was written by hrnn 9\.0 in format 99 and this is .* pip install --upgrade hrnn$"
    ):
        check_format("run", {"format": 99, "version": "9.0"}, "here")


def test_runs(run, capsys):
    sentence = aged(run / "config.json")
    for name in ("resume", "evaluate", "export", "plot", "report"):
        assert complaint(capsys, name, run).endswith(sentence)
    code, _, err = command(capsys, "runs", run.parent)
    assert (code, err.splitlines()[0]) == (2, f"skipped {run}: {sentence}")
    with pytest.raises(UserError, match="has format 2"):
        save_pretrained(run, run.parent / "saved")


def test_results_of_runs(run, capsys):
    sentence = aged(run / "result.json")
    assert complaint(capsys, "resume", run).endswith(sentence)
    assert sentence in command(capsys, "runs", run.parent)[2]


def test_checkpoints(run, capsys, monkeypatch):
    (path,) = run.glob("checkpoints/*2.safetensors")
    found = read(path)
    with monkeypatch.context() as patched:
        patched.setitem(FORMATS, "checkpoint", 2)
        write(path, found)
    before = path.read_bytes()
    (run / "result.json").unlink()
    for name in ("resume", "evaluate"):
        assert complaint(capsys, name, run) == f"hrnn: {path} has format 2, {BEFORE}"
    assert path.read_bytes() == before


def test_why_a_run_was_stopped_early(tmp_path):
    stop_early(tmp_path, {"share": 0.5})
    assert stopped_early(tmp_path)["share"] == 0.5
    sentence = aged(tmp_path / EARLY)
    with pytest.raises(UserError, match=f"^{sentence}$"):
        stopped_early(tmp_path)


def test_sweeps(tmp_path, capsys):
    write_run(tmp_path / "seed=0")
    for name in ("sweep.json", "table.json"):
        (tmp_path / name).write_text(json.dumps(numbered("sweep", {"over": {"seed": ["0"]}, "options": {}})))
    table = aged(tmp_path / "table.json")
    assert content_of(tmp_path).problems == {str(tmp_path / "table.json"): table}
    sentence = aged(tmp_path / "sweep.json")
    assert complaint(capsys, "plot", tmp_path).endswith(sentence)
    (tmp_path / "seed=0" / "config.json").unlink()
    assert complaint(capsys, "sweep", *NEEDLE, "--over", "seed=0", "--folder", tmp_path).endswith(sentence)


def test_studies(tmp_path, capsys):
    for name in ("table.json", "curves.json", "runs/ours/seed-0.json", "runs/ours/seed-0.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(RESULTS / "copy-desk" / name, tmp_path / name)
    (tmp_path / EQUAL).write_text(json.dumps(numbered("study", {"a": {}})))
    request = Request(study("frontier"), tmp_path)
    assert equals(request) == {"a": {}}
    sentence = aged(tmp_path / "curves.json")
    assert content_of(tmp_path).studies[0].problem == sentence
    sentence = aged(tmp_path / "table.json")
    assert complaint(capsys, "report", tmp_path, "--output", tmp_path / "page.html").endswith(sentence)
    for path, reads in ((tmp_path / EQUAL, lambda _: equals(request)), (tmp_path / "runs/ours/seed-0.json", entries_of)):
        sentence = aged(path)
        with pytest.raises(UserError, match=f"^{sentence}$"):
            reads(path)
    assert complaint(capsys, "reproduce", "copy", "--run", "--seeds", 0, "--folder", tmp_path) == f"hrnn: {sentence}"


def test_models_and_states(tmp_path, monkeypatch):
    model = hrnn.HRNN(hrnn.Tokens(4), [3, 2], [2])
    for thing, kind in ((model, "model"), (model.initial_state(3), "state")):
        with monkeypatch.context() as patched:
            patched.setitem(FORMATS, kind, 2)
            thing.save(tmp_path / kind)
        with pytest.raises(UserError, match=f"^{tmp_path / kind} has format 2, {BEFORE}$"):
            type(thing).load(tmp_path / kind)


def test_folders_for_the_hub(tmp_path, monkeypatch):
    save_pretrained(hrnn.HRNN(3, [5]), tmp_path / "a", head=nn.Linear(5, 2))
    sentence = aged(tmp_path / "a" / CONFIG)
    with pytest.raises(UserError, match=f"^{sentence}$"):
        from_pretrained(tmp_path / "a")
    (tmp_path / "a" / CONFIG).unlink()
    with monkeypatch.context() as patched:
        patched.setitem(FORMATS, "hub", 2)
        save_pretrained(hrnn.HRNN(3, [5]), tmp_path / "b", head=nn.Linear(5, 2))
    config = tmp_path / "b" / CONFIG
    config.write_text(json.dumps(numbered("hub", {**json.loads(config.read_text()), "format": FORMATS["hub"]})))
    with pytest.raises(UserError, match=f"^{tmp_path / 'b' / HEAD} has format 2, {BEFORE}$"):
        from_pretrained(tmp_path / "b")


def test_caches(tmp_path, capsys):
    data = write_walks(tmp_path / "walks.csv")
    series = ("series", data, *TINY, "--target", "gait", "--id", "walk", "--updates", 1, "--cache", tmp_path / "cache")
    assert command(capsys, "train", *series, "--run", tmp_path / "run")[0] == 0
    (manifest,) = (tmp_path / "cache").rglob("cache.json")
    aged(manifest)
    sentence = f"hrnn: the cache {manifest.parent} has format 2, {BEFORE}"
    assert complaint(capsys, "train", *series, "--run", tmp_path / "other") == sentence
    assert complaint(capsys, "evaluate", tmp_path / "run") == sentence


def test_preprocessing():
    with pytest.raises(UserError, match=f"^the preprocessing has format 2, {BEFORE}$"):
        Preprocessing.from_json({"format": 2})


def test_what_stands_beside_an_export():
    assert of_model(hrnn.HRNN(3, [5]), "kind")["format"] == FORMATS["export"]
