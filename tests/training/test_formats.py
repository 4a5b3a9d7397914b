"""What version 0.1.0 wrote is read, and goes on to the same end; what a later version writes is refused in a sentence.

The fixtures are files of 0.1.0, unchanged but for the path of the text, which stands as TEXT. The runs were interrupted; the
ends beside them were reached by the version that began them.
"""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import hrnn
from hrnn.cli import main
from hrnn.errors import UserError
from hrnn.training import folder as folders
from hrnn.training.checkpoint import CheckpointFolder
from hrnn.training.formats import BEGUN_BY_1
from hrnn.training.loop import train
from hrnn.training.trained import load

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"


@pytest.fixture(params=["locked", "unlocked-bytes"])
def old_run(request, tmp_path):
    """A run of 0.1.0 in mid-course, with its text where its configuration says."""
    shutil.copy(OLD / "text.txt", tmp_path / "text.txt")
    shutil.copytree(OLD / request.param, tmp_path / request.param)
    config = tmp_path / request.param / "config.json"
    config.write_text(config.read_text().replace('"TEXT"', json.dumps(str(tmp_path / "text.txt"))))
    return tmp_path / request.param


def records(folder):
    """But for what 0.1.0 did not note: with what the run was computed."""
    found = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [record for record in found if record["kind"] != "engine"]


def same(expected, got):
    """Equal but for times, numbers to rounding: other processors round differently, and updates carry that on."""
    if isinstance(expected, dict):
        names = [name for name in expected if not name.endswith("seconds")]
        return isinstance(got, dict) and all(same(expected[name], got.get(name)) for name in names)
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, expected, got))
    if isinstance(expected, float) and isinstance(got, float):
        return got == pytest.approx(expected, rel=1e-3, abs=1e-4)
    return expected == got


def test_a_run_of_0_1_0_goes_on_to_the_end_that_0_1_0_came_to(old_run, capsys):
    before = folders.read_run(old_run).identity
    assert before.id.startswith(BEGUN_BY_1)
    assert before.data is None
    assert main(["evaluate", str(old_run), "--json"]) == 0  # in mid-course
    assert math.isfinite(json.loads(capsys.readouterr().out.splitlines()[-1])["loss"])
    assert main(["resume", str(old_run)]) == 0
    reads = ["text.txt"] if json.loads((old_run / "config.json").read_text())["task"]["name"] == "text" else []
    assert ("did not remember its data" in capsys.readouterr().err) is bool(reads)
    end = OLD / f"{old_run.name}-end"
    after = folders.read_run(old_run).identity
    assert after.id == before.id
    assert [file["size"] for file in after.data.values()] == [(OLD / name).stat().st_size for name in reads]
    checkpoint, _ = CheckpointFolder(old_run / "checkpoints", 1, after.id).newest()
    expected, found = load_file(end / "weights.safetensors"), checkpoint.section("network")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)
    assert same(json.loads((end / "result.json").read_text()), folders.read_result(old_run))
    assert main(["evaluate", str(old_run), "--json", "--checkpoint", "last"]) == 0
    assert same(json.loads((end / "evaluated.json").read_text()), json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert same(records(end), records(old_run))


def test_a_model_and_a_state_of_0_1_0_load():
    model = hrnn.HRNN.load(OLD / "model.safetensors")
    assert model.hidden_sizes == [6, 7, 8]
    assert model.periods == [hrnn.Given(4), 3]
    assert model.check_finite
    assert [model.decoder(level).indices for level in range(2)] == ["all", "sampled"]
    then = load_file(OLD / "output.safetensors")
    output, _ = model(then["x"], hrnn.State.load(OLD / "state.safetensors"), boundaries=then["boundaries"])
    torch.testing.assert_close(output, then["output"], rtol=1e-12, atol=1e-12)


def test_old_runs_take_one_segment_at_a_time(old_run):
    assert folders.read_run(old_run).options["model"]["segments_at_once"] == 1


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
