"""Packed files that are far larger than they look are refused, whatever reads them; and how far reading is, is told."""

import gzip
from contextlib import contextmanager

import numpy as np
import pytest

from hrnn.data import cache, find
from hrnn.errors import UserError
from hrnn.tasks import Text
from hrnn.tasks.idx import read

TS = "@classLabel true\n@data\n" + "1,2,3:a\n" * 5000
CONTENTS = {
    "a.txt.gz": "the quick brown fox\n" * 5000,
    "t.csv.gz": "x,y\n" + "0.5,1\n" * 5000,
    "a.fa.gz": ">one\n" + "ACGT" * 5000,
    "a.ts.gz": TS,
    "a.npz": "",
}


def write(folder, name):
    path = folder / name
    if name == "a.npz":
        np.savez_compressed(path, x=np.zeros((5000, 1)))
    else:
        path.write_bytes(gzip.compress(CONTENTS[name].encode()))
    return path


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr("hrnn.data.unpacking.ALWAYS", 1000)
    monkeypatch.setattr("hrnn.data.unpacking.TIMES", 10)


@pytest.mark.parametrize("name", CONTENTS)
def test_files_for_series(narrow, tmp_path, name, monkeypatch):
    path = write(tmp_path, name)
    with pytest.raises(UserError, match=rf"{name} unpacks to more than 1.* bytes|10 times its size; if that is meant, "):
        cache(find(path), tmp_path / "cache")
    assert sorted(one.name for one in tmp_path.iterdir()) == [name]
    monkeypatch.setattr("hrnn.data.unpacking.ALWAYS", 1 << 20)
    assert cache(find(path)).lengths.sum() >= 5000


def test_texts_and_images(narrow, tmp_path):
    path = write(tmp_path, "a.txt.gz")
    with pytest.raises(UserError, match=rf"unpacks to more than .*; if that is meant, unpack it first: gunzip {path}"):
        Text((path,)).resolved()
    with pytest.raises(UserError, match="unpacks to more than"):
        read(path, (28, 28))


def test_little_may_be_packed_as_well_as_can_be(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a" * 1_000_000))
    assert cache(find(tmp_path / "a.txt.gz")).lengths.tolist() == [1_000_000]


def test_how_far_a_text_is_read_is_told(tmp_path, monkeypatch):
    told = []

    @contextmanager
    def working(doing):
        yield lambda far: told.append(f"{doing}: {far}")

    monkeypatch.setattr("hrnn.tasks.corpus.working", working)
    Text((write(tmp_path, "a.txt.gz"),)).resolved()
    assert told[0] == "reading a.txt.gz: 65,536 bytes"
    assert told[-1] == "reading a.txt.gz: 100,000 bytes"
