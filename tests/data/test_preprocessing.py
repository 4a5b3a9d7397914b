"""Preprocessing: learned on training alone, stored, applied and undone; and parts as a network reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hrnn.data import Part, Preprocessing, arrays, cache, describe, folder, learn, split, table, whole
from hrnn.errors import UserError
from tests.data.made import write_table, write_wav

RANDOM = np.random.default_rng(0)


def ragged(count=30, channels=3, y=None, **options):
    return [RANDOM.normal(5, [1, 10, 100][:channels], size=(4 + i % 5, channels)) for i in range(count)]


def test_normalised_by_the_training_part_only():
    x = ragged()
    made = cache(arrays(x, parts=["train"] * 20 + ["val"] * 5 + ["test"] * 5))
    parts = split(made)
    pre = learn(made, parts)
    training = np.concatenate([x[n] for n in parts["training"].numbers])
    np.testing.assert_allclose(pre.mean, training.mean(0), rtol=1e-6)
    np.testing.assert_allclose(pre.scale, training.std(0), rtol=1e-6)
    inputs = np.concatenate([Part(made, pre, parts["training"]).inputs(row) for row in range(len(parts["training"]))])
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs.std(0), 1, atol=1e-5)
    test = Part(made, pre, parts["test"])
    np.testing.assert_allclose(test.inputs(0), (x[25] - training.mean(0)) / training.std(0), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(test.undo(0, test.inputs(0))[:, 0], x[25], rtol=1e-5)


def test_what_does_not_vary_is_not_blown_up():
    made = cache(arrays([np.stack([np.full(50, 1e6), RANDOM.normal(size=50)], 1)]))
    pre = learn(made, {"training": whole(made)})
    assert pre.scale[0] == 1
    assert np.abs(Part(made, pre).inputs(0)[:, 0]).max() == 0


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (1.7e9 + np.arange(200.0), True),  # 3 different ones are left
        (np.repeat([1e9, 1e9 + 1], 100), True),  # one is
        (np.where(np.arange(200) == 7, np.nan, 1.7e9 + np.arange(200.0)), True),
        (1.7e9 + np.arange(200.0) * 128, False),  # whole in float32
        (1.7e9 + np.arange(20_000.0), False),  # by a third of a percent
        (np.full(200, 1.7e9 + 1), False),
        ((1e6 + np.arange(200.0)).astype(np.float32), False),
    ],
)
def test_what_float32_leaves_too_little_of_is_refused(values, refused, monkeypatch):
    monkeypatch.setattr("hrnn.data.array_sources.BLOCK", 64)
    made = cache(arrays([np.stack([values, np.sin(np.arange(len(values)))], 1).astype(values.dtype)]))
    words = "channel 'x0' has large values that hardly differ: float32, as networks have it, rounds them by up to"
    assert any(words in one for one in describe(made).warnings) == refused
    if refused:
        with pytest.raises(UserError, match=f"^{words}.*% of their range; subtract an offset from it, e.g. its first value"):
            learn(made, {"training": whole(made)})
    else:
        learn(made, {"training": whole(made)})
    other = cache(arrays([RANDOM.normal(size=(9, 2))]))
    assert len(Part(made, learn(other, {"training": whole(other)})).inputs(0)) == len(values)  # whoever has learned may read it


def test_by_sequence_from_what_is_known():
    x = [RANDOM.normal(5 * i, 1 + i, size=(200, 2)) for i in range(3)]
    made = cache(arrays(x))
    parts = split(made, "time")
    pre = learn(made, parts, normalise="sequence")
    for name, spans in parts.items():
        part = Part(made, pre, spans)
        known = x[1][:160]
        expected = (x[1][spans.starts[1] : spans.stops[1]] - known.mean(0)) / known.std(0)
        np.testing.assert_allclose(part.inputs(1), expected, rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(
            part.undo(1, part.inputs(1))[:, 0], x[1][spans.starts[1] : spans.stops[1]], rtol=1e-4, atol=1e-4
        )


def test_not_normalised():
    made = cache(arrays(ragged(5)))
    pre = learn(made, {"training": whole(made)}, normalise="none")
    np.testing.assert_array_equal(Part(made, pre).inputs(2), made.read(2))


def mixed(tmp_path, name="t.parquet"):
    made = pa.table(
        {
            "id": list("aaaabbbb"),
            "ds": [0.0, 1, 2, 4, 0, 1, 2, 3],
            "v": [1.0, None, 3, 4, None, 6, 7, 8],
            "c": ["x", "y", "x", "z", "x", "x", "y", "w"],
            "u": [1.0, 2, 3, 4, 5, 6, 7, None],
            "split": ["train"] * 4 + ["val"] * 4,
        }
    )
    return cache(table(write_table(made, tmp_path / name)))


def test_masks_intervals_and_categories(tmp_path):
    made = mixed(tmp_path)
    parts = split(made)
    pre = learn(made, parts)
    assert pre.masked == ("v",)  # u lacks a value in validation only
    assert pre.interval == 1
    assert pre.vocabularies == ((), ("x", "y", "z"), ())
    assert pre.width == 2 + 1 + 1 + 4
    x = Part(made, pre, parts["training"]).inputs(0)
    mean, scale = np.mean([1, 3, 4]), np.std([1, 3, 4])
    np.testing.assert_allclose(x[:, 0], (np.array([1, 1, 3, 4]) - mean) / scale, rtol=1e-5)
    assert x[:, 2].tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(x[:, 3], [0, 0, 0, np.log(2)], rtol=1e-6)
    assert x[:, 4:].argmax(1).tolist() == [0, 1, 0, 2]
    other = Part(made, pre, parts["validation"]).inputs(0)
    assert other[0, 0] == 0  # before the first value: the mean
    assert other[:, 2].tolist() == [1, 0, 0, 0]
    assert other[3, 4:].tolist() == [0, 0, 0, 1]  # w is unknown
    np.testing.assert_array_equal(Part(made, pre, parts["validation"]).inputs(0, 2, 4), other[2:])
    np.testing.assert_array_equal(Part(made, pre, parts["training"]).inputs(0, 3, 4), x[3:])


def test_changes_since_the_last_step(tmp_path):
    made = mixed(tmp_path)
    parts = split(made)
    pre = replace(learn(made, parts), changes=(0.5, 2.0))
    assert pre.width == 2 + 2 + 1 + 1 + 4
    part = Part(made, pre, parts["training"])
    x = part.inputs(0)
    np.testing.assert_allclose(x[0, 2:4], 0)  # nothing came before
    np.testing.assert_allclose(x[1:, 2:4], np.diff(x[:, :2].astype(float), axis=0) / [0.5, 2.0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.concatenate([part.inputs(0, 0, 1), part.inputs(0, 1, 3), part.inputs(0, 3, 4)]), x)
    assert part.inputs(0, 2, 2).shape == (0, pre.width)
    stored = json.loads(json.dumps(pre.to_json()))
    assert Preprocessing.from_json(stored) == pre
    for wrong in ([1.0], [1.0, 0.0]):
        with pytest.raises(UserError, match="has changes"):
            Preprocessing.from_json({**stored, "changes": wrong})


def test_a_stretch_reads_the_change_from_before_it():
    made = cache(arrays([np.arange(100.0)[:, None] ** 2]))
    parts = split(made, "time")
    pre = replace(learn(made, parts), changes=(1.0,))
    before, after = (made.read(0, at, at + 1)[0, 0] for at in (89, 90))
    x = Part(made, pre, parts["test"]).inputs(0)
    assert parts["test"].starts[0] == 90
    assert x[0, 1] == pytest.approx((after - before) / pre.scale[0], rel=1e-5)


def test_intervals_on_request(tmp_path):
    made = mixed(tmp_path)
    parts = split(made)
    assert learn(made, parts, intervals=False).interval == 0
    regular = cache(table(write_table(pa.table({"ds": range(9), "y": [1.0, 2, 3] * 3}), tmp_path / "r.parquet")))
    assert learn(regular, split(regular)).interval == 0
    assert learn(regular, split(regular), intervals=True).interval == 1


SECONDS = [0, 10, 17, 27, 1000]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def timed(times):
    return cache(table(pa.table({"ds": times, "y": [float(step) for step in range(len(times))]})))


def stamped(unit):
    """A series with timestamps of a unit, from 2024 on."""
    return timed(pa.array([(1_704_067_200 + second) * UNITS[unit] for second in SECONDS], pa.timestamp(unit)))


@pytest.mark.parametrize("trained", UNITS)
def test_intervals_of_timestamps_are_seconds_whatever_their_unit(trained):
    made = stamped(trained)
    pre = learn(made, {"training": whole(made)})
    assert (pre.interval, pre.times) == (10, "timestamps")
    for unit in UNITS:
        np.testing.assert_array_equal(Part(stamped(unit), pre).inputs(0), Part(made, pre).inputs(0))
        assert Part(stamped(unit), pre).inputs(0, 2, 3)[0, 1] == np.float32(np.log(0.7))


def test_nanoseconds_between_timestamps_are_not_lost():
    made = timed(pa.array([1_704_067_200_000_000_000 + step for step in (0, 1, 2, 5)], pa.timestamp("ns")))
    pre = learn(made, {"training": whole(made)})
    assert pre.interval == 1e-9
    np.testing.assert_allclose(Part(made, pre).inputs(0)[:, 1], [0, 0, 0, np.log(3)], rtol=1e-6)


def test_timestamps_and_numbers_are_not_taken_for_each_other():
    stamps, numbers = stamped("s"), timed(SECONDS)
    of_stamps, of_numbers = (learn(one, {"training": whole(one)}) for one in (stamps, numbers))
    assert (of_numbers.interval, of_numbers.times) == (10, "numbers")
    with pytest.raises(UserError, match="times of the data are numbers, and training had timestamps; give timestamps, such as"):
        Part(numbers, of_stamps)
    with pytest.raises(UserError, match="times of the data are timestamps, and training had numbers; give numbers in the same"):
        Part(stamps, of_numbers)
    regular = learn(stamps, {"training": whole(stamps)}, intervals=False)
    assert regular.times is None
    assert Part(numbers, regular).inputs(0).shape == (5, 1)  # nobody reads them


def test_later_data_may_have_other_columns_order_and_vocabulary(tmp_path):
    made = mixed(tmp_path)
    pre = learn(made, split(made))
    later = pa.table({"u": [1.0, 2], "more": [0.0, 0], "c": ["new", "z"], "v": [1.0, 3], "ds": [0.0, 1], "id": ["q", "q"]})
    sequences = cache(table(write_table(later, tmp_path / "later.parquet")))
    x = Part(sequences, pre).inputs(0)
    assert x[:, 4:].argmax(1).tolist() == [3, 2]
    np.testing.assert_allclose(x[0, :2], Part(made, pre).inputs(0)[0, :2])
    less = write_table(later.drop_columns(["v"]), tmp_path / "less.parquet")
    with pytest.raises(UserError, match="the data has no column 'v' for values, which training had"):
        Part(cache(table(less)), pre)


def test_tokens_and_what_is_unknown(tmp_path):
    (tmp_path / "a.txt").write_text("abcabc")
    (tmp_path / "b.txt").write_text("abz")
    made = cache(folder({"train": tmp_path / "a.txt", "val": tmp_path / "b.txt"}))
    parts = split(made)
    pre = learn(made, parts)
    assert (pre.tokens, pre.inputs) == (4, 0)
    assert Part(made, pre, parts["training"]).inputs(0).tolist() == [0, 1, 2, 0, 1, 2]
    assert Part(made, pre, parts["validation"]).inputs(0).tolist() == [0, 1, 3]
    assert Part(made, pre, parts["validation"]).inputs(0).dtype == np.int64
    everything = cache(folder(tmp_path, "bytes"))
    assert learn(everything, {"training": whole(everything)}).tokens == 256


@pytest.mark.parametrize("patch", [1, 3, 8])
def test_patches(patch):
    x = RANDOM.normal(size=(20, 2))
    made = cache(arrays([x], [np.arange(20) % 4]))
    pre = learn(made, {"training": whole(made)}, patch=patch)
    part = Part(made, pre)
    assert part.lengths.tolist() == [-(-20 // patch)]
    assert pre.inputs == 2 * patch
    whole_row = part.inputs(0)
    normal = (x - x.mean(0)) / x.std(0)
    np.testing.assert_allclose(whole_row.reshape(-1, 2)[:20], normal, rtol=1e-4, atol=1e-5)
    assert not whole_row.reshape(-1, 2)[20:].any()
    np.testing.assert_array_equal(part.inputs(0, 1, 2), whole_row[1:2])
    ends = [min(i + patch, 20) - 1 for i in range(0, 20, patch)]
    assert part.step_targets(0).tolist() == [end % 4 for end in ends]
    np.testing.assert_allclose(part.undo(0, whole_row).reshape(-1, 2)[:20], x, rtol=1e-4, atol=1e-4)


def test_classes_and_numbers():
    x = [np.zeros((3, 1))] * 6
    spans = lambda made: {"training": whole(made)}  # noqa: E731
    for y, kind, classes in (
        (list("babbab"), "class", ("a", "b")),
        ([3, 10, 3, 10, 3, 10], "class", ("3", "10")),
        ([True, False] * 3, "class", ("0", "1")),
        ([0.5, 1, 2, 3, 4, 5], "number", ()),
    ):
        made = cache(arrays(x, y))
        pre = learn(made, spans(made))
        assert (pre.target_kind, pre.classes) == (kind, classes)
        part = Part(made, pre)
        if kind == "class":
            assert [pre.classes[part.target(row)] for row in range(6)] == [str(int(v)) if v not in ("a", "b") else v for v in y]
        else:
            np.testing.assert_allclose(pre.undo_target(np.array([part.target(row) for row in range(6)])), y, rtol=1e-6)
    made = cache(arrays(x, [1, 2, 3, 4, 5, 6]))
    assert learn(made, spans(made), target="number").outputs == 1


def test_classes_that_floats_do_not_tell_apart_are_refused(tmp_path):
    """2**53 and 2**53 + 1 are the same float, and would be one class."""
    for first, refused in ((2**53, True), (-(2**60), True), (5 * 10**9, False)):
        columns = {"id": [n // 4 for n in range(24)], "v": [float(n) for n in range(24)]}
        columns["label"] = [first + n // 4 % 2 for n in range(24)]
        for name in ("t.parquet", "t.csv"):
            made = cache(table(write_table(pa.table(columns), tmp_path / name)))
            if not refused:
                assert learn(made, {"training": whole(made)}).classes == (str(first), str(first + 1))
                continue
            said = "are not told apart; write them as texts" if first > 0 else "classes such as -1152921504606846976, and whole"
            with pytest.raises(UserError, match=said):
                learn(made, {"training": whole(made)})


def test_steps_without_a_target():
    made = cache(arrays([np.zeros((4, 1))], [np.array([0, np.nan, 1, 1])]))
    part = Part(made, learn(made, {"training": whole(made)}))
    assert part.step_targets(0).tolist() == [0, -1, 1, 1]
    assert part.class_counts().tolist() == [1, 2]


def test_classes_are_counted_by_part():
    made = cache(arrays([np.zeros((3, 1))] * 5, list("abbab"), parts=["train"] * 3 + ["val"] * 2))
    parts = split(made)
    pre = learn(made, parts)
    assert [Part(made, pre, parts[name]).class_counts().tolist() for name in ("training", "validation")] == [[1, 2], [1, 1]]


def test_what_follows(tmp_path):
    x = np.arange(10.0)
    x[4] = np.nan
    made = cache(arrays([np.stack([x, -x], 1)]))
    pre = learn(made, {"training": whole(made)}, normalise="none")
    y, known = Part(made, pre).next(0, 2, 10, horizon=3)
    assert y.shape == known.shape == (8, 3, 2)
    assert y[0, :, 0].tolist() == [3, 3, 5]
    assert known[:, :, 0].tolist() == [
        [True, False, True], [False, True, True], *([[True] * 3] * 3), [True, True, False], [True, False, False], [False] * 3,
    ]  # fmt: skip
    assert np.array_equal(y[..., 1][known[..., 1]], -y[..., 0][known[..., 0]])


def test_stored_and_read_back_it_is_the_same(tmp_path):
    made = mixed(tmp_path)
    pre = learn(made, split(made), patch=2)
    again = Preprocessing.from_json(json.loads(json.dumps(pre.to_json())))
    assert again == pre
    np.testing.assert_array_equal(Part(made, again).inputs(1), Part(made, pre).inputs(1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 99}, "in format 99"),
        ({"mean": [1.0]}, "has 1 mean for 3 channels"),
        ({"scale": [1, 0, 1]}, "has scale"),
        ({"scale": [1, "x", 1]}, "scale is"),
        ({"mean": [1, float("nan"), 1]}, "mean is"),
        ({"patch": 0}, "patch is 0; give at least 1"),
        ({"normalise": "all"}, "normalise is 'all'"),
        ({"kinds": ["number"] * 3}, "has vocabularies"),
        ({"masked": ["c"]}, "has masked"),
        ({"times": None}, "has times None"),
        ({"classes": ["a"]}, None),
        ({"surprise": 1}, "no option 'surprise'"),
        ({"targets": "step"}, "has target_kind"),
    ],
)
def test_what_was_stored_is_checked(tmp_path, change, said):
    made = mixed(tmp_path)
    entries = learn(made, split(made)).to_json() | change
    if said is None:
        assert Preprocessing.from_json(entries).classes == ("a",)
        return
    with pytest.raises(UserError, match=said):
        Preprocessing.from_json(entries)
    with pytest.raises(UserError, match="lacks kinds"):
        Preprocessing.from_json({name: value for name, value in learn(made, split(made)).to_json().items() if name != "kinds"})


@pytest.mark.parametrize(
    ("y", "parts", "said"),
    [
        (["a"] * 6, "tttvee", "has one class only \\('a'\\)"),
        (list("aababc"), "ttttve", "class 'c' occurs in test only"),
        (list("aabacb"), "ttttve", "class 'c' occurs in validation only"),
    ],
)
def test_classes_that_training_lacks(y, parts, said):
    names = {"t": "train", "v": "val", "e": "test"}
    made = cache(arrays([np.zeros((3, 1))] * 6, y, parts=[names[part] for part in parts]))
    with pytest.raises(UserError, match=said):
        learn(made, split(made))


def test_other_mistakes(tmp_path):
    made = cache(arrays([np.array([[np.nan], [1.0]]), np.array([[2.0], [3.0]])]))
    with pytest.raises(UserError, match="all values of channel 'x0' are missing in the training part"):
        learn(
            made,
            split(made, "time", validation=0.25, test=0.25)
            | {"training": whole(made, [0]).__class__(*[np.array([v]) for v in (0, 0, 1, 1)])},
        )
    with pytest.raises(UserError, match="patch is 0"):
        learn(made, {"training": whole(made)}, patch=0)
    with pytest.raises(UserError, match="have no times"):
        learn(made, {"training": whole(made)}, intervals=True)
    with pytest.raises(UserError, match="normalise is 'x'"):
        learn(made, {"training": whole(made)}, normalise="x")
    one = cache(folder(write_wav(tmp_path / "8" / "a.wav", rate=8000)))
    two = cache(folder(write_wav(tmp_path / "16" / "a.wav", rate=16000)))
    with pytest.raises(UserError, match="the data have 16,000 samples a second, and training had 8,000"):
        Part(two, learn(one, {"training": whole(one)}))
