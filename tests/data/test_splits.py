"""Splits: deterministic, never a sequence in two parts, as asked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hrnn.data import arrays, cache, split, table
from hrnn.errors import UserError
from tests.data.made import write_table


def sequences(count=40, seed=0, **options):
    order = np.random.default_rng(seed).permutation(count)
    x = [np.full((5 + i % 7, 1), float(i)) for i in order]
    several = {name: [value(i) for i in order] for name, value in options.items() if callable(value)}
    y = several.pop("y", None)
    return cache(arrays(x, y, ids=[f"id {i}" for i in order], **several))


def ids(made, spans):
    return {made.id(int(n)) for n in spans.numbers}


@settings(max_examples=30)
@given(st.integers(10, 60), st.integers(0, 5), st.sampled_from(["random", "class", "group"]))
def test_no_sequence_is_in_two_parts_and_none_is_lost(count, seed, by):
    made = sequences(count, y=lambda i: "ab"[i % 2], groups=lambda i: i // 3)
    parts = split(made, by, seed=seed, validation=0.2, test=0.2)
    several = [ids(made, spans) for spans in parts.values()]
    assert sum(map(len, several)) == len(set().union(*several)) == count
    assert abs(len(parts["validation"]) - 0.2 * count) <= 3


@pytest.mark.parametrize("by", ["random", "class", "group"])
def test_it_depends_on_ids_and_seed_only(by):
    options = {"y": lambda i: "ab"[i % 2], "groups": lambda i: i // 3}
    one, two = sequences(seed=1, **options), sequences(seed=2, **options)
    names = [{part: ids(made, spans) for part, spans in split(made, by).items()} for made in (one, two)]
    assert names[0] == names[1]
    assert names[0] != {part: ids(one, spans) for part, spans in split(one, by, seed=5).items()}


def test_every_class_is_split_alike():
    made = sequences(100, y=lambda i: "rare" if i < 20 else "often")
    targets, labels = made.fact("target"), made.labels["target"]
    for name, spans in split(made, validation=0.1, test=0.2).items():
        counts = {label: int((targets[spans.numbers] == code).sum()) for code, label in enumerate(labels)}
        share = {"training": 0.7, "validation": 0.1, "test": 0.2}[name]
        assert counts == {"rare": round(20 * share), "often": round(80 * share)}


def test_groups_stay_together():
    made = sequences(30, groups=lambda i: i % 6)
    parts = split(made)
    groups = made.fact("group")
    several = [set(groups[spans.numbers]) for spans in parts.values()]
    assert sum(map(len, several)) == 6


def test_parts_that_are_given():
    made = sequences(30, parts=lambda i: "test" if i < 5 else "train", y=lambda i: "ab"[i % 2])
    parts = split(made)
    assert ids(made, parts["test"]) == {f"id {i}" for i in range(5)}
    assert len(parts["validation"]) == 2  # split off training, half of each class
    assert len(parts["training"]) == 23


def test_by_time_in_one_series():
    made = cache(arrays([np.arange(100.0)]))
    parts = split(made)
    assert [(int(s.starts[0]), int(s.stops[0]), int(s.known[0])) for s in parts.values()] == [
        (0, 80, 80),
        (80, 90, 80),
        (90, 100, 80),
    ]


def test_by_time_at_common_times(tmp_path):
    a, b = range(0, 100), range(50, 100, 2)
    made = pa.table({"id": ["a"] * 100 + ["b"] * 25, "ds": [*a, *b], "y": [0.0] * 125})
    sequences = cache(table(write_table(made, tmp_path / "t.parquet")))
    parts = split(sequences, "time", at=(60, 90))
    assert parts["validation"].starts.tolist() == [60, 5]
    assert parts["test"].starts.tolist() == [90, 20]
    shares = split(sequences, "time", validation=0.2, test=0.2)
    times = [sequences.times(0)[shares[part].starts[0]] for part in ("validation", "test")]
    for number in (0, 1):
        for part, time in zip(("validation", "test"), times, strict=True):
            start = shares[part].starts[number]
            assert sequences.times(number)[start] >= time > sequences.times(number)[start - 1]
    assert 70 <= shares["training"].lengths.sum() <= 80


def test_timestamps_as_text(tmp_path):
    days = pa.array(range(10), pa.int32()).cast(pa.date32())
    sequences = cache(table(write_table(pa.table({"ds": days, "y": [1.0] * 10}), tmp_path / "t.parquet")))
    parts = split(sequences, "time", at=("1970-01-06", "1970-01-09"))
    assert [s.lengths.tolist() for s in parts.values()] == [[5], [3], [2]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"validation": 0.6, "test": 0.6}, "together below 1"),
        ({"by": "group"}, "has no groups"),
        ({"by": "given"}, "the source says of no sequence"),
        ({"by": "class"}, "no targets"),
        ({"by": "colour"}, "give one of given, group"),
        ({"by": "time", "at": (1, 2)}, "have no times"),
    ],
)
def test_what_cannot_be_split(options, said):
    with pytest.raises(UserError, match=said):
        split(sequences(), **options)


def test_too_few_groups():
    with pytest.raises(UserError, match=r"there are 2 group\(s\)"):
        split(sequences(10, groups=lambda i: i % 2))
