"""Long tables: every format gives the same sequences, whatever the order of the rows and the names of the columns."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from hrnn.data import cache, find, table
from hrnn.data.times import nanoseconds
from hrnn.errors import UserError
from tests.data.made import panel, write_table


def rows(sequences, number):
    return sequences.read(number).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "arrow"])
def test_every_format_gives_the_same_sequences(tmp_path, ending):
    made = panel()
    sequences = cache(table(write_table(made, tmp_path / f"panel.{ending}"), group="who"))
    assert list(sequences.ids) == [f"s{i}" for i in range(6)]
    assert sequences.lengths.tolist() == [5, 6, 7, 8, 9, 10]
    assert sequences.layout.channels == ("y", "x1")
    assert sequences.layout.target == "sequence"
    labels = sequences.labels["target"]
    assert [labels[int(code)] for code in sequences.fact("target")] == ["down", "up"] * 3
    assert [sequences.labels["group"][int(code)] for code in sequences.fact("group")] == [f"person {i % 3}" for i in range(6)]
    expected = np.stack([made["y"].to_numpy(), made["x1"].to_numpy()], 1).astype(np.float32)
    assert np.array_equal(np.concatenate([sequences.read(n) for n in range(6)]), expected)
    assert np.array_equal(sequences.read(2, 3, 5), expected[14:16])
    assert sequences.times(3).tolist() == list(range(8))


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("names", [("x", "y"), ("y", "x"), ("a", "target"), ("b", "Y", "a", "target", "c")])
def test_channels_stand_in_the_order_of_the_file(tmp_path, names, ending):
    """Arrays and streams without names are taken by position: whoever writes such a file must be able to rely on it."""
    made = pa.table({"id": ["s"] * 3} | {name: [place, place + 0.5, place + 1.0] for place, name in enumerate(names)})
    sequences = cache(table(write_table(made, tmp_path / f"t.{ending}")))
    assert sequences.layout.channels == names
    assert sequences.read(0)[0].tolist() == list(range(len(names)))


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_files_of_a_folder_may_have_their_columns_in_another_order(tmp_path, ending):
    columns = {"label": ["p", "q"], "code": ["c", "d"], "y": [1.0, 2], "time": [0, 1], "a": [3.0, 4]}
    orders = (list(columns), list(reversed(columns)), sorted(columns))
    for place, order in enumerate(orders):
        write_table(pa.table({name: columns[name] for name in order}), tmp_path / f"{place}.{ending}")
    sequences = cache(find(tmp_path))
    assert sequences.layout.channels == ("code", "y", "a")
    for number in range(3):
        assert sequences.read(number).tolist() == [[0, 1, 3], [1, 2, 4]]
        assert sequences.step_targets(number).tolist() == [0, 1]
        assert sequences.times(number).tolist() == [0, 1]


def test_rows_of_different_ids_may_be_mixed(tmp_path, monkeypatch):
    monkeypatch.setattr("hrnn.data.table_files.ROWS", 4)
    monkeypatch.setattr("hrnn.data.growing.BLOCK", 3)
    made = panel()
    order = np.lexsort((made["unique_id"].to_numpy(zero_copy_only=False), made["ds"].to_numpy()))
    straight = cache(table(write_table(made, tmp_path / "a.parquet")))
    mixed = cache(table(write_table(made.take(order), tmp_path / "b.parquet")))
    assert list(mixed.ids) == list(straight.ids)
    for number in range(6):
        assert np.array_equal(mixed.read(number), straight.read(number))
        assert np.array_equal(mixed.times(number), straight.times(number))
    assert np.array_equal(mixed.fact("target"), straight.fact("target"))


def test_steps_keep_their_own_targets_when_they_are_brought_together(tmp_path):
    made = pa.table({"id": ["a", "b", "a", "b"], "v": [1.0, 2, 3, 4], "label": [10, 20, 30, 40]})
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    assert sequences.layout.target == "step"
    assert sequences.step_targets(0).tolist() == [10, 30]
    assert sequences.step_targets(1).tolist() == [20, 40]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_steps_may_have_no_target(tmp_path, ending):
    made = pa.table({"id": ["a"] * 4, "v": [1.0, 2, 3, 4], "label": ["x", None, "y", ""], "n": [1.5, None, 2, 3]})
    path = write_table(made, tmp_path / f"t.{ending}")
    texts = cache(table(path))
    assert texts.labels["target"] == ["x", "y"]
    np.testing.assert_array_equal(texts.step_targets(0), [0, np.nan, 1, np.nan])
    numbers = cache(table(path, target="n", values=["v"]))
    np.testing.assert_array_equal(numbers.step_targets(0), [1.5, np.nan, 2, 3])


def test_parts_of_files_come_before_a_column(tmp_path):
    made = pa.table({"id": ["a", "b"], "v": [1.0, 2], "split": ["train", "test"]})
    path = write_table(made, tmp_path / "t.parquet")
    assert cache(table(path)).labels["part"] == ["training", "test"]
    sequences = cache(table({"val": path}))
    assert sequences.labels["part"] == ["validation"]
    assert sequences.layout.channels == ("v",)
    with pytest.raises(UserError, match=r"sequence 'a' of .* has two values for its part; a sequence has one"):
        cache(table({"train": path, "test": path}))


@pytest.mark.parametrize(
    ("names", "channels", "target"),
    [
        (("unique_id", "ds", "y"), ("y",), None),
        (("item_id", "timestamp", "target"), ("target",), None),
        (("id", "time", "class"), (), "class"),
        (("ID", "Date", "y"), ("y",), None),
    ],
)
def test_names_in_use_are_found(tmp_path, names, channels, target):
    made = pa.table({names[0]: ["a", "a", "b"], names[1]: [0, 1, 0], names[2]: [1.0, 1.0, 2.0], "other": [5.0, 6.0, 7.0]})
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    assert sequences.layout.channels == (*channels, "other")
    assert sequences.layout.target_name == target
    assert len(sequences) == 2


@pytest.mark.parametrize(
    ("index", "channels"),
    [
        ([0, 1, 2, 3], ("volume",)),
        ([1, 2, 3, 4], ("volume",)),
        ([0, 1, 0, 1], ("volume",)),  # each sequence's own
        ([100, 101, 102, 103], ("index", "volume")),
        ([0, 1, 2, 1], ("index", "volume")),
        ([0.0, 0.5, 1.0, 1.5], ("index", "volume")),
        (["a", "b", "a", "b"], ("index", "volume")),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_index_is_a_value_unless_it_counts_rows(tmp_path, index, channels, ending):
    made = pa.table({"id": list("aabb"), "time": [0, 1, 0, 1], "index": index, "volume": [1.0, 2.0, 3.0, 5.0]})
    path = write_table(made, tmp_path / f"t.{ending}")
    assert cache(table(path)).layout.channels == channels
    assert cache(table(path, values=["index"])).layout.channels == ("index",)


def test_without_an_id_a_file_is_one_sequence(tmp_path):
    one = write_table(pa.table({"v": [1.0, 2, 3]}), tmp_path / "one.csv")
    two = write_table(pa.table({"v": [4.0]}), tmp_path / "two.csv")
    assert cache(table(one)).lengths.tolist() == [3]
    both = cache(table({"train": one, "test": two}))
    assert list(both.ids) == ["one.csv", "two.csv"]
    assert both.labels["part"] == ["training", "test"]


def test_files_of_the_same_name_are_told_apart_by_their_folders(tmp_path):
    names = ["p/x/data.csv", "p/y/data.csv", "q/x/data.csv", "q/other.csv"]
    for place, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_table(pa.table({"v": [float(place)] * (place + 1)}), tmp_path / name)
    two = cache(table([tmp_path / name for name in names[:2]]))
    assert (list(two.ids), two.lengths.tolist()) == (["x/data.csv", "y/data.csv"], [1, 2])
    every = cache(table([tmp_path / name for name in names]))
    assert list(every.ids) == ["p/x/data.csv", "y/data.csv", "q/x/data.csv", "other.csv"]
    assert every.lengths.tolist() == [1, 2, 3, 4]
    with pytest.raises(UserError, match=r"p/x/data.csv is given twice, and without ids it is one sequence; give it once"):
        cache(table([tmp_path / names[0], tmp_path / names[0]]))


def test_a_sequence_goes_on_in_the_next_file(tmp_path):
    files = [
        write_table(pa.table({"id": ["a", "a"], "v": [1.0, 2]}), tmp_path / "1.parquet"),
        write_table(pa.table({"id": ["a", "b"], "v": [3.0, 4]}), tmp_path / "2.parquet"),
    ]
    sequences = cache(table(files))
    assert [sequences.read(n)[:, 0].tolist() for n in range(2)] == [[1, 2, 3], [4]]


def test_missing_values_become_the_last_one(tmp_path, monkeypatch):
    monkeypatch.setattr("hrnn.data.filling.blocks", lambda n: ((i, min(i + 2, n)) for i in range(0, n, 2)))
    made = pa.table(
        {"id": list("aaaaabbb"), "v": [None, 1.0, None, None, 2.0, None, 5.0, None], "w": [float(i) for i in range(8)]}
    )
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    np.testing.assert_array_equal(sequences.read(0)[:, 0], [np.nan, 1, 1, 1, 2])
    np.testing.assert_array_equal(sequences.read(1)[:, 0], [np.nan, 5, 5])
    assert sequences.missing(0)[:, 0].tolist() == [True, False, True, True, False]
    assert sequences.missing(1, 1)[:, 0].tolist() == [False, True]
    assert not sequences.missing(0)[:, 1].any()
    assert rows(sequences, 1)[1] == [5, 6]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_texts_are_categories_and_alone_they_are_tokens(tmp_path, ending):
    made = pa.table({"id": ["a", "a", "b"], "v": [1.0, 2, 3], "c": ["red", "blue", None]})
    sequences = cache(table(write_table(made, tmp_path / f"t.{ending}")))
    assert sequences.layout.categorical == ("c",)
    words = sequences.vocabularies["c"]
    assert [words[int(row[1])] for n in range(2) for row in rows(sequences, n)] == ["red", "blue", ""]
    tokens = cache(table(tmp_path / f"t.{ending}", values=["c"]))
    assert tokens.layout.tokens
    assert tokens.read(0).dtype == np.uint8
    assert [tokens.vocabularies["c"][code] for code in tokens.read(0)] == ["red", "blue"]


def test_more_than_256_tokens_widen_what_is_written_already(tmp_path):
    words = [f"w{i}" for i in range(70_000)]
    pyarrow.feather.write_feather(pa.table({"c": words + words[::-1]}), tmp_path / "t.feather")
    sequences = cache(table(tmp_path / "t.feather", id=False))
    assert sequences.read(0).dtype == np.uint32
    assert [sequences.vocabularies["c"][code] for code in sequences.read(0)] == words + words[::-1]


def test_whole_numbers_are_categories_where_that_is_said(tmp_path):
    path = write_table(pa.table({"id": ["a", "a"], "v": [1.5, 2.5], "c": [7, 9]}), tmp_path / "t.csv")
    assert cache(table(path)).layout.categorical == ()
    sequences = cache(table(path, categorical=["c"]))
    assert sequences.vocabularies["c"] == ["7", "9"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_that_pandas_made_floats_are_the_same_categories(tmp_path, ending):
    """As soon as one is missing."""
    first = write_table(pa.table({"id": ["a", "a"], "v": [1.5, 2.5], "c": [7, 9]}), tmp_path / f"1.{ending}")
    (tmp_path / "2.csv").write_text("id,v,c\nb,1.5,9.0\nb,2.5,\nb,3.5,2.5\n")
    floats = pa.table({"id": ["b", "b", "b"], "v": [1.5, 2.5, 3.5], "c": [9.0, None, 2.5]})
    second = tmp_path / "2.csv" if ending == "csv" else write_table(floats, tmp_path / "2.parquet")
    sequences = cache(table([first, second], categorical=["c"]))
    assert sequences.vocabularies["c"] == ["7", "9", "", "2.5"]


def test_whole_numbers_of_a_csv_file_may_turn_out_to_be_none(tmp_path, monkeypatch):
    monkeypatch.setattr("hrnn.data.csv_files.BLOCK", 64)
    text = "id,v,w\n" + "a,1,\n" * 50 + "a,1.5,3\n"
    (tmp_path / "t.csv").write_text(text)
    sequences = cache(table(tmp_path / "t.csv"))
    assert sequences.read(0)[-1].tolist() == [1.5, 3]
    assert sequences.manifest["missing"] == [0, 50]


@pytest.mark.parametrize("header", ["id, time, x, c, label", 'id,"time", "x" ,c , "label"'])
def test_spaces_behind_commas_are_no_part_of_names_and_cells(tmp_path, header):
    at = "2024-01-01 10:00"
    (tmp_path / "t.csv").write_text(f"{header}\na, {at}:00, 1.5, red, up\na, {at}:01,  , red, up\nb, {at}:00, 2, blue, down\n")
    sequences = cache(table(tmp_path / "t.csv"))
    assert (list(sequences.ids), sequences.layout.channels, sequences.layout.target) == (["a", "b"], ("x", "c"), "sequence")
    assert (sequences.labels["target"], sequences.vocabularies["c"]) == (["up", "down"], ["red", "blue"])
    assert np.diff(sequences.times(0)).tolist() == [1_000_000]
    assert sequences.manifest["missing"] == [1, 0]


def test_a_space_may_be_a_token_and_labels_never_begin_with_one(tmp_path):
    (tmp_path / "t.csv").write_text("id,letter,label\na,x, up\na, ,up\nb, x,down\n")
    sequences = cache(table(tmp_path / "t.csv"))
    assert (sequences.vocabularies["letter"], sequences.labels["target"]) == (["x", " ", " x"], ["up", "down"])


@pytest.mark.parametrize(("ending", "delimiter"), [("csv", ";"), ("tsv", "\t")])
def test_decimal_commas(tmp_path, ending, delimiter):
    rows = [
        ["id", "time", "x", "w", "c"],
        ["a", "0,5", "3,5", "1", "u,v"],
        ["a", "1,5", '"-4,25e1"', "2", "u"],
        ["a", "2", "", ",5", "u"],
    ]
    (tmp_path / f"t.{ending}").write_text("\r\n".join(delimiter.join(row) for row in rows))
    sequences = cache(table(tmp_path / f"t.{ending}"))
    assert sequences.layout.categorical == ("c",)
    assert sequences.read(0)[:, :2].tolist() == [[3.5, 1], [-42.5, 2], [-42.5, 0.5]]
    assert sequences.times(0).tolist() == [0.5, 1.5, 2]


@pytest.mark.parametrize("text", ['"id";"Temp, °C";"p, bar, abs"\na;3,5;1\n', '"id"\t"Temp, °C"\t"p, bar, abs"\na\t3,5\t1\n'])
def test_names_in_quotes_may_have_what_stands_between_others(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, "utf-8")
    sequences = cache(table(tmp_path / "t.csv"))
    assert sequences.layout.channels == ("Temp, °C", "p, bar, abs")
    assert sequences.read(0).tolist() == [[3.5, 1]]
    (tmp_path / "t.csv").write_text('"id","letter, or none","x"\na, ,1\na,u,1\n')  # a space in a name is none around it
    assert cache(table(tmp_path / "t.csv")).vocabularies["letter, or none"] == [" ", "u"]
    (tmp_path / "t.csv").write_text('"id","Temp, °C","v"\na,1,2\n' + "a,1,2\n" * 1_500_000 + "a,1,x\n", "utf-8")
    with pytest.raises(UserError, match="column 'v' of"):
        cache(table(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("column", "tokens"),
    [
        ([f"word {n}" for n in range(200)], True),  # alone, tokens may be many
        ([f"place {n % 100}" for n in range(200)], False),
        (["1.2.3", "1.10.0"] * 100, False),
        (["10,20,30", "left"] * 100, False),
        (["1", "2"] * 100, False),
        (["10k", "5G", "3D", "100 m"] * 50, False),
        ([f"door {n} 1.5" for n in range(200)], True),
    ],
)
def test_texts_that_are_names(tmp_path, column, tokens):
    made = {"c": column} | ({} if tokens else {"v": [1.0] * 200})
    sequences = cache(table(write_table(pa.table(made), tmp_path / "t.parquet")))
    assert sequences.vocabularies["c"] == list(dict.fromkeys(column))
    assert sequences.layout.tokens == tokens


@pytest.mark.parametrize("column", [["3,5"] * 200, [f"{n // 20 + 1}.2.2024 10:{n % 20 + 10}" for n in range(200)]])
def test_texts_are_names_where_that_is_said(tmp_path, column):
    path = write_table(pa.table({"v": [1.0] * 200, "c": column}), tmp_path / "t.parquet")
    assert cache(table(path, categorical=["c"])).vocabularies["c"] == list(dict.fromkeys(column))


def test_ids_keep_their_zeros_in_front(tmp_path):
    (tmp_path / "t.csv").write_text("id;v\n007;1\n7;2\n")
    assert list(cache(table(tmp_path / "t.csv")).ids) == ["007", "7"]


def test_a_table_in_memory(tmp_path):
    made = panel()
    held, written = cache(find(made)), cache(table(write_table(made, tmp_path / "t.parquet")))
    assert list(held.ids) == list(written.ids)
    assert all(np.array_equal(held.read(n), written.read(n)) for n in range(6))
    with pytest.raises(UserError, match="the Table has no column 'lable' for target; did you mean 'label'"):
        cache(table(made, target="lable"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_column_may_be_empty_in_one_of_the_files(tmp_path, ending, order):
    full = pa.table({"id": ["a", "b"], "v": [1.0, 2], "code": ["E1", "E2"]})
    empty = pa.table({"id": ["c", "d"], "v": [3.0, 4], "code": pa.nulls(2)})
    paths = [write_table(one, tmp_path / f"{place}.{ending}") for place, one in enumerate((full, empty))]
    sequences = cache(table([paths[place] for place in order]))
    assert sequences.layout.categorical == ("code",)
    names = sequences.vocabularies["code"]
    assert {
        id: (float(sequences.read(n)[0, 0]), names[int(sequences.read(n)[0, 1])]) for n, id in enumerate(sequences.ids)
    } == {"a": (1, "E1"), "b": (2, "E2"), "c": (3, ""), "d": (4, "")}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_file_may_have_no_targets_for_its_steps(tmp_path, ending, first):
    labelled = pa.table({"id": ["a", "a", "b"], "v": [1.0, 2, 3], "label": ["up", "down", "up"]})
    without = pa.table({"id": ["c", "c"], "v": [3.0, 4], "label": pa.nulls(2)})
    paths = [write_table(one, tmp_path / f"{place}.{ending}") for place, one in enumerate((labelled, without))]
    sequences = cache(table(paths[first:] + paths[:first], target="label"))
    assert (sequences.layout.target, sequences.labels["target"]) == ("step", ["up", "down"])
    found = {name: sequences.step_targets(n).tolist() for n, name in enumerate(sequences.ids)}
    assert (found["a"], found["b"]) == ([0, 1], [0])
    assert np.isnan(found["c"]).tolist() == [True, True]


def test_an_id_without_a_letter(tmp_path):
    made = pa.table({"id": ["", ""], "v": [1.0, 2]})
    assert list(cache(table(made)).ids) == [""]


def test_times_of_nineteen_digits_stay_apart(tmp_path):
    (tmp_path / "t.csv").write_text("time,v\n1700000000000000001,1\n1700000000000000002,2\n")
    assert np.diff(cache(table(tmp_path / "t.csv")).times(0)).tolist() == [1]


def test_columns_of_a_dictionary_type(tmp_path):
    made = pa.table(
        {"id": pa.array(["a", "b"]).dictionary_encode(), "v": [1.0, 2], "c": pa.array(["x", "y"]).dictionary_encode()}
    )
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    assert (list(sequences.ids), sequences.vocabularies["c"]) == (["a", "b"], ["x", "y"])


def test_timestamps_keep_their_unit(tmp_path):
    made = pa.table({"ds": pa.array([0, 1500, 3000], pa.timestamp("ms", tz="UTC")), "y": [1.0, 2, 3]})
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    assert (sequences.layout.time, sequences.times(0).tolist()) == ("timestamp[ms]", [0, 1500, 3000])
    (tmp_path / "t.csv").write_text("date,v\n2020-01-01,1\n2020-01-02,2\n")
    assert np.diff(cache(table(tmp_path / "t.csv")).times(0)).tolist() == [86400]


@pytest.mark.parametrize(
    "text", ["2024-02-29", "1969-12-31 23:59:59.25", "2024-01-01 05", "2024-01-01T05:06", "2024-01-01 00:00:07"]
)
def test_single_timestamps_are_read_as_those_of_tables(tmp_path, text):
    (tmp_path / "t.csv").write_text(f"time,v\n1900-01-01 00:00:00.000000001,1\n{text},2\n")
    sequences = cache(table(tmp_path / "t.csv"))
    assert sequences.layout.time == "timestamp[ns]"
    found = nanoseconds(text)
    assert found == sequences.times(0)[1]
    moment = datetime.fromisoformat(text)
    east = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert found == nanoseconds(moment) == nanoseconds(east) == nanoseconds(np.datetime64(text)) == nanoseconds(f" {east} ")


def test_what_is_a_timestamp_and_what_is_none():
    noon = nanoseconds("2024-01-01 12:00:00")
    assert nanoseconds("2024-01-01T13:00:00.123456789+01:00") == noon + 123_456_789
    assert nanoseconds("2024-01-01 12:00Z") == nanoseconds("2024-01-01 14:00+02") == noon
    assert nanoseconds(date(2024, 1, 1)) == noon - 12 * 3600 * 10**9
    assert nanoseconds(np.datetime64("9999-01-01")) == nanoseconds("9999-01-01")
    texts = ("7", "20240101", "2024", "2024-02-30", "2024-01-01+01", "noon", "", "NaT")
    for wrong in (7, 7.5, True, *texts, np.datetime64("NaT")):
        with pytest.raises(ValueError):  # noqa: PT011
            nanoseconds(wrong)
