"""The cache: whole or not there, the same as its sources, and told when they are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from hrnn.data import Sequences, arrays, cache, differences, table
from hrnn.errors import UserError
from tests.data.made import panel, write_table


@pytest.fixture
def path(tmp_path):
    return write_table(panel(), tmp_path / "panel.parquet")


def test_it_is_made_once(path, tmp_path, monkeypatch):
    made = cache(table(path), tmp_path / "c")
    monkeypatch.setattr("hrnn.data.caching._partial", None)  # nothing is written, not even for a moment
    again = cache(table(path), tmp_path / "c")
    assert np.array_equal(again.read(3), made.read(3))
    assert sorted(os.listdir(tmp_path)) == ["c", "panel.parquet"]


def test_values_are_views_of_the_file(path, tmp_path):
    values = cache(table(path), tmp_path / "c").read(0)
    while values.base is not None and not isinstance(values, np.memmap):
        values = values.base
    assert isinstance(values, np.memmap)
    assert values.dtype == np.float32


def test_other_options_are_another_cache(path, tmp_path):
    cache(table(path), tmp_path / "c")
    with pytest.raises(UserError, match=r"was made of other data \(values None\); remove it, or give another folder"):
        cache(table(path, values=["y"]), tmp_path / "c")
    assert cache(table(path, values=["y"]), tmp_path / "c", replace=True).layout.channels == ("y",)
    assert sorted(os.listdir(tmp_path)) == ["c", "panel.parquet"]


def test_a_file_that_changed_is_noticed(path, tmp_path):
    sequences = cache(table(path), tmp_path / "c")
    content, before = path.read_bytes(), path.stat()
    os.utime(path, ns=(1, 1))  # touched, the same content
    assert differences(sequences) == []
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    path.write_bytes(changed)
    (said,) = differences(sequences)
    assert "has the same size and other content" in said
    with pytest.raises(UserError, match="other content"):
        cache(table(path), tmp_path / "c")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # which hides it, but not from the checksum
    assert differences(sequences) == []
    assert len(differences(sequences, verify=True)) == 1
    path.write_bytes(content + b"x")
    assert f"has {len(content) + 1:,} bytes and had {len(content):,}" in differences(sequences)[0]
    path.unlink()
    assert "cannot be read" in differences(sequences)[0]


def test_a_file_that_changes_while_it_is_read_is_refused(path, tmp_path, monkeypatch):
    def write(*arguments):
        os.utime(path, ns=(5, 5))
        return {}

    monkeypatch.setattr("hrnn.data.caching.write", write)
    with pytest.raises(UserError, match="changed while it was read"):
        cache(table(path), tmp_path / "c")
    assert os.listdir(tmp_path) == ["panel.parquet"]


FULL = """
import resource, signal, sys
from hrnn.data import cache, arrays
import numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    cache(arrays([np.zeros((100_000, 3))]), sys.argv[1])
except ValueError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk_leaves_nothing(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path / "c"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"UserError the cache {tmp_path}/c cannot be written: File too large; nothing is left")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_while_rows_are_brought_together(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    made = panel()
    mixed = write_table(made.take(np.argsort(made["ds"].to_numpy(), kind="stable")), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        cache(table(mixed), tmp_path / "c")
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_mixed_rows_beyond_the_budget_are_refused(tmp_path):
    made = panel()
    mixed = write_table(made.take(np.argsort(made["ds"].to_numpy(), kind="stable")), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"rows of different ids are mixed, .* sort the table by id and time first"):
        cache(table(mixed), tmp_path / "c", sort_budget=100)
    assert os.listdir(tmp_path) == ["t.parquet"]


KILLED = """
import signal, sys
from hrnn.data import cache, arrays
import numpy as np
held = arrays([np.zeros((10, 2))])
import hrnn.data.array_sources as module
blocks = module.Arrays._blocks
def slowly(self, *arguments):
    yield from blocks(self, *arguments)
    print("writing", flush=True)
    signal.pause()
module.Arrays._blocks = slowly
cache(held, sys.argv[1])
"""


def test_what_a_killed_process_left_is_never_taken_for_whole(tmp_path):
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "c"], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"writing\n"
        child.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == [".c.partial"]
    assert cache(arrays([np.ones((3, 1))]), tmp_path / "c").lengths.tolist() == [3]
    assert os.listdir(tmp_path) == ["c"]


def test_of_two_processes_one_makes_it_and_the_other_waits(path, tmp_path):
    code = "import sys; from hrnn.data import cache, table; print(len(cache(table(sys.argv[1]), sys.argv[2])))"
    command = [sys.executable, "-c", code, path, tmp_path / "c"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    assert [child.communicate()[0] for child in children] == [b"6\n"] * 3
    assert sorted(os.listdir(tmp_path)) == ["c", "panel.parquet"]


def test_an_interrupt_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", KILLED, tmp_path / "c"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout.readline() == b"writing\n"
        child.send_signal(signal.SIGINT)
    assert os.listdir(tmp_path) == []


def test_a_temporary_cache_goes_with_its_object():
    sequences = cache(arrays([np.zeros((5, 2))]))
    folder = sequences.folder
    assert folder.exists()
    del sequences
    assert not folder.exists()


def test_what_is_no_cache_is_never_replaced(path, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="is no cache of sequences"):
        cache(table(path), tmp_path / "mine", replace=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("name", ["values.npy", "offsets.npy", "ids.npy", "cache.json", "times.npy"])
def test_a_damaged_cache_is_one_sentence(path, tmp_path, name):
    cache(table(path), tmp_path / "c")
    file = tmp_path / "c" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged"):
        Sequences(tmp_path / "c")
    file.unlink()
    with pytest.raises(UserError, match=r"damaged|no cache"):
        Sequences(tmp_path / "c")
    os.mkfifo(file)  # whose reader would wait for ever
    with pytest.raises(UserError, match=r"not a regular file"):
        Sequences(tmp_path / "c")


def test_arrays_of_a_cache_that_do_not_belong_together(path, tmp_path):
    place = cache(table(path), tmp_path / "c").folder
    for name, damaged in (
        ("times", lambda array: array[:-1]),
        ("offsets", lambda array: np.concatenate([array[:1], array[1:-1] + array[-1], array[-1:]])),
        ("ids", lambda array: np.full_like(array, 255)),
    ):
        file = place / f"{name}.npy"
        before = file.read_bytes()
        np.save(file, damaged(np.load(file)))
        with pytest.raises(UserError, match=r"is damaged .*; remove the folder, and it is made again"):
            Sequences(place).id(0)
        file.write_bytes(before)
    assert Sequences(place).id(0)


def test_a_cache_of_a_newer_version_is_refused(path, tmp_path):
    cache(table(path), tmp_path / "c")
    manifest = tmp_path / "c" / "cache.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    with pytest.raises(UserError, match="c was written in format 99 and this is hrnn"):
        Sequences(tmp_path / "c")


@pytest.mark.parametrize("value", [None, 5, [], "../../etc/passwd"])
def test_what_a_cache_says_of_itself_cannot_be_changed(path, tmp_path, value):
    manifest = cache(table(path), tmp_path / "c").folder / "cache.json"
    known = json.loads(manifest.read_text())
    for name in known:
        without = {key: one for key, one in known.items() if key != name}
        for changed in (without, without | {name: value}):
            if changed == known:
                continue
            manifest.write_text(json.dumps(changed))
            with pytest.raises(UserError, match=r"is damaged \(|has format |has no number of a format"):
                Sequences(tmp_path / "c")
