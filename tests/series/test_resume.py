"""A run on series that stopped goes on bit by bit, whatever its source and its targets; other data are refused."""

import json
import os
from pathlib import Path

import pytest
import torch

from hrnn.training.checkpoint import read
from tests.commands.console import complaint, hrnn
from tests.series.made import KINDS, train, write


@pytest.mark.parametrize("kind", [*KINDS, "cropped", "audio", "text", "bytes"])
def test_goes_on_as_if_nothing_had_happened(tmp_path, capsys, kind):
    arguments = write(tmp_path)[kind]
    straight = train(capsys, tmp_path / "runs" / "straight", arguments, 7, "--validate-every", "3")
    run = train(capsys, tmp_path / "runs" / "run", arguments, 4, "--validate-every", "3")
    code, _, err = hrnn(capsys, "resume", run, "--updates", 7)
    assert code == 0, err
    first, second = (read(max((folder / "checkpoints").glob("*.safetensors"))) for folder in (straight, run))
    for section in ("network", "average", "optimizer0", "state"):
        one, other = first.section(section), second.section(section)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one), section
    results = [json.loads((folder / "result.json").read_text()) for folder in (straight, run)]
    assert results[0]["test"] == results[1]["test"]


def test_the_cache_is_shared_and_where_it_is_gone_a_temporary_one_does(tmp_path, capsys):
    arguments = write(tmp_path)["class"]
    run = train(capsys, tmp_path / "runs" / "one", arguments)
    (cache,) = (tmp_path / "runs" / "cache").iterdir()
    made = (cache / "values.npy").stat().st_mtime_ns
    train(capsys, tmp_path / "runs" / "two", arguments)
    assert [path.name for path in (tmp_path / "runs" / "cache").iterdir()] == [cache.name]
    assert (cache / "values.npy").stat().st_mtime_ns == made
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    assert hrnn(capsys, "resume", run, "--updates", 5)[0] == 0
    assert json.loads((run / "result.json").read_text())["updates"] == 5
    assert not cache.exists()  # the run may be somebody else's: what it names outside its folder is not written


def test_a_file_that_changed_since_training_began_is_refused(tmp_path, capsys):
    arguments = write(tmp_path)["text"]
    run = train(capsys, tmp_path / "runs" / "run", arguments)
    with open(arguments[0], "a") as file:
        file.write("and more")
    assert "are not those that it began with" in complaint(capsys, "resume", run, "--updates", 5)
    assert "are not those that it began with" in complaint(capsys, "evaluate", run)


def test_checksums_are_compared_where_size_and_time_agree_if_asked_for(tmp_path, capsys):
    arguments = write(tmp_path)["text"]
    run, path = train(capsys, tmp_path / "runs" / "run", arguments), Path(arguments[0])
    time = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("quick", "thick"))
    os.utime(path, ns=(time, time))
    assert "has the same size and other content" in complaint(capsys, "resume", run, "--updates", 5, "--verify")
    assert "has the same size and other content" in complaint(capsys, "evaluate", run)
    assert hrnn(capsys, "resume", run, "--updates", 5)[0] == 0
    os.utime(path, ns=(time, time + 1))
    assert "has the same size and other content" in complaint(capsys, "resume", run, "--updates", 6)
    path.write_text(path.read_text().replace("thick", "quick"))
    assert hrnn(capsys, "resume", run, "--updates", 6)[0] == 0, "another time, and the same content"
