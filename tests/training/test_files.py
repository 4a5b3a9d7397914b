import json
import os

import pytest

from hrnn.errors import UserError
from hrnn.tasks import Copy
from hrnn.training import files
from hrnn.training.checkpoint import DamagedError, read
from hrnn.training.entries import whole_result
from hrnn.training.files import AppendOnlyFile, write_atomically


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"file cannot be written: No space left on device; .*hrnn resume"):
        write_atomically(path, b"new content")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_growing_file_is_cut_back(tmp_path):
    file = AppendOnlyFile(tmp_path / "file")
    file.write(b"one\n")
    length = file.sync()
    file.write(b"two, which never happ")
    file.close()
    again = AppendOnlyFile(tmp_path / "file", length)
    again.write(b"three\n")
    assert again.sync() == 10
    again.close()
    assert (tmp_path / "file").read_bytes() == b"one\nthree\n"


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "update-000000001.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(DamagedError, match="not a regular file"):
        read(pipe)
    with pytest.raises(UserError, match="not a regular file"):
        AppendOnlyFile(pipe)


def test_a_result_that_is_repeated_says_all_that_results_say(tmp_path):
    whole = {"reason": "budget", "updates": 3, "sequences": 12, "seconds": 1.5, "test": {"accuracy": 0.5}}
    (tmp_path / "result.json").write_text(json.dumps({"format": 2, **whole}))
    assert whole_result(tmp_path, Copy().measured) == whole
    for wrong in ({"updates": "3"}, {"seconds": 10**400}, {"test": 5}, {"sequences": None}, {"longest_solved_length": 4}):
        (tmp_path / "result.json").write_text(json.dumps({"format": 2, **whole, **wrong}))
        with pytest.raises(UserError, match="holds no result; remove it"):
            whole_result(tmp_path, Copy().measured)
