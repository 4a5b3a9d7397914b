"""Tables that are wrong: one sentence each, and no half-written cache."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet
import pytest

from hrnn.data import cache, find, table
from hrnn.errors import UserError
from tests.data.made import panel, write_table


def made(tmp_path):
    return write_table(panel(), tmp_path / "t.csv")


def parquet(tmp_path, **columns):
    return write_table(pa.table(columns), tmp_path / "t.parquet")


def csv(tmp_path, text, encoding="utf-8"):
    (tmp_path / "t.csv").write_text(text, encoding)
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (made, {"target": "lable"}, "no column 'lable' for target; did you mean 'label'?"),
        (made, {"values": ["Y1"]}, "no column 'Y1' for values"),
        (made, {"id": "zzzzzzz"}, "for id; there are unique_id, ds"),
        (made, {"id": "ds", "time": "ds"}, "asked for twice"),
        (made, {"part": "label"}, "names the part 'down'"),
        (lambda p: csv(p, "id,v\na,1\na,x\n"), {}, "column 'v' .* has mixed types: 'x' stands among numbers; clean it"),
        (lambda p: csv(p, "id,v\n" + "a,1\n" * 1_500_000 + "a,x\n"), {}, "column 'v' .* has mixed types: 'x' stands"),
        (lambda p: csv(p, 'id,v\na,"3,5"\na,"4,25"\na,7\n'), {}, "has numbers with commas or separators, such as '3,5'; write"),
        (lambda p: csv(p, "id;v;w\na;3,5;1.5\na;4,25;2.5\n"), {}, "column 'v' .* has numbers with commas or separators"),
        (lambda p: csv(p, "id;v\na;1.234,5\na;12,25\n"), {}, "has numbers with commas or separators, such as '1.234,5'; write"),
        (lambda p: csv(p, "id,when,v\na,01.02.2024 10:01,1\na,01.02.2024 10:02,2\n"), {}, "'when' .* has dates in a form"),
        (lambda p: csv(p, "id,when\na,1/2/2024\na,12/31/2024 1:30 PM\n"), {}, "such as '1/2/2024'; write them as 2024-12-31"),
        (lambda p: parquet(p, v=[1.0] * 100, w=[f"see {max(n, 5)}" for n in range(100)]), {}, "95 different texts in 100 rows"),
        (lambda p: csv(p, "id|v\na|1\nb|2\n"), {}, r"one column, called 'id\|v': what stands between .* '\|'; write a comma"),
        (lambda p: csv(p, " id  v\n a  0.1\n b  2.5\n"), {}, "what stands between columns seems to be spaces; write a comma"),
        (lambda p: csv(p, "id,v\n" + "".join(f"a,{n / 4}%\n" for n in range(9))), {}, "numbers with units, such as '0.0%'"),
        (lambda p: csv(p, "v\n12 ms\n.5 ms\n"), {}, "numbers with units, such as '12 ms'; write the numbers alone"),
        (lambda p: csv(p, "id,v\na,1\n", "utf-16"), {}, "is UTF-16 or no text; save it again as UTF-8"),
        (lambda p: csv(p, "v\n1\n", "utf-16-le"), {}, "is UTF-16 or no text; save it again as UTF-8"),
        (lambda p: csv(p, "id,v,label\na,1,ü\n", "latin-1"), {}, "column 'label' of .* is not UTF-8; save the file again as"),
        (lambda p: csv(p, "id,v,ü\na,1,2\n", "latin-1"), {}, "t.csv is not UTF-8; save it again as UTF-8"),
        (lambda p: csv(p, "id,c\n" + "a,u\n" * 1_500_000 + "a,ü\n", "latin-1"), {}, "t.csv is not UTF-8; save it again as"),
        (lambda p: csv(p, "id,v,v\na,1,2\n"), {}, "two columns called 'v'"),
        (lambda p: csv(p, ""), {}, "is empty"),
        (lambda p: csv(p, "id,v\n"), {}, "has no rows"),
        (lambda p: csv(p, "id,v\na,1,2,3\n"), {}, "cannot be read as CSV"),
        (lambda p: csv(p, "id\na\n"), {}, "no column left for values"),
        (lambda p: csv(p, "id,ds,v\na,yesterday,1\n"), {}, "time 'ds' .* cannot be read as timestamp"),
        (lambda p: parquet(p, id=["a", "a"], ds=[2, 1], v=[1.0, 2]), {}, "has times that are not in order .*; sort"),
        (lambda p: parquet(p, id=["a", "a"], ds=[1, 1], v=[1.0, 2]), {}, "the same time twice .*; keep one row .*--id COLUMN"),
        (lambda p: parquet(p, id=["a", "b", "a"], ds=[2, 1, 1], v=[1.0, 2, 3]), {}, "sequence 'a' has times that are not"),
        (lambda p: parquet(p, id=["a", None], v=[1.0, 2]), {}, r"column 'id' of .* has 1 empty row"),
        (lambda p: parquet(p, id=[1.5, 2.5], v=[1.0, 2]), {}, "ids are whole numbers or texts"),
        (lambda p: parquet(p, id=["a", "a"], ds=[1, None], v=[1.0, 2]), {}, "time 'ds' of .* is missing in 1 row"),
        (lambda p: parquet(p, id=["a"], v=[[1.0, 2]]), {}, "which is no value of a step"),
        (lambda p: parquet(p, id=["a", "b"], v=[1.0, float("inf")]), {}, "channel 'v' of sequence 'b' has an infinite value"),
        (lambda p: parquet(p, id=["a", "b"], v=[1.0, None]), {}, "all values of sequence 'b' are missing"),
        (lambda p: parquet(p, id=["a", "a"], v=[1.0, 2], label=["x", "y"]), {"targets": "sequence"}, "two values for"),
        (lambda p: parquet(p, id=["a", "b"], v=[1.0, 2], label=[1.0, None]), {"targets": "sequence"}, "missing for sequence"),
        (lambda p: parquet(p, id=["a", "a"], v=[1.0, 2], g=["x", "y"]), {"group": "g"}, "two values for its group"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_left(tmp_path, make, options, said):
    path = make(tmp_path)
    with pytest.raises(UserError, match=said) as caught:
        cache(table(path, **options), tmp_path / "c")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"id": [1, 2], "v": [1.0, 2]}, "ids in column 'id' are texts in the first file and whole numbers in"),
        ({"id": ["c", "d"], "v": ["x", "y"]}, "column 'v' is number in the first file and text in"),
        ({"id": ["c", "d"], "w": [1.0, 2]}, "has no column 'v' for what the first file has"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_that_differ(tmp_path, second, said, ending):
    one = write_table(pa.table({"id": ["a", "b"], "v": [1.0, 2]}), tmp_path / f"1.{ending}")
    two = write_table(pa.table(second), tmp_path / f"2.{ending}")
    with pytest.raises(UserError, match=said):
        cache(table([one, two]))


def test_a_parquet_file_that_is_damaged_or_of_a_newer_version(tmp_path):
    path = write_table(panel(), tmp_path / "t.parquet")
    content = path.read_bytes()
    for damaged in (
        content[: len(content) // 2],
        b"PAR2" + content[4:-4] + b"PAR2",
        content[:-8] + b"\xff" * 4 + content[-4:],
        b"",
    ):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="cannot be read as Parquet: it is damaged, not such a file, or of a newer version"):
            cache(table(path))


def test_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        find(tmp_path / "nothing.csv")
    with pytest.raises(UserError, match="give a path, several"):
        find([])
    path = write_table(panel(), tmp_path / "t.csv")
    with pytest.raises(UserError, match="'colour' is no option of table: id, time"):
        find(path, colour=3)


def test_a_csv_file_in_a_truncated_gzip(tmp_path):
    import gzip

    text = "id,v\n" + "".join(f"a,{i * 7919 % 1000003}\n" for i in range(50_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode())[:-5000])
    with pytest.raises(UserError, match="truncated or damaged"):
        cache(table(tmp_path / "t.csv.gz"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert cache(table(tmp_path / "t.csv.gz")).lengths.tolist() == [50_000]


def test_a_sequence_in_the_files_of_two_parts(tmp_path):
    one = write_table(pa.table({"id": [0, 1], "v": [1.0, 2]}), tmp_path / "train.csv")
    two = write_table(pa.table({"id": [1, 2], "v": [1.0, 2]}), tmp_path / "test.csv")
    said = "sequence '1' of .* has two values for its part; a sequence has one; give sequences of different parts different ids"
    with pytest.raises(UserError, match=said):
        cache(table({"training": one, "test": two}))
