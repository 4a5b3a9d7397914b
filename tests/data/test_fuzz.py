"""Files of noise, and good files with damage: whatever is wrong is a UserError, and nothing is left behind."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hrnn.data import cache, find, inspect
from hrnn.errors import UserError
from tests.data.made import panel, write_fasta, write_table, write_ts, write_wav

ENDINGS = ["csv", "parquet", "arrow", "feather", "npy", "npz", "ts", "wav", "flac", "fa", "fa.gz", "fq", "txt", "csv.gz"]


def goods(folder: Path) -> dict[str, bytes]:
    made = panel(3)
    for ending in ("csv", "parquet", "arrow"):
        write_table(made, folder / f"x.{ending}")
    write_wav(folder / "x.wav", 50)
    write_fasta(folder / "x.fa", {"a": "ACGT" * 5, "b": "GG"})
    write_fasta(folder / "x.fa.gz", {"a": "ACGT" * 5, "b": "GG"})
    write_ts(folder / "x.ts", [([[1, 2], [3, 4]], "a"), ([[1], [2]], "b")])
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(2, 5, 3)))
    np.savez(folder / "x.npz", x=np.zeros((2, 5, 3)), y=np.arange(2))
    np.savez_compressed(folder / "x2.npz", a=np.zeros((5, 3)))
    (folder / "x.txt").write_text("größe")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


with tempfile.TemporaryDirectory() as _folder:
    GOOD = goods(Path(_folder))


def read(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        said = None
        try:
            cache(find(path), Path(folder) / "c")
        except UserError as error:
            said = str(error)
        assert "\n" not in (said or "")
        assert sorted(os.listdir(folder)) == ([name] if said else ["c", name])


quick = settings(max_examples=80)


@quick
@given(st.sampled_from(ENDINGS), st.binary(max_size=300))
def test_noise(ending, content):
    read(content, f"x.{ending}")


@settings(quick, max_examples=200)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_damage(name, data):
    content = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[place] = data.draw(st.integers(0, 255))
        else:
            del content[place : place + data.draw(st.integers(1, 40))]
        if not content:
            break
    read(bytes(content), name)


@quick
@given(st.text(alphabet='abcidstuvyz,;\n"0123456789.-eE ', max_size=200))
def test_texts_that_look_like_tables(text):
    read(text.encode(), "x.csv")
    read(("@classLabel true a b\n@data\n" + text.replace(";", ":")).encode(), "x.ts")
    read((">" + text).encode(), "x.fa")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_what_was_not_damaged_is_read(name, tmp_path):
    (tmp_path / name).write_bytes(GOOD[name])
    assert inspect(find(tmp_path / name)).sequences >= 1


def test_a_header_that_promises_more_than_there_is(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})
    (tmp_path / "x.npy").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="cannot be read as an array"):
        cache(find(tmp_path / "x.npy"))
