"""Arrays in memory and in numpy's files, and .ts files."""

from __future__ import annotations

import numpy as np
import pytest

from hrnn.data import archive, array_files, arrays, cache, find
from hrnn.errors import UserError
from tests.data.made import write_ts

RANDOM = np.random.default_rng(0)


def test_a_list_of_arrays_of_different_lengths():
    x = [RANDOM.normal(size=(n, 2)) for n in (3, 7, 1)]
    sequences = cache(arrays(x, ["a", "b", "a"], ids=["i", "j", "k"], groups=[1, 1, 2], parts=["train", "train", "test"]))
    assert sequences.lengths.tolist() == [3, 7, 1]
    assert all(np.array_equal(sequences.read(n), x[n].astype(np.float32)) for n in range(3))
    assert list(sequences.ids) == ["i", "j", "k"]
    assert [sequences.labels["target"][int(code)] for code in sequences.fact("target")] == ["a", "b", "a"]
    assert [sequences.labels["part"][int(code)] for code in sequences.fact("part")] == ["training", "training", "test"]
    assert sequences.labels["group"] == ["1", "2"]


def test_targets_of_steps_and_numbers():
    x = [np.zeros((n, 1)) for n in (3, 2)]
    sequences = cache(arrays(x, [np.array([1, 2, np.nan]), np.array([4, 5])]))
    np.testing.assert_array_equal(sequences.step_targets(0), [1, 2, np.nan])
    assert cache(arrays(x, [0.5, 1.5])).fact("target").tolist() == [0.5, 1.5]


def test_tokens_in_memory():
    sequences = cache(arrays([np.array([7, 7, 300]), np.array([9])], tokens=True))
    assert [[sequences.vocabularies["token"][code] for code in sequences.read(n)] for n in range(2)] == [
        ["7", "7", "300"],
        ["9"],
    ]


@pytest.mark.parametrize(
    ("shape", "lengths", "channels"),
    [((30,), [30], 1), ((30, 2), [30], 2), ((4, 30, 2), [30] * 4, 2), ((1, 70_000, 1), [70_000], 1)],
)
def test_npy(tmp_path, shape, lengths, channels):
    x = RANDOM.normal(size=shape)
    np.save(tmp_path / "x.npy", x)
    sequences = cache(array_files(tmp_path / "x.npy"))
    assert sequences.lengths.tolist() == lengths
    assert np.array_equal(sequences.read(len(sequences) - 1), x.reshape(-1, lengths[0], channels)[-1].astype(np.float32))


@pytest.mark.parametrize("names", [("x_train", "y_train", "x_test", "y_test"), ("X_train", "X_val"), ("xtest", "ytest")])
def test_npz_of_several_parts_are_no_sequences(tmp_path, names):
    np.savez(tmp_path / "a.npz", **{name: np.zeros((4, 1)) for name in names})
    with pytest.raises(UserError, match="write a file with x and y for each part, and name those for others than training in"):
        cache(find(tmp_path / "a.npz"))


def test_npz_of_data_and_targets_or_of_sequences(tmp_path):
    x = RANDOM.normal(size=(4, 9, 2))
    np.savez(tmp_path / "a.npz", X=x, y=np.array(["u", "v", "u", "v"]))
    np.savez(tmp_path / "b.npz", one=x[0], two=x[1, :5])
    labelled = cache(find(tmp_path / "a.npz"))
    assert labelled.labels["target"] == ["u", "v"]
    assert np.array_equal(labelled.read(2), x[2].astype(np.float32))
    several = cache(find(tmp_path / "b.npz"))
    assert (list(several.ids), several.lengths.tolist()) == (["one", "two"], [9, 5])


def test_pickled_arrays_are_refused_and_not_run(tmp_path):
    ragged = np.empty(2, object)
    ragged[:] = [np.zeros(3), np.zeros(4)]
    np.save(tmp_path / "x.npy", ragged, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=ragged)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(UserError, match="holds pickled objects, which could run code"):
            cache(find(tmp_path / name))


def test_ts_files_with_their_parts(tmp_path):
    write_ts(tmp_path / "P_TRAIN.ts", [([[1, 2, 3], [4, None, 6]], "a"), ([[1.5, 2], [3, 4]], "b")])
    write_ts(tmp_path / "P_TEST.ts", [([[9], [8]], "b")])
    sequences = cache(find(tmp_path))
    assert sequences.lengths.tolist() == [1, 3, 2]
    by_id = {name: n for n, name in enumerate(sequences.ids)}
    assert sequences.read(by_id["P_TRAIN/1"]).tolist() == [[1, 4], [2, 4], [3, 6]]
    assert sequences.missing(by_id["P_TRAIN/1"]).tolist() == [[False, False], [False, True], [False, False]]
    assert [sequences.labels["part"][int(code)] for code in sequences.fact("part")] == ["test", "training", "training"]


def test_ts_files_of_regression(tmp_path):
    write_ts(tmp_path / "r.ts", [([[1, 2]], "0.5"), ([[3]], "2")], "@targetlabel true")
    assert cache(archive(tmp_path / "r.ts")).fact("target").tolist() == [0.5, 2]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hello", "before @data; it is no .ts file"),
        ("@problemName x\n", "has no @data"),
        ("@classLabel true a\n@data\n1,2:3:a\n", "channels of different lengths"),
        ("@classLabel true a\n@data\n1,x:a\n", "has 'x' where a number should be"),
        ("@classLabel true a\n@data\n1,2:a\n1:2:a\n", "has 2 channels and the first 1"),
        ("@classLabel true a\n@data\n:a\n", "is empty"),
        ("@targetLabel true\n@data\n1,2:a\n", "which is not a number"),
        ("@timestamps true\n@data\n", "has timestamps; write them as a table"),
        ("@data\n", "is empty"),
    ],
)
def test_ts_files_that_are_none(tmp_path, content, said):
    (tmp_path / "x.ts").write_text(content)
    with pytest.raises(UserError, match=said):
        cache(archive(tmp_path / "x.ts"))


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ([], None, "has no sequences"),
        (3, None, "give a list of arrays"),
        ([np.zeros((2, 1)), np.zeros((0, 1))], None, "sequence '1' is empty"),
        ([np.zeros((2, 1)), np.zeros((2, 3))], None, "has 3 channels and the first has 1"),
        ([np.zeros((2, 1, 1, 1))], None, r"give arrays of numbers, \(time, channels\)"),
        ([[[1, 2], [3]]], None, "rows of different lengths"),
        ([np.zeros((2, 1))], [1, 2], "has 1 sequences and 2 targets"),
        ([np.zeros((2, 1))] * 2, [1, "a"], "mixed types"),
        ([np.zeros((2, 1))], [np.nan], "give a finite number"),
        ([np.zeros((2, 1))], [None], "give a number or a text"),
        ([np.zeros((2, 1))], [np.zeros(3)], r"shape \(3,\) for 2 steps"),
        ([np.array([[np.inf]])], None, "an infinite value"),
        ([np.array([[1e300]])], None, "a value beyond float32"),
        ([np.array([[np.nan]])], None, "all values of sequence '0' are missing"),
    ],
)
def test_arrays_that_are_none(x, y, said):
    with pytest.raises(UserError, match=said):
        cache(arrays(x, y))
