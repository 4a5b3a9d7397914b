"""The page of runs that were really trained: what the trainer writes down is what the page looks for."""

import itertools
import json
import time
from types import SimpleNamespace

import pytest

from hrnn.cli import main
from hrnn.report.page_facts import PARTS
from hrnn.training import run, saving
from tests.commands.console import hrnn
from tests.report.pages import page_of
from tests.runs import SMALL, tasks
from tests.tiny import write_walks

CLASSES = {"pixels": [str(digit) for digit in range(10)], "series": ["fast", "slow"]}


def series(place):
    return [str(write_walks(place / "walks.csv")), "--id", "walk", "--target", "gait", "--epochs", "2"]


@pytest.fixture(scope="module", params=["pixels", "series"])
def trained(request, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    words = tasks(place)["pixels"][1:] if request.param == "pixels" else series(place)
    ticks = itertools.count()
    clock = SimpleNamespace(
        monotonic=lambda: float(next(ticks)), process_time=time.process_time
    )  # a second each time it is asked
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "time", clock)
        patched.setattr(saving, "time", clock)
        assert main(["train", request.param, *words, *SMALL, "--no-tensorboard", "--run", str(place / "run")]) == 0
    return request.param, place / "run"


def test_the_page_of_a_run_with_classes(trained, capsys):
    name, folder = trained
    page = page_of(folder)
    code, out, _ = hrnn(capsys, "evaluate", folder, "--json")
    assert code == 0
    scored = json.loads(out)
    assert scored["classes"] == CLASSES[name]
    assert page.data["runs"][0]["confusion"] == {"classes": scored["classes"], "counts": scored["confusion"]}
    right = sum(row[at] for at, row in enumerate(scored["confusion"]))
    assert right / sum(map(sum, scored["confusion"])) == pytest.approx(scored["accuracy"])
    for words in (*PARTS.values(), "learning"):
        assert f"of {words}" in page.text
    assert "whole process at its peak, measured" in page.text
    assert "predicted " in page.text
    assert "three symbols" not in page.text
    assert ("sequences: training" in page.text) == (name == "series")


def test_parts_of_the_time_add_up(trained):
    result = json.loads((trained[1] / "result.json").read_text())
    parts = [result[f"{part}_seconds"] for part in PARTS]
    assert all(seconds >= 1 for seconds in parts)
    assert sum(parts) < result["seconds"]
    assert isinstance(result["peak_bytes"], int)
