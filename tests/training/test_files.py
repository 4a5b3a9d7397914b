import os

import pytest

from hrnn.errors import UserError
from hrnn.training import files
from hrnn.training.checkpoint import DamagedError, read
from hrnn.training.files import Growing, write_whole


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"file cannot be written: No space left on device; .*hrnn resume"):
        write_whole(path, b"new content")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_growing_file_is_cut_back(tmp_path):
    file = Growing(tmp_path / "file")
    file.write(b"one\n")
    length = file.settle()
    file.write(b"two, which never happ")
    file.close()
    again = Growing(tmp_path / "file", length)
    again.write(b"three\n")
    assert again.settle() == 10
    again.close()
    assert (tmp_path / "file").read_bytes() == b"one\nthree\n"


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "update-000000001.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(DamagedError, match="no regular file"):
        read(pipe)
    with pytest.raises(UserError, match="no regular file"):
        Growing(pipe)
