"""What version 0.1.0 wrote is read, and goes on to the same end; what a later version writes is refused in a sentence."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hrnn.cli import main
from hrnn.errors import UserError
from hrnn.training import folder as folders
from hrnn.training.checkpoint import Shelf
from hrnn.training.formats import BEGUN_BY_1
from hrnn.training.loop import train
from hrnn.training.trained import load

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"


@pytest.fixture(params=["locked", "unlocked", "unlocked-bytes"])
def old_run(request, tmp_path):
    """A run of 0.1.0 in mid-course, with its text where its configuration says."""
    shutil.copy(OLD / "text.txt", tmp_path / "text.txt")
    shutil.copytree(OLD / request.param, tmp_path / request.param)
    config = tmp_path / request.param / "config.json"
    config.write_text(config.read_text().replace('"TEXT"', json.dumps(str(tmp_path / "text.txt"))))
    return tmp_path / request.param


def without_times(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in record.items() if not name.endswith("seconds")} for record in records]


def test_a_run_of_0_1_0_goes_on_to_the_end_that_0_1_0_came_to(old_run, capsys):
    _, before = folders.read_run(old_run)
    assert before.id.startswith(BEGUN_BY_1)
    assert before.data is None
    assert main(["resume", str(old_run)]) == 0
    reads = ["text.txt"] if json.loads((old_run / "config.json").read_text())["task"]["name"] == "text" else []
    assert ("did not remember its data" in capsys.readouterr().err) is bool(reads)
    end = OLD / f"{old_run.name}-end"
    _, after = folders.read_run(old_run)
    assert after.id == before.id
    assert [file["size"] for file in after.data.values()] == [(OLD / name).stat().st_size for name in reads]
    checkpoint, _ = Shelf(old_run / "checkpoints", 1, after.id).newest()
    expected, found = load_file(end / "weights.safetensors"), checkpoint.section("network")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)  # another torch may round otherwise
    assert folders.read_result(old_run)["updates"] == json.loads((end / "result.json").read_text())["updates"]
    assert main(["evaluate", str(old_run), "--json"]) == 0
    evaluated, wanted = json.loads(capsys.readouterr().out.splitlines()[-1]), json.loads((end / "evaluated.json").read_text())
    assert evaluated == {"run": str(old_run), **{k: pytest.approx(v) if k != "part" else v for k, v in wanted.items()}}
    assert [(r["kind"], r["update"]) for r in without_times(old_run / "journal.jsonl")] == [
        (r["kind"], r["update"]) for r in without_times(end / "journal.jsonl")
    ]


def test_an_option_that_an_old_run_lacks_is_never_todays_default(tmp_path):
    shutil.copytree(OLD / "locked", tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    entries = json.loads(config.read_text())
    del entries["learning"]["clip"]
    config.write_text(json.dumps(entries))
    with pytest.raises(UserError, match=r"has no learning\.clip"):
        load(tmp_path / "run")


@pytest.mark.parametrize("number", [0, 3, "2", None, 1.5, True])
def test_formats_that_are_not_known(tmp_path, number):
    shutil.copytree(OLD / "locked", tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "format": number}))
    with pytest.raises(UserError, match=f"in format {number} and this is hrnn"):
        train(tmp_path / "run")
